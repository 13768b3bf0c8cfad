"""What earlier messages of a turn have told of its reply: where people were asked in between, the
reply goes on in a message of its own below their question.

A reply that grows keeps in its row's `text` what was told before it, until it is frozen.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, RowMapping, func, select

from clawbot.messages import ReplyRoute
from clawbot.ports import Transaction
from clawbot.store.schema import outbox


def told_before(tx: Transaction, turn: RowMapping, route: ReplyRoute | None) -> str:
    """What was told when a turn is resumed: all that there was when people were asked, unless a
    further message has begun to grow, which keeps where it began.
    """
    if route is None or not route.can_edit:
        return ""
    if turn["outbox_id"] is None:
        return str(turn["draft_text"])
    found = tx.conn.execute(
        select(outbox.c.text).where(
            outbox.c.id == turn["outbox_id"], outbox.c.state.in_(("streaming", "held"))
        )
    ).scalar_one_or_none()
    return found or ""


def rest_of(text: str, told: str) -> str:
    """What earlier messages have not `told` of a turn's whole reply."""
    return text.removeprefix(told).lstrip("\n") if told else text


def rest_in_row(text: str) -> ColumnElement[str]:
    """The same for a row that grows, in the database."""
    return func.ltrim(func.substr(text, func.length(outbox.c.text) + 1), "\n")
