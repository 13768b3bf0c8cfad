"""Which replies may be sent now: lanes, and the sessions that are active at their places.

A lane is a chat and a thread in it. Only the oldest row that blocks a lane is claimable; a row
blocks while it is streaming with nothing posted, pending or sending.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    Update,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
    tuple_,
    update,
)

from clawbot.ports import Transaction
from clawbot.store import outbox as replies
from clawbot.store import places
from clawbot.store.outbox import OutboxRow
from clawbot.store.schema import outbox


def _position(table: FromClause = outbox) -> ColumnElement[int]:
    return func.coalesce(table.c.lane_pos, table.c.id * 2)


def _free(blocking: Sequence[str] = ("pending", "sending")) -> Select[int]:
    """The replies that may be sent now; those in a `blocking` state hold up their lane."""
    earlier = outbox.alias("earlier")
    blocked = (
        select(1)
        .where(
            earlier.c.channel == outbox.c.channel,
            earlier.c.chat_id == outbox.c.chat_id,
            earlier.c.lane_thread == outbox.c.lane_thread,
            earlier.c.settled_ms.is_(None),
            earlier.c.skips_lane.is_(False),
            or_(
                earlier.c.state.in_(blocking),
                and_(earlier.c.state == "streaming", earlier.c.has_posted.is_(False)),
            ),
            tuple_(_position(earlier), earlier.c.id) < tuple_(_position(), outbox.c.id),
        )
        .exists()
    )
    return (
        select(outbox.c.id)
        .where(
            outbox.c.channel == bindparam("of_channel"),
            outbox.c.settled_ms.is_(None),
            outbox.c.state.in_(("streaming", "pending")),
            outbox.c.holder.is_(None),
            outbox.c.next_try_ms <= bindparam("now_ms"),
            or_(
                outbox.c.inline_holder.is_(None),
                outbox.c.inline_holder == bindparam("of_holder"),
                outbox.c.inline_until_ms <= bindparam("now_ms"),
            ),
            or_(outbox.c.skips_lane, ~blocked),
        )
        .order_by(_position(), outbox.c.id)
        .limit(bindparam("most"))
        .with_for_update(skip_locked=True)
    )


def _take() -> Update:
    """Hold rows; an inline answer whose time is over goes the other way."""
    is_over = and_(
        outbox.c.inline_holder == bindparam("of_holder"),
        outbox.c.inline_until_ms <= bindparam("now_ms"),
    )
    return (
        update(outbox)
        .where(outbox.c.id.in_(bindparam("ids", expanding=True)))
        .values(
            holder=bindparam("of_holder"),
            inline_holder=case((is_over, None), else_=outbox.c.inline_holder),
        )
    )


_FREE, _TAKE = _free(), _take()


def claim(
    tx: Transaction,
    channel: str,
    holder: str,
    now_ms: int,
    *,
    limit: int,
    split: Callable[[str], list[str]],
    footer: places.Footer = places.no_footer,
    crowded: Collection[str] = (),
) -> list[OutboxRow]:
    """Take the replies of a channel whose turn it is, the oldest lanes first.

    A reply that is claimed for the first time is held instead where its session is not the active
    one of its place, and else given its `footer`, for good.

    The first part of a reply that has none yet is begun here, in the same transaction: `split` cuts
    a text into parts. Streaming replies are taken too; they stay streaming. crowded: chats of which
    none is taken.
    """
    mine = {"of_holder": holder, "now_ms": now_ms}
    wanted = {**mine, "of_channel": channel, "most": limit}
    if crowded:
        free = _FREE.where(outbox.c.chat_id.not_in(crowded))
        ids = list(tx.conn.execute(free, wanted).scalars())
    else:
        ids = list(tx.run(_FREE, wanted).scalars())
    if not ids:
        return []
    tx.run(_TAKE, {**mine, "ids": ids})
    shown = [
        row for row in replies.held(tx, ids, holder) if row.parts or _is_shown(tx, row, now_ms)
    ]
    return [
        row
        if row.parts or row.state != "pending"
        else replies.begin_part(tx, row, holder, 0, split(row.text)[0], now_ms=now_ms)
        for row in (_with_footer(tx, row, footer) for row in shown)
    ]


def _is_shown(tx: Transaction, row: OutboxRow, now_ms: int) -> bool:
    """Decide at its first claim whether a reply is sent or held."""
    if row.visible_no is None and row.file is None and row.state != "streaming":
        return True  # what a command or the gate says is no session's reply
    if row.session_key is None or places.is_shown(tx, row.place, row.session_key):
        return True
    places.hold(tx, row.id, now_ms)
    return False


def _with_footer(tx: Transaction, row: OutboxRow, footer: places.Footer) -> OutboxRow:
    if row.parts or row.session_key is None or row.visible_no is None:
        return row
    line = footer(places.unread_elsewhere(tx, row.place, row.session_key), row.text)
    if not line:
        return row
    tx.conn.execute(update(outbox).where(outbox.c.id == row.id).values(footer=line))
    return replace(row, text=f"{row.text}\n\n{line}")
