"""Marks in `inbox` of the signs that stand on messages while they are answered.

They outlive the process that put a sign on, so that another one can take it off.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import and_, bindparam, select, update

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


_IS_RUNNING = and_(inbox.c.state == "claimed", turns.c.state == "running")
_OURS = (
    select(inbox.c.id, inbox.c.route, inbox.c.typing_mark, _IS_RUNNING.label("is_running"))
    .outerjoin(turns, turns.c.id == inbox.c.turn_id)
    .where(inbox.c.channel == bindparam("of_channel"), inbox.c.route.is_not(None))
    .limit(AT_MOST)
)
_RUNNING, _MARKED = _OURS.where(_IS_RUNNING), _OURS.where(inbox.c.typing_mark.is_not(None))


def look(tx: Transaction, channel: str) -> list[Answering]:
    """The messages of a channel whose turns run now, and those that still bear a sign."""
    found = {}
    for query in (_RUNNING, _MARKED):
        for row in tx.run(query, {"of_channel": channel}):
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
