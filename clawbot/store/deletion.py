"""The end of a session: all that was said in it is gone, and its key can be used again.

What stays is no content: the row of `sessions` with its counters (so that no number, epoch or fence
ever comes again under the key: a worker that still runs the deleted turn has lost its lease, and a
reader's cursor stays right), one event that tells readers, and of each message its platform
identity, so that a copy that is delivered again is not taken for a new message.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Table, delete, or_, select, update

from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import events, outbox, session_admin, stops, task_runs
from clawbot.store.schema import inbox, messages, metadata, outbox_parts, places, turns
from clawbot.store.schema import outbox as outbox_rows
from clawbot.store.schema import sessions as session_rows

NO_CONTENT = frozenset({"inbox", "outbox", "aliases", "usage"})
"""Tables with a session key that are dealt with by hand, and the one of what was spent, which stays
counted; of all others the rows are removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What was found. messages: entries of its history; withdrawn: messages that waited."""

    had_turn: bool
    withdrawn: int
    messages: int


def delete_session(tx: Transaction, key: SessionKey, now_ms: int) -> Deleted:
    """Stop a session, then remove it. Raise NoSuchSession.

    A worker that runs its turn notices within a second, as for a stop, and writes nothing more.
    """
    session_admin.get(tx, key)
    text_key = str(key)
    stopped = stops.stop(tx, key, now_ms, new_epoch=True)
    task_runs.end_stopped(tx, key, now_ms, "deleted")
    _end_replies(tx, text_key)
    _scrub_inbox(tx, text_key, now_ms)
    removed = 0
    for table in content_tables():
        count = tx.conn.execute(delete(table).where(table.c.session_key == text_key)).rowcount
        removed += count if table is messages else 0
    tx.conn.execute(delete(places).where(places.c.active_session == text_key))
    row = tx.conn.execute(
        update(session_rows)
        .where(session_rows.c.key == text_key)
        .values(
            last_seq=session_rows.c.last_seq + 1,
            fence=session_rows.c.fence + 1,
            owner=None,
            due_ms=None,
            title="",
            settings=None,
            work_dirs=None,
            visible_total=0,
            archived=True,
            deleted_ms=now_ms,
            first_epoch=session_rows.c.epoch,
        )
        .returning(session_rows.c.last_seq, session_rows.c.epoch)
    ).one()
    events.append(tx, key, row[0], row[1], "deleted", {}, now_ms)
    return Deleted(had_turn=stopped.had_turn, withdrawn=stopped.withdrawn, messages=removed)


def content_tables() -> list[Table]:
    """The tables that hold what belongs to one session."""
    return [
        table
        for table in metadata.sorted_tables
        if "session_key" in table.c and table.name not in NO_CONTENT
    ]


def _end_replies(tx: Transaction, text_key: str) -> None:
    """Remove replies; one of which people have seen a part is sent to its end, then forgotten."""
    growing = tx.conn.execute(
        select(outbox_rows.c.id, outbox_rows.c.channel, turns.c.draft_text)
        .join(turns, turns.c.id == outbox_rows.c.turn_id)
        .where(outbox_rows.c.session_key == text_key, outbox_rows.c.state == "streaming")
    )
    for row_id, channel, draft in growing.all():
        outbox.freeze(tx, row_id, draft, channel)
    begun = select(outbox_parts.c.outbox_id).where(outbox_parts.c.outbox_id == outbox_rows.c.id)
    is_on_its_way = outbox_rows.c.settled_ms.is_(None) & or_(
        outbox_rows.c.holder.is_not(None), outbox_rows.c.has_posted, begun.exists()
    )
    mine = outbox_rows.c.session_key == text_key
    tx.conn.execute(
        update(outbox_rows)
        .where(mine, is_on_its_way)
        .values(session_key=None, turn_id=None, inbox_id=None)
    )
    tx.conn.execute(delete(outbox_rows).where(mine))


def _scrub_inbox(tx: Transaction, text_key: str, now_ms: int) -> None:
    mine = inbox.c.session_key == text_key
    tx.conn.execute(
        update(inbox)
        .where(mine, inbox.c.settled_ms.is_(None))
        .values(state="done", reason="deleted", settled_ms=now_ms, enrich_by_ms=None)
    )
    tx.conn.execute(
        update(inbox)
        .where(mine)
        .values(
            text="",
            raw="",
            sender_name="",
            attachments=None,
            route=None,
            turn_id=None,
            session_key=None,
            seq=None,
        )
    )
