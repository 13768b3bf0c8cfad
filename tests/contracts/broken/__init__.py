"""Stores that break one clause each, by name of the clause: the proof that the contract bites."""

from __future__ import annotations

from tests.contracts.broken.amending import AMENDMENT_BREAKS
from tests.contracts.broken.asking import APPROVAL_BREAKS
from tests.contracts.broken.breaking import Break
from tests.contracts.broken.counting import PEER_BREAKS
from tests.contracts.broken.crowding import WAITING_BREAKS
from tests.contracts.broken.front import INBOX_BREAKS
from tests.contracts.broken.inline import INLINE_BREAKS
from tests.contracts.broken.noting import NOTE_BREAKS
from tests.contracts.broken.paying import COST_BREAKS
from tests.contracts.broken.places import PLACE_BREAKS
from tests.contracts.broken.planning import PLANNING_BREAKS
from tests.contracts.broken.replies import EVENT_BREAKS, OUTBOX_BREAKS
from tests.contracts.broken.revising import REVISION_BREAKS
from tests.contracts.broken.running import FENCE_BREAKS, STOP_BREAKS, TURN_BREAKS
from tests.contracts.broken.tasking import TASK_BREAKS
from tests.contracts.broken.writing import BELL_BREAKS, WRITE_BREAKS

__all__ = ["BREAKS", "Break"]

BREAKS: tuple[Break, ...] = (
    *WRITE_BREAKS,
    *BELL_BREAKS,
    *INBOX_BREAKS,
    *AMENDMENT_BREAKS,
    *TURN_BREAKS,
    *FENCE_BREAKS,
    *PEER_BREAKS,
    *STOP_BREAKS,
    *APPROVAL_BREAKS,
    *COST_BREAKS,
    *WAITING_BREAKS,
    *OUTBOX_BREAKS,
    *REVISION_BREAKS,
    *INLINE_BREAKS,
    *NOTE_BREAKS,
    *PLACE_BREAKS,
    *EVENT_BREAKS,
    *PLANNING_BREAKS,
    *TASK_BREAKS,
)
