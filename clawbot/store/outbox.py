"""Rows of `outbox`: one a reply, delivered lane by lane, in order, in one or more parts.

    streaming -> pending -> sending -> sent | unknown | dead;   pending -> held -> pending

A lane is a chat and a thread in it. Only the oldest row that blocks a lane is claimable; a row
blocks while it is streaming with nothing posted, pending or sending. A row belongs to its holder
until it is settled; when the holder dies it is free again, and a part that was on its way is
`unknown`: it is sent again only under an idempotency key or after a look-up that did not find it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Insert,
    RowMapping,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from clawbot.errors import LeaseLost
from clawbot.messages import Choice, MessageRef, OutboundFile, Place, ReplyRoute
from clawbot.ports import InsertOf, Transaction
from clawbot.store import places, threads
from clawbot.store.schema import outbox, outbox_parts, turns
from clawbot.store.told import rest_in_row, rest_of
from clawbot.store.topics import draft_topic, outbox_topic

_INSERT = insert(outbox).returning(outbox.c.id)
_IDS: BindParameter[Sequence[int]] = bindparam("ids", expanding=True)
_HELD = (
    select(outbox, turns.c.draft_text, turns.c.draft_progress)
    .outerjoin(turns, turns.c.id == outbox.c.turn_id)
    .where(outbox.c.id.in_(_IDS), outbox.c.holder == bindparam("of_holder"))
    .order_by(outbox.c.id)
)
_PARTS = select(outbox_parts).where(outbox_parts.c.outbox_id.in_(_IDS))
_MINE = update(outbox).where(
    outbox.c.id == bindparam("of_row"), outbox.c.holder == bindparam("of_holder")
)
_LOCK = _MINE.values(holder=outbox.c.holder).returning(outbox.c.id)
_SENDING = _MINE.values(state="sending").returning(outbox.c.id)
_POSTED = _MINE.values(has_posted=True, inline_holder=None).returning(outbox.c.id)
_POSTED_INLINE = _MINE.values(has_posted=True).returning(outbox.c.id)
_PUT_BACK = _MINE.values(
    holder=None, tries=outbox.c.tries + 1, next_try_ms=bindparam("new_next_try_ms")
).returning(outbox.c.id)
# A streaming row may have been frozen meanwhile; that is never undone.
_PUT_BACK_TO_PENDING = _PUT_BACK.values(state="pending")
_NEXT = outbox.alias("next")
_HAS_NEXT = exists().where(
    *(_NEXT.c[name] == outbox.c[name] for name in ("channel", "chat_id", "lane_thread")),
    _NEXT.c.settled_ms.is_(None),
    _NEXT.c.id != outbox.c.id,
)
_NEW_STATE = bindparam("new_state", type_=Text)
# What was revised since it was read is brought up to date in its chat: see `revisions`.
_IS_OUTDATED = and_(_NEW_STATE == "sent", outbox.c.revision != bindparam("of_revision"))
_SETTLE = _MINE.values(
    state=case((_IS_OUTDATED, "pending"), else_=_NEW_STATE),
    reason=bindparam("new_reason"),
    holder=None,
    settled_ms=case((_IS_OUTDATED, None), else_=bindparam("now_ms", type_=BigInteger)),
).returning(or_(_HAS_NEXT, outbox.c.settled_ms.is_(None)))
_PART = update(outbox_parts).where(
    outbox_parts.c.outbox_id == bindparam("of_row"), outbox_parts.c.part_no == bindparam("no")
)
_PART_SENT = _PART.values(state="sent", ref=bindparam("new_ref"))
_PART_EDITED = _PART.values(sent_text=bindparam("new_text"), edits=bindparam("new_edits"))
_PART_UNKNOWN = _PART.values(state="unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One message of a reply as far as it has come. `state` is sending, sent or unknown; `begun_ms`
    when the first attempt that may have been taken began, 0 if that was not noted.
    """

    part_no: int
    key: str
    state: str
    ref: str | None
    sent_text: str
    edits: int
    begun_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """A reply in the hands of its holder. `text` is the draft while it is streaming; `is_inline`
    says that its next part goes into the response of a request that the holder keeps open.
    """

    id: int
    channel: str
    state: str
    session_key: str | None
    route: ReplyRoute
    text: str
    progress: str = ""
    tries: int = 0
    created_ms: int = 0
    is_inline: bool = False
    visible_no: int | None = None
    lane_thread: str = ""
    choices: tuple[Choice, ...] = ()
    file: OutboundFile | None = None
    revision: int = 0
    parts: dict[int, Part] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Where it is sent to."""
        return Place(
            channel=self.channel, chat_id=self.route.chat_id, thread=self.lane_thread or None
        )


def part_key(outbox_id: int, part_no: int, created_ms: int) -> str:
    """The idempotency key of a part: the same for every attempt, at most 50 characters."""
    return f"clawbot-{outbox_id}-{part_no}-{created_ms}"


def add(
    tx: Transaction,
    *,
    channel: str,
    route: ReplyRoute,
    state: str,
    text: str,
    now_ms: int,
    session_key: str | None = None,
    turn_id: str | None = None,
    inbox_id: int | None = None,
    visible_no: int | None = None,
    skips_lane: bool = False,
    choices: Sequence[Choice] = (),
    file: OutboundFile | None = None,
) -> int:
    """Put a reply into the outbox; return its id."""
    row_id: int = tx.run(
        _INSERT,
        {
            "channel": channel,
            "chat_id": route.chat_id,
            "lane_thread": route.thread or "",
            "skips_lane": skips_lane,
            "state": state,
            "session_key": session_key,
            "turn_id": turn_id,
            "inbox_id": inbox_id,
            "visible_no": visible_no,
            "route": asdict(route),
            "text": text,
            "choices": [asdict(choice) for choice in choices] or None,
            "file": asdict(file) if file is not None else None,
            "created_ms": now_ms,
        },
    ).scalar_one()
    tx.ring(outbox_topic(channel))
    return row_id


def freeze(
    tx: Transaction, outbox_id: int, text: str, channel: str, visible_no: int | None = None
) -> None:
    """End the growth of a reply, at what no earlier one holds of `text`; holder and parts stay."""
    rest = rest_in_row(text)
    state = case((outbox.c.state == "streaming", "pending"), else_=outbox.c.state)
    tx.conn.execute(
        update(outbox)
        .where(outbox.c.id == outbox_id, outbox.c.state.in_(("streaming", "held")))
        .values(state=state, text=rest, visible_no=visible_no)
    )
    tx.ring(outbox_topic(channel))
    tx.ring(draft_topic(channel))


# -- the holder's side -----------------------------------------------------------------------------


def held(tx: Transaction, ids: Sequence[int], holder: str) -> list[OutboxRow]:
    """The rows of `ids` that `holder` still holds, as they are now, in the order of their ids."""
    rows = tx.run(_HELD, {"ids": ids, "of_holder": holder}).mappings()
    parts: dict[int, dict[int, Part]] = {}
    for part in tx.run(_PARTS, {"ids": ids}).mappings():
        parts.setdefault(part["outbox_id"], {})[part["part_no"]] = _part_of(part)
    return [_row_of(row, parts.get(row["id"], {})) for row in rows]


def _part_of(row: RowMapping) -> Part:
    names = ("part_no", "key", "state", "ref", "sent_text", "edits", "begun_ms")
    return Part(**{name: row[name] for name in names})


def _row_of(row: RowMapping, parts: dict[int, Part]) -> OutboxRow:
    is_streaming = row["state"] == "streaming"
    text = "\n\n".join(part for part in (row["text"], row["footer"]) if part)
    return OutboxRow(
        id=row["id"],
        channel=row["channel"],
        state=row["state"],
        session_key=row["session_key"],
        route=ReplyRoute(**row["route"]),
        text=rest_of(row["draft_text"] or "", row["text"]) if is_streaming else text,
        progress=(row["draft_progress"] or "") if is_streaming else "",
        tries=row["tries"],
        created_ms=row["created_ms"],
        visible_no=row["visible_no"],
        lane_thread=row["lane_thread"],
        choices=tuple(Choice(**choice) for choice in row["choices"] or ()),
        file=OutboundFile(**row["file"]) if row["file"] is not None else None,
        revision=row["revision"],
        is_inline=row["inline_holder"] == row["holder"] and not is_streaming,
        parts=parts,
    )


def begin_part(
    tx: Transaction, row: OutboxRow, holder: str, part_no: int, text: str, now_ms: int = 0
) -> OutboxRow:
    """Say that a part is about to be sent, and that no attempt before was taken; must be committed
    before it is. Return the new row.

    Raise LeaseLost when the row is not the holder's any more: then nothing may be sent.
    """
    # A streaming row may have been frozen since it was read: its state is left alone.
    state = "streaming" if row.state == "streaming" else "sending"
    _change(tx, row.id, holder, _LOCK if state == "streaming" else _SENDING)
    key = part_key(row.id, part_no, row.created_ms)
    values = {"outbox_id": row.id, "part_no": part_no, "key": key, "sent_text": text}
    values["begun_ms"] = now_ms
    tx.run(tx.prepared(_beginning), {**values, "state": "sending"})
    part = Part(
        part_no=part_no,
        key=key,
        state="sending",
        ref=None,
        sent_text=text,
        edits=0,
        begun_ms=now_ms,
    )
    return _with_part(row, part, state)


def _beginning(insert: InsertOf) -> Insert:
    statement = insert(outbox_parts)
    new = statement.excluded
    made: Insert = statement.on_conflict_do_update(
        index_elements=["outbox_id", "part_no"],
        set_={"state": new.state, "sent_text": new.sent_text, "begun_ms": new.begun_ms},
    )
    return made


def _with_part(row: OutboxRow, part: Part, state: str) -> OutboxRow:
    return replace(row, state=state, parts={**row.parts, part.part_no: part})


def part_sent(
    tx: Transaction, row: OutboxRow, holder: str, part_no: int, ref: MessageRef, now_ms: int
) -> OutboxRow:
    """Record that the platform took a part (or an edit of it, when it is settled already)."""
    _change(tx, row.id, holder, _POSTED_INLINE if row.is_inline else _POSTED)
    part = row.parts[part_no]
    settled = replace(part, state="sent", ref=ref.id)
    tx.run(_PART_SENT, {"of_row": row.id, "no": part_no, "new_ref": ref.id})
    if ref.thread is not None and row.session_key is not None:
        threads.learn(tx, row.channel, row.route.chat_id, ref.thread, row.session_key, now_ms)
    return _with_part(row, settled, row.state)


def part_edited(tx: Transaction, row: OutboxRow, holder: str, part_no: int, text: str) -> OutboxRow:
    """Record that a sent part now shows `text`."""
    _change(tx, row.id, holder, _LOCK)
    part = row.parts[part_no]
    edited = replace(part, sent_text=text, edits=part.edits + 1)
    values = {"of_row": row.id, "no": part_no, "new_text": text, "new_edits": edited.edits}
    tx.run(_PART_EDITED, values)
    return _with_part(row, edited, row.state)


def part_unknown(tx: Transaction, row: OutboxRow, holder: str, part_no: int) -> None:
    """Record that nobody knows whether the platform took a part."""
    _change(tx, row.id, holder, _LOCK)
    tx.run(_PART_UNKNOWN, {"of_row": row.id, "no": part_no})


def put_back(
    tx: Transaction, row: OutboxRow, holder: str, *, next_try_ms: int, surely_not_sent: int | None
) -> OutboxRow:
    """Give a reply back for a later try; `surely_not_sent` names a part that did not go out this
    time. One that may have gone out before stays in doubt.

    The returned row is no longer the holder's; its state says `put_back`.
    """
    if surely_not_sent is not None:
        tx.conn.execute(
            delete(outbox_parts).where(
                outbox_parts.c.outbox_id == row.id,
                outbox_parts.c.part_no == surely_not_sent,
                outbox_parts.c.state == "sending",
            )
        )
    statement = _PUT_BACK if row.state == "streaming" else _PUT_BACK_TO_PENDING
    _change(tx, row.id, holder, statement, {"new_next_try_ms": next_try_ms})
    return replace(row, state="put_back")


def settle(
    tx: Transaction, row: OutboxRow, holder: str, state: str, now_ms: int, reason: str = ""
) -> OutboxRow:
    """End a reply as sent, unknown, dead, or put it aside as held; the lane goes on.

    What was sent was seen at its place.
    """
    told = {"new_state": state, "new_reason": reason, "of_revision": row.revision}
    has_next = _change(tx, row.id, holder, _SETTLE, {**told, "now_ms": now_ms})
    if state == "sent" and row.session_key is not None and row.visible_no is not None:
        places.mark_seen(tx, places.viewer_of(row.place), row.session_key, row.visible_no)
    if has_next:
        tx.ring(outbox_topic(row.channel))
    return replace(row, state=state)


def _change(
    tx: Transaction,
    row_id: int,
    holder: str,
    statement: ReturningUpdate[Any],
    values: Mapping[str, object] | None = None,
) -> Any:
    """Lock and change a row, which must be the holder's; return what `statement` returns of it."""
    mine = {"of_row": row_id, "of_holder": holder}
    changed = tx.run(statement, {**mine, **(values or {})}).one_or_none()
    if changed is None:
        raise LeaseLost(f"outbox row {row_id} is not held by {holder}")
    return changed[0]


# -- everybody's side ------------------------------------------------------------------------------


def release_holder(tx: Transaction, holder: str) -> None:
    """Free the replies of a process that has ended; what it was sending is unknown."""
    _free(tx, outbox.c.holder == holder)


def let_go(tx: Transaction, outbox_id: int, holder: str) -> None:
    """Free a reply that its living holder has left off; nothing happens if it is not its own."""
    _free(tx, (outbox.c.holder == holder) & (outbox.c.id == outbox_id))


def _free(tx: Transaction, whose: ColumnElement[bool]) -> None:
    found = tx.conn.execute(
        select(outbox.c.id, outbox.c.channel).where(whose, outbox.c.settled_ms.is_(None))
    )
    rows = list(found)
    if not rows:
        return
    ids = [row[0] for row in rows]
    tx.conn.execute(
        update(outbox_parts)
        .where(outbox_parts.c.outbox_id.in_(ids), outbox_parts.c.state == "sending")
        .values(state="unknown")
    )
    tx.conn.execute(
        update(outbox)
        .where(outbox.c.id.in_(ids), outbox.c.state == "sending")
        .values(state="pending")
    )
    tx.conn.execute(update(outbox).where(outbox.c.id.in_(ids)).values(holder=None))
    for channel in {row[1] for row in rows}:
        tx.ring(outbox_topic(channel))


def count_by_state(tx: Transaction) -> dict[str, int]:
    """How many replies are in each state; for `status`."""
    rows = tx.conn.execute(select(outbox.c.state, func.count()).group_by(outbox.c.state))
    return {row[0]: row[1] for row in rows}
