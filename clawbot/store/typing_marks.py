"""Marks in `inbox` of the signs that stand on messages while they are answered.

They outlive the process that put a sign on, so that another one can take it off.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import and_, select, update

from clawbot.messages import ReplyRoute
from clawbot.ports import Transaction
from clawbot.store.schema import inbox, turns

AT_MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """A message that is being answered, or bears the sign that it is.

    is_running: whether its turn runs. mark: of the sign, "" without one.
    """

    inbox_id: int
    route: ReplyRoute
    is_running: bool
    mark: str


def look(tx: Transaction, channel: str) -> list[Answering]:
    """The messages of a channel whose turns run now, and those that still bear a sign."""
    is_running = and_(inbox.c.state == "claimed", turns.c.state == "running")
    columns = (inbox.c.id, inbox.c.route, inbox.c.typing_mark, is_running.label("is_running"))
    joined = select(*columns).outerjoin(turns, turns.c.id == inbox.c.turn_id)
    ours = joined.where(inbox.c.channel == channel, inbox.c.route.is_not(None)).limit(AT_MOST)
    found = {}
    for which in (is_running, inbox.c.typing_mark.is_not(None)):
        for row in tx.conn.execute(ours.where(which)):
            found[row.id] = Answering(
                inbox_id=row.id,
                route=ReplyRoute(**row.route),
                is_running=bool(row.is_running),
                mark=row.typing_mark or "",
            )
    return list(found.values())


def note(tx: Transaction, inbox_ids: Collection[int], mark: str | None) -> None:
    """Say by which mark the sign on messages can be ended; None = it is off."""
    tx.conn.execute(update(inbox).where(inbox.c.id.in_(inbox_ids)).values(typing_mark=mark))
