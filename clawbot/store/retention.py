"""Removing what is older than the admin wants to keep: units of work, each over a few rows.

A table is gone through in windows of its key, from the oldest on, and a unit looks at one window:
it is short, and it does not matter where the last run ended. The newest row of a numbered table
stays, whatever its age, so that no number ever comes again; so does the newest event of a session,
so that a reader's cursor that is older finds a gap.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, delete, func, not_, select, tuple_

from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import costs, deletion
from clawbot.store.schema import blobs, channel_notes, events, inbox, outbox, seen, sessions
from clawbot.store.transcript import SHOWN_ALONE

WINDOW_ROWS = 1000
WINDOW_BLOBS = 16  # parts of a megabyte each
SPARE_PAGES = 2000  # free pages that are left for what comes next
COMPACTED_PAGES = 500
ENDED = ("done", "refused", "dead")
SETTLED = ("sent", "unknown", "dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a unit removed. after: where the next one begins; None = nothing old is left."""

    removed: int
    after: tuple[str, int] | None


BEGINNING = ("", 0)


def sweep_seen(tx: Transaction, before_ms: int, _after: tuple[str, int]) -> Swept:
    """Forget transport ids; their messages are still known by their identity."""
    key = tuple_(seen.c.channel, seen.c.transport_id)
    oldest = (
        select(seen.c.channel, seen.c.transport_id)
        .where(seen.c.at_ms < before_ms)
        .order_by(seen.c.at_ms)
        .limit(WINDOW_ROWS)
    )
    removed = tx.conn.execute(delete(seen).where(key.in_(oldest))).rowcount
    return Swept(removed=removed, after=BEGINNING if removed == WINDOW_ROWS else None)


def sweep_notes(tx: Transaction, before_ms: int, _after: tuple[str, int]) -> Swept:
    """Remove notes that have ended."""
    key = tuple_(channel_notes.c.channel, channel_notes.c.key)
    oldest = (
        select(channel_notes.c.channel, channel_notes.c.key)
        .where(channel_notes.c.until_ms < before_ms)
        .order_by(channel_notes.c.until_ms)
        .limit(WINDOW_ROWS)
    )
    removed = tx.conn.execute(delete(channel_notes).where(key.in_(oldest))).rowcount
    return Swept(removed=removed, after=BEGINNING if removed == WINDOW_ROWS else None)


def sweep_inbox(tx: Transaction, before_ms: int, after: tuple[str, int]) -> Swept:
    """Remove ended messages; what is shown of them in no history entry stays."""
    ids = select(inbox.c.id).where(inbox.c.id > after[1]).order_by(inbox.c.id).limit(WINDOW_ROWS)
    last = tx.conn.execute(select(func.max(ids.subquery().c.id))).scalar_one()
    if last is None:
        return Swept(removed=0, after=None)
    shown_alone = and_(inbox.c.turn_id.is_(None), inbox.c.reason.in_(SHOWN_ALONE))
    removed = tx.conn.execute(
        delete(inbox).where(
            inbox.c.id > after[1],
            inbox.c.id <= last,
            inbox.c.id < select(func.max(inbox.c.id)).scalar_subquery(),
            inbox.c.settled_ms < before_ms,
            inbox.c.state.in_(ENDED),
            not_(shown_alone),
        )
    ).rowcount
    is_old = select(inbox.c.id).where(inbox.c.id > last, inbox.c.accepted_ms < before_ms).limit(1)
    return Swept(removed=removed, after=_next(tx.conn.execute(is_old).first() is not None, last))


def sweep_outbox(tx: Transaction, before_ms: int, after: tuple[str, int]) -> Swept:
    """Remove settled replies with their parts; what is held for somebody stays."""
    ids = select(outbox.c.id).where(outbox.c.id > after[1]).order_by(outbox.c.id).limit(WINDOW_ROWS)
    last = tx.conn.execute(select(func.max(ids.subquery().c.id))).scalar_one()
    if last is None:
        return Swept(removed=0, after=None)
    removed = tx.conn.execute(
        delete(outbox).where(
            outbox.c.id > after[1],
            outbox.c.id <= last,
            outbox.c.id < select(func.max(outbox.c.id)).scalar_subquery(),
            outbox.c.settled_ms < before_ms,
            outbox.c.state.in_(SETTLED),
        )
    ).rowcount
    is_old = select(outbox.c.id).where(outbox.c.id > last, outbox.c.created_ms < before_ms).limit(1)
    return Swept(removed=removed, after=_next(tx.conn.execute(is_old).first() is not None, last))


def _next(has_more: bool, last: int) -> tuple[str, int] | None:  # noqa: FBT001
    return ("", last) if has_more else None


def sweep_events(tx: Transaction, before_ms: int, after: tuple[str, int]) -> Swept:
    """Remove events; of each session the newest stays."""
    key = tuple_(events.c.session_key, events.c.seq)
    window = (
        select(events.c.session_key, events.c.seq)
        .where(key > after)
        .order_by(events.c.session_key, events.c.seq)
        .limit(WINDOW_ROWS)
    )
    rows = tx.conn.execute(window).all()
    if not rows:
        return Swept(removed=0, after=None)
    last = (rows[-1][0], rows[-1][1])
    newer = events.alias("newer")
    is_newest = ~(
        select(1)
        .where(newer.c.session_key == events.c.session_key, newer.c.seq > events.c.seq)
        .exists()
    )
    removed = tx.conn.execute(
        delete(events).where(key > after, key <= last, events.c.at_ms < before_ms, ~is_newest)
    ).rowcount
    return Swept(removed=removed, after=last if len(rows) == WINDOW_ROWS else None)


def sweep_usage(tx: Transaction, before_ms: int, _after: tuple[str, int]) -> Swept:
    """Forget what model calls cost; the rows are few."""
    return Swept(removed=costs.forget(tx, before_ms), after=None)


def sweep_blobs(tx: Transaction, before_ms: int, after: tuple[str, int]) -> Swept:
    """Remove files on their way, but none that an open message or reply still names."""
    needed = _named_files(tx)
    key = tuple_(blobs.c.digest, blobs.c.part_no)
    window = (
        select(blobs.c.digest, blobs.c.part_no)
        .where(key > after, blobs.c.at_ms < before_ms)
        .order_by(blobs.c.digest, blobs.c.part_no)
        .limit(WINDOW_BLOBS)
    )
    rows = [(row[0], row[1]) for row in tx.conn.execute(window)]
    old = [row for row in rows if row[0] not in needed]
    if old:
        tx.conn.execute(delete(blobs).where(key.in_(old)))
    return Swept(removed=len(old), after=rows[-1] if len(rows) == WINDOW_BLOBS else None)


def _named_files(tx: Transaction) -> set[str]:
    open_messages = select(inbox.c.attachments).where(
        inbox.c.settled_ms.is_(None), inbox.c.attachments.is_not(None)
    )
    named = {item["blob"] for row in tx.conn.execute(open_messages).scalars() for item in row or ()}
    open_replies = select(outbox.c.file).where(
        outbox.c.settled_ms.is_(None), outbox.c.file.is_not(None)
    )
    return named | {file["blob"] for file in tx.conn.execute(open_replies).scalars() if file}


def compact(tx: Transaction) -> int:
    """Give some pages that nothing uses back to the disk; return how many, 0 = no more.

    PostgreSQL does so by itself. Of a SQLite file only pages at its end can be cut off, so others
    are moved there first: that is why it goes bit by bit.
    """
    if tx.conn.dialect.name != "sqlite":
        return 0
    free: int = tx.conn.exec_driver_sql("PRAGMA freelist_count").scalar_one()
    count = min(COMPACTED_PAGES, free - SPARE_PAGES)
    if count <= 0:
        return 0
    for _ in range(count):  # a page each: Python's sqlite3 makes one step of a PRAGMA
        tx.conn.exec_driver_sql("PRAGMA incremental_vacuum(1)")
    left: int = tx.conn.exec_driver_sql("PRAGMA freelist_count").scalar_one()
    return free - left


def sweep_archived(tx: Transaction, before_ms: int, now_ms: int) -> Swept:
    """Delete the archived session that was longest without anything new, if it is old enough."""
    found = tx.conn.execute(
        select(sessions.c.key)
        .where(
            sessions.c.archived,
            sessions.c.deleted_ms.is_(None),
            sessions.c.active_ms < before_ms,
        )
        .order_by(sessions.c.active_ms)
        .limit(1)
    ).scalar_one_or_none()
    if found is None:
        return Swept(removed=0, after=None)
    deletion.delete_session(tx, SessionKey.parse(found), now_ms)
    return Swept(removed=1, after=BEGINNING)
