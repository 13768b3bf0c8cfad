"""Handing over what was said before a turn to somebody else: each row once to each session.

Root messages of a chat go to the next turn that is begun at its root, a thread's to that thread's
session; how far a session was given them is kept per thread, because one session may span several.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from sqlalchemy import Insert, bindparam, delete, literal_column, select

from clawbot.messages import InboundMessage
from clawbot.ports import InsertOf, Transaction
from clawbot.store.inbox import InboxRow, StoredMeanwhile, put, row_of
from clawbot.store.schema import context_marks, inbox

JOINS_THREAD = "joins_thread"
"""The reason of a row that begins a session in a thread in which others have talked before."""

IS_CONTEXT = inbox.c.state == literal_column("'context'")

_MARK = select(context_marks.c.given_id).where(
    context_marks.c.session_key == bindparam("of_session"),
    context_marks.c.thread == bindparam("of_thread"),
)


def take(tx: Transaction, first: InboxRow, limit: int) -> list[InboxRow]:
    """What the turn that `first` begins is given, oldest first, the newest `limit` of it."""
    if first.chat_type != "group" or not limit:
        return []
    names = {"of_session": first.session_key, "of_thread": first.thread or ""}
    given_id = tx.run(_MARK, names).scalar_one_or_none() or 0
    rows = context_of(
        tx, first.channel, first.chat_id, first.thread, after_id=given_id, limit=limit
    )
    if rows:
        tx.run(
            tx.prepared(_marking),
            {
                "session_key": first.session_key,
                "thread": first.thread or "",
                "given_id": rows[-1].id,
            },
        )
    # What was read from the platform later than it was said has a later row.
    return sorted(rows, key=lambda row: (row.sent_ms or row.accepted_ms, row.id))


def reason_of(tx: Transaction, row_id: int) -> str | None:
    """Why a message waits for completion, perhaps JOINS_THREAD; None if it was only overheard."""
    reason = select(inbox.c.reason).where(inbox.c.id == row_id, inbox.c.state == "received")
    found: str | None = tx.conn.execute(reason).scalar_one_or_none()
    return found


def keep_earlier(tx: Transaction, messages: Sequence[InboundMessage], now_ms: int) -> None:
    """Keep messages of a thread as its context; those that we know already stay what they are.

    A thread's root may have been overheard as one of its chat: it is kept a second time, for the
    thread, because what is given to other sessions is counted there.
    """
    for message in messages:
        try:
            put(tx, message, state="context", now_ms=now_ms, reason=JOINS_THREAD)
        except StoredMeanwhile:
            if not _is_elsewhere(tx, message):
                continue
            identity = f"joined:{message.thread}:{message.identity}"
            copy = replace(message, identity=identity, transport_ids=())
            with suppress(StoredMeanwhile):
                put(tx, copy, state="context", now_ms=now_ms, reason=JOINS_THREAD)


def _is_elsewhere(tx: Transaction, message: InboundMessage) -> bool:
    """Whether a message of a thread was overheard in another place."""
    found = tx.conn.execute(
        select(inbox.c.thread).where(
            inbox.c.channel == message.channel, inbox.c.identity == message.identity, IS_CONTEXT
        )
    ).first()
    return found is not None and found.thread != message.thread


def _marking(insert: InsertOf) -> Insert:
    statement = insert(context_marks)
    made: Insert = statement.on_conflict_do_update(
        index_elements=["session_key", "thread"],
        set_={"given_id": statement.excluded.given_id},
    )
    return made


def prune(tx: Transaction, channel: str, chat_id: str, *, keep: int, since_ms: int) -> None:
    """Forget a chat's context rows beyond the newest `keep`, and those from before `since_ms`."""
    mine = (inbox.c.channel == channel, inbox.c.chat_id == chat_id, IS_CONTEXT)
    oldest_kept = (
        select(inbox.c.id).where(*mine).order_by(inbox.c.id.desc()).offset(keep - 1).limit(1)
    ).scalar_subquery()
    tx.conn.execute(delete(inbox).where(*mine, inbox.c.id < oldest_kept))
    tx.conn.execute(delete(inbox).where(*mine, inbox.c.accepted_ms < since_ms))


def context_of(
    tx: Transaction, channel: str, chat_id: str, thread: str | None, *, after_id: int, limit: int
) -> list[InboxRow]:
    """Context rows of one place after row `after_id`, oldest first, the newest `limit` of them."""
    rows = tx.conn.execute(
        select(inbox)
        .where(
            inbox.c.channel == channel,
            inbox.c.chat_id == chat_id,
            IS_CONTEXT,
            inbox.c.id > after_id,
            inbox.c.thread.is_(None) if thread is None else inbox.c.thread == thread,
        )
        .order_by(inbox.c.id.desc())
        .limit(limit)
    ).mappings()
    return [row_of(row) for row in rows][::-1]
