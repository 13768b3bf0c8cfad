"""Which workers are about to end, and whether replies may come of what they finish meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select

from clawbot.ports import Transaction
from clawbot.store.schema import inbox, processes, sessions

DRAINS: Mapping[str, str] = {"drains": "was asked to stop; it finishes what it has begun"}
"""The fact by which a process that was asked to stop says so."""


def running(tx: Transaction, channel: str) -> tuple[int, int]:
    """How many processes run turns of a channel's messages now, and how many of these drain."""
    answering = (
        select(sessions.c.owner)
        .join(inbox, inbox.c.session_key == sessions.c.key)
        .where(inbox.c.channel == channel, inbox.c.state == "claimed")
    )
    found = tx.conn.execute(select(processes.c.facts).where(processes.c.id.in_(answering)))
    facts = list(found.scalars())
    return len(facts), sum(1 for one in facts if DRAINS.keys() <= (one or {}).keys())
