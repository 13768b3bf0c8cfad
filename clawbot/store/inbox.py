"""Rows of `inbox`: one an event, from its acceptance to its end.

    received -> queued -> claimed -> done | dead        refused
    context  -> queued (the same message arrives again, addressed this time)

The identity is unique per channel. A message that only the mention rule turned away leaves a
context row or none, so that its second, addressed copy is not taken for a duplicate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Insert,
    RowMapping,
    bindparam,
    case,
    func,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningInsert

from clawbot.messages import Attachment, InboundMessage, ReplyRoute, Sender
from clawbot.ports import InsertOf, Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import inbox, seen, sessions
from clawbot.store.topics import TURNS, enrich_topic

ALL = 2**31
TASK, REPORTED = "task", "task_report"
"""Reasons of rows that begin a task beside a conversation, and that bring its report back."""

ALONE = frozenset({TASK, REPORTED})
"""Reasons of rows that are answered in a turn of their own."""


class StoredMeanwhile(Exception):
    """Another process took the same message in; look again and find a duplicate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """An accepted message as a turn sees it.

    turn_id: the turn that answers it; of a message that waits, one that was cut short, in whose
        history it stands.
    """

    id: int
    state: str
    channel: str
    chat_id: str
    chat_type: str
    thread: str | None
    sender: Sender
    text: str
    attachments: tuple[Attachment, ...]
    is_late: bool
    sent_ms: int | None
    accepted_ms: int
    session_key: str
    seq: int
    route: ReplyRoute | None
    command: str | None
    turn_id: str | None = None
    reason: str = ""


def row_of(row: RowMapping) -> InboxRow:
    """Read a row of the table."""
    return InboxRow(
        id=row["id"],
        state=row["state"],
        channel=row["channel"],
        chat_id=row["chat_id"],
        chat_type=row["chat_type"],
        thread=row["thread"],
        sender=Sender(id=row["sender_id"], name=row["sender_name"], is_bot=row["sender_is_bot"]),
        text=row["text"],
        attachments=tuple(Attachment(**item) for item in row["attachments"] or ()),
        is_late=row["is_late"],
        sent_ms=row["sent_ms"],
        accepted_ms=row["accepted_ms"],
        session_key=row["session_key"] or "",
        seq=row["seq"] or 0,
        route=None if row["route"] is None else ReplyRoute(**row["route"]),
        command=row["command"],
        turn_id=row["turn_id"],
        reason=row["reason"],
    )


def known(tx: Transaction, message: InboundMessage) -> RowMapping | None:
    """The row that this message, or an earlier delivery of it, already has."""
    by_identity = {"channel": message.channel, "identity": message.identity}
    row = tx.run(_BY_IDENTITY, by_identity).mappings().one_or_none()
    if row is None and message.transport_ids:
        by_id = {"channel": message.channel, "ids": list(message.transport_ids)}
        row = tx.run(_BY_TRANSPORT_ID, by_id).mappings().one_or_none()
    return row


_KNOWN = select(inbox.c.id, inbox.c.state, inbox.c.session_key)
_BY_IDENTITY = _KNOWN.where(
    inbox.c.channel == bindparam("channel"), inbox.c.identity == bindparam("identity")
)
_BY_TRANSPORT_ID = (
    _KNOWN.join(seen, seen.c.inbox_id == inbox.c.id)
    .where(
        seen.c.channel == bindparam("channel"),
        seen.c.transport_id.in_(bindparam("ids", expanding=True)),
    )
    .limit(1)
)


def put(
    tx: Transaction,
    message: InboundMessage,
    *,
    state: str,
    now_ms: int,
    reason: str = "",
    session: SessionKey | None = None,
    seq: int | None = None,
    route: ReplyRoute | None = None,
    place_thread: str | None = None,
    is_late: bool = False,
    command: str | None = None,
    enrich_by_ms: int | None = None,
) -> int:
    """Store a message, or promote the context row that it left before; return the row's id.

    Raise StoredMeanwhile when another process stored the same message since it was looked for.
    """
    row_id: int | None = tx.run(
        tx.prepared(_putting),
        {
            "channel": message.channel,
            "identity": message.identity,
            "chat_id": message.chat_id,
            "chat_type": message.chat_type.value,
            "sender_id": message.sender.id,
            "sender_name": message.sender.name,
            "sender_is_bot": message.sender.is_bot,
            "sent_ms": message.sent_at_ms,
            "accepted_ms": now_ms,
            "state": state,
            "reason": reason,
            "text": message.text,
            "raw": message.raw,
            "thread": message.thread,
            "attachments": [asdict(item) for item in message.attachments] or None,
            "mentioned": message.mentioned,
            "is_late": is_late,
            "session_key": None if session is None else str(session),
            "seq": seq,
            "route": None if route is None else asdict(route),
            "place_thread": place_thread,
            "command": command,
            "enrich_by_ms": enrich_by_ms,
            "settled_ms": now_ms if state in {"done", "refused"} else None,
        },
    ).scalar_one_or_none()
    if row_id is None:
        raise StoredMeanwhile
    if message.transport_ids and state != "context":
        rows = [
            {
                "channel": message.channel,
                "transport_id": transport_id,
                "inbox_id": row_id,
                "at_ms": now_ms,
            }
            for transport_id in message.transport_ids
        ]
        tx.run(tx.prepared(_marking_seen), rows)
    return row_id


_TAKEN_IN = ("received", "queued", "claimed", "done", "dead")
_PROMOTED = (
    *("state", "reason", "text", "raw", "thread", "attachments", "mentioned", "is_late"),
    *("session_key", "seq", "route", "place_thread", "command", "enrich_by_ms", "settled_ms"),
)


def _putting(insert: InsertOf) -> ReturningInsert[Any]:
    statement = insert(inbox)
    new = statement.excluded
    made: ReturningInsert[Any] = statement.on_conflict_do_update(
        index_elements=["channel", "identity"],
        set_={name: new[name] for name in _PROMOTED},
        where=(inbox.c.state == "context") & (new.state != "context"),
    ).returning(inbox.c.id)
    return made


def _marking_seen(insert: InsertOf) -> Insert:
    statement: Insert = insert(seen).on_conflict_do_nothing()
    return statement


def mark_due(tx: Transaction, session_key: str, now_ms: int) -> None:
    """Say that a turn is wanted; the claim looks whether it is possible.

    The row is written even where a turn is due already: a claim that looks at the same time, and
    does not see this transaction's message yet, must not take the wish back behind it.
    """
    tx.conn.execute(
        update(sessions)
        .where(sessions.c.key == session_key)
        .values(due_ms=func.coalesce(sessions.c.due_ms, now_ms))
    )
    tx.ring(TURNS)


# -- who talks in a place --------------------------------------------------------------------------


def answers_in(tx: Transaction, channel: str, chat_id: str, thread: str) -> bool:
    """Whether a message of this thread was answered, or is about to be; a mere command does not
    make somebody's thread ours.
    """
    found = tx.conn.execute(
        select(inbox.c.id)
        .where(
            inbox.c.channel == channel,
            inbox.c.chat_id == chat_id,
            inbox.c.place_thread == thread,
            inbox.c.session_key.is_not(None),
            inbox.c.command.is_(None),
        )
        .limit(1)
    )
    return found.first() is not None


def bot_run(
    tx: Transaction, channel: str, chat_id: str, thread: str | None, bot_id: str, *, limit: int
) -> int:
    """How often bots were taken in without a person between: in this place any of them, or in all
    threads of the chat this one, which may open a new thread each time. At most `limit`.
    """
    chat = [inbox.c.channel == channel, inbox.c.chat_id == chat_id, inbox.c.state.in_(_TAKEN_IN)]
    place = inbox.c.thread.is_(None) if thread is None else inbox.c.thread == thread

    def run(where: Sequence[ColumnElement[bool]], bots: ColumnElement[bool]) -> int:
        person = select(func.max(inbox.c.id)).where(*where, inbox.c.sender_is_bot.is_(False))
        since = func.coalesce(person.scalar_subquery(), 0)
        found = select(inbox.c.id).where(*where, bots, inbox.c.id > since).limit(limit)
        return len(tx.conn.execute(found).all())

    here = run([*chat, place], inbox.c.sender_is_bot.is_(True))
    return max(here, run(chat, inbox.c.sender_id == bot_id))


# -- enrichment ------------------------------------------------------------------------------------


def take_unenriched(
    tx: Transaction, channel: str, process_id: str, *, limit: int
) -> list[tuple[int, str, int]]:
    """Take messages to complete: (row id, raw payload, deadline). A dead process's are freed."""
    ids = list(
        tx.conn.execute(
            select(inbox.c.id)
            .where(
                inbox.c.channel == channel,
                inbox.c.enrich_by_ms.is_not(None),
                inbox.c.enrich_holder.is_(None),
            )
            .order_by(inbox.c.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        ).scalars()
    )
    if not ids:
        return []
    rows = tx.conn.execute(
        update(inbox)
        .where(inbox.c.id.in_(ids))
        .values(enrich_holder=process_id)
        .returning(inbox.c.id, inbox.c.raw, inbox.c.enrich_by_ms)
    )
    return sorted((row[0], row[1], row[2] or 0) for row in rows)


def complete(
    tx: Transaction, row_id: int, message: InboundMessage | None, now_ms: int
) -> InboxRow | None:
    """End the enrichment of a row: with the completed message, or as it is when that failed.

    Nothing happens (None) when it needs none any more.
    """
    values: dict[str, Any] = {
        "state": case((inbox.c.state == "received", "queued"), else_=inbox.c.state),
        "enrich_by_ms": None,
        "enrich_holder": None,
    }
    if message is not None:
        values |= {
            "text": message.text,
            "sender_name": message.sender.name,
            "attachments": [asdict(item) for item in message.attachments] or None,
        }
    row = (
        tx.conn.execute(
            update(inbox)
            .where(inbox.c.id == row_id, inbox.c.enrich_by_ms.is_not(None))
            .values(**values)
            .returning(inbox)
        )
        .mappings()
        .one_or_none()
    )
    if row is None:
        return None
    if row["state"] == "queued":
        mark_due(tx, row["session_key"], now_ms)
    return row_of(row)


def give_up_enriching(tx: Transaction, overdue_ms: int) -> int:
    """Let messages go on that nobody completed by `overdue_ms`; return how many those were."""
    ids = tx.conn.execute(select(inbox.c.id).where(inbox.c.enrich_by_ms < overdue_ms)).scalars()
    return sum(complete(tx, row_id, None, overdue_ms) is not None for row_id in ids.all())


def ring_enrichers(tx: Transaction, channel: str) -> None:
    """Wake the processes that complete messages of a channel."""
    tx.ring(enrich_topic(channel))


_OPEN_ROWS = (
    select(inbox)
    .where(inbox.c.session_key == bindparam("of_session"), inbox.c.settled_ms.is_(None))
    .order_by(inbox.c.seq)
    .limit(bindparam("most"))
)


# -- what waits ------------------------------------------------------------------------------------


def open_rows(tx: Transaction, session_key: str, *, limit: int | None = None) -> list[InboxRow]:
    """The session's rows that have not ended, in order of arrival."""
    params = {"of_session": session_key, "most": limit or ALL}
    return [row_of(row) for row in tx.run(_OPEN_ROWS, params).mappings()]


def states(tx: Transaction, ids: Sequence[int]) -> dict[int, str]:
    """The states of rows."""
    rows = tx.conn.execute(select(inbox.c.id, inbox.c.state).where(inbox.c.id.in_(ids)))
    return {row[0]: row[1] for row in rows}


def count_by_state(tx: Transaction) -> dict[str, int]:
    """How many rows are in each state; for `status`."""
    rows = tx.conn.execute(select(inbox.c.state, func.count()).group_by(inbox.c.state))
    return {row[0]: row[1] for row in rows}


def note_once(tx: Transaction, channel: str, mark: str, now_ms: int) -> bool:
    """Remember that something was told; False when it was told before under the same mark."""
    # Not by the row count: of an INSERT it is not known on every database.
    told = tx.conn.execute(
        tx.insert(seen)
        .values(channel=channel, transport_id=mark, inbox_id=None, at_ms=now_ms)
        .on_conflict_do_nothing()
        .returning(seen.c.transport_id)
    )
    return told.first() is not None
