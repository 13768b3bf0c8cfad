"""The store contract: what every `ports.Store`, with the units of `clawbot.store`, must keep.

An implementation subclasses `StoreContract` and provides the fixture `ground`; each clause is a
test method of it. `test_store_bites` holds each clause against an implementation that breaks it.
"""

from __future__ import annotations

from tests.contracts.store.amendments import AmendmentClauses
from tests.contracts.store.approvals import ApprovalClauses
from tests.contracts.store.bells import BellClauses
from tests.contracts.store.costs import CostClauses
from tests.contracts.store.events import EventClauses
from tests.contracts.store.fences import FenceClauses
from tests.contracts.store.ground import Ground
from tests.contracts.store.inbox import InboxClauses
from tests.contracts.store.inline import InlineClauses
from tests.contracts.store.notes import NoteClauses
from tests.contracts.store.outbox import OutboxClauses
from tests.contracts.store.peers import PeerClauses
from tests.contracts.store.places import PlaceClauses
from tests.contracts.store.revisions import RevisionClauses
from tests.contracts.store.schedules import ScheduleClauses
from tests.contracts.store.stops import StopClauses
from tests.contracts.store.tasks import TaskClauses
from tests.contracts.store.turns import TurnClauses
from tests.contracts.store.waiting import WaitingClauses
from tests.contracts.store.writes import WriteClauses

__all__ = ["Ground", "StoreContract"]


class StoreContract(
    WriteClauses,
    BellClauses,
    InboxClauses,
    AmendmentClauses,
    TurnClauses,
    FenceClauses,
    PeerClauses,
    StopClauses,
    ApprovalClauses,
    CostClauses,
    WaitingClauses,
    OutboxClauses,
    RevisionClauses,
    InlineClauses,
    NoteClauses,
    PlaceClauses,
    EventClauses,
    ScheduleClauses,
    TaskClauses,
):
    """All clauses."""
