"""Answers that travel in the response of a request which a process holds open.

The process writes itself and a deadline into what waits in the request's chat: open messages, whose
turn passes both on to its reply (`pass_on`), and replies that are ready. Until the deadline only
that process may claim such a reply; the newest request wins. A reply that had no way out is `held`
and goes with the next request of its chat.

A response has no acknowledgement. It counts as sent when it was written; the platform's next
attempt at the same request proves that it was lost, and then the record is taken back.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, bindparam, delete, func, literal_column, or_, select, update

from clawbot.messages import InboundMessage
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store.inbox import put
from clawbot.store.places import last_lane_position
from clawbot.store.schema import inbox, outbox, outbox_parts
from clawbot.store.topics import outbox_topic

RETRY_WINDOW_MS = 20_000
"""Longer than any platform goes on with its attempts at one request."""

NO_WINDOW = "no_window"

_MARK = select(inbox.c.inline_holder, inbox.c.inline_until_ms).where(
    inbox.c.id == bindparam("of_row")
)


def hold(
    tx: Transaction, inbox_id: int, holder: str, until_ms: int, now_ms: int, *, is_again: bool
) -> bool:
    """Say that `holder` can answer in the response to this message's request until then.

    is_again: the platform has asked before, so what was answered then is lost. Return whether an
    answer can be expected.
    """
    message = tx.conn.execute(
        select(inbox.c.channel, inbox.c.chat_id, inbox.c.session_key).where(inbox.c.id == inbox_id)
    ).one()
    if is_again:
        _take_back(tx, inbox_id, holder, now_ms)
    mark = {"inline_holder": holder, "inline_until_ms": until_ms}
    in_chat = (outbox.c.channel == message.channel, outbox.c.chat_id == message.chat_id)
    counts = [
        tx.conn.execute(
            update(inbox)
            .where(
                inbox.c.session_key == message.session_key,
                inbox.c.channel == message.channel,
                inbox.c.chat_id == message.chat_id,
                inbox.c.settled_ms.is_(None),
            )
            .values(mark)
        ).rowcount,
        tx.conn.execute(
            update(outbox).where(*in_chat, _is_open(), outbox.c.state != "streaming").values(mark)
        ).rowcount,
        tx.conn.execute(
            update(outbox)
            .where(*in_chat, _is_held(), outbox.c.reason == NO_WINDOW)
            .values(
                **mark,
                state="pending",
                reason="",
                inbox_id=inbox_id,
                lane_pos=last_lane_position(),
                next_try_ms=0,
                settled_ms=None,
            )
        ).rowcount,
    ]
    if any(counts[1:]):
        tx.ring(outbox_topic(message.channel))
    return any(counts)


def take_more(
    tx: Transaction, message: InboundMessage, session: SessionKey, now_ms: int
) -> int | None:
    """Take in a message that only asks for what waits, if it is one and something waits or is in
    the making; return its row's id.
    """
    if not message.asks_for_more or not _is_awaited(tx, message, str(session)):
        return None
    return put(tx, message, state="done", now_ms=now_ms, reason="more", session=session)


def _is_awaited(tx: Transaction, message: InboundMessage, session_key: str) -> bool:
    in_chat = (outbox.c.channel == message.channel, outbox.c.chat_id == message.chat_id)
    looks = (
        select(outbox.c.id).where(*in_chat, _is_held(), outbox.c.reason == NO_WINDOW),
        select(outbox.c.id).where(*in_chat, _is_open()),
        select(inbox.c.id).where(
            inbox.c.session_key == session_key,
            inbox.c.channel == message.channel,
            inbox.c.chat_id == message.chat_id,
            inbox.c.settled_ms.is_(None),
        ),
    )
    return any(tx.conn.execute(look.limit(1)).first() is not None for look in looks)


def pass_on(tx: Transaction, inbox_id: int, outbox_id: int) -> None:
    """Give a reply the holder and the deadline of the message that it answers."""
    holder, until_ms = tx.run(_MARK, {"of_row": inbox_id}).one()
    if holder is not None:
        tx.conn.execute(
            update(outbox)
            .where(outbox.c.id == outbox_id)
            .values(inline_holder=holder, inline_until_ms=until_ms)
        )


def release_holder(tx: Transaction, holder: str) -> None:
    """Let anybody answer what only a process that has ended could; who it was stays known."""
    for table in (inbox, outbox):
        # Not a plain comparison: that would read every inline answer there ever was, by its index.
        is_mine = func.coalesce(table.c.inline_holder, "") == holder
        tx.conn.execute(
            update(table).where(table.c.settled_ms.is_(None), is_mine).values(inline_until_ms=0)
        )


def _take_back(tx: Transaction, inbox_id: int, holder: str, now_ms: int) -> None:
    """Make what travelled in the lost response unsent again.

    What this very process is sending it takes back itself.
    """
    lost = list(
        tx.conn.execute(
            select(outbox.c.id).where(
                outbox.c.inbox_id == inbox_id,
                outbox.c.inline_holder.is_not(None),
                or_(
                    (outbox.c.state == "sending") & (outbox.c.holder != holder),
                    outbox.c.state.in_(("sent", "unknown"))
                    & (outbox.c.settled_ms > now_ms - RETRY_WINDOW_MS),
                ),
            )
        ).scalars()
    )
    for outbox_id in lost:
        newest = (
            select(func.max(outbox_parts.c.part_no))
            .where(outbox_parts.c.outbox_id == outbox_id)
            .scalar_subquery()
        )
        tx.conn.execute(
            delete(outbox_parts).where(
                outbox_parts.c.outbox_id == outbox_id, outbox_parts.c.part_no == newest
            )
        )
        tx.conn.execute(
            update(outbox)
            .where(outbox.c.id == outbox_id)
            .values(state="pending", reason="", holder=None, next_try_ms=0, settled_ms=None)
        )


# Written so that SQLite sees that its partial indexes hold all that is asked for.


def _is_open() -> ColumnElement[bool]:
    return outbox.c.settled_ms.is_(None)


def _is_held() -> ColumnElement[bool]:
    held: ColumnElement[bool] = outbox.c.state == literal_column("'held'")
    return held
