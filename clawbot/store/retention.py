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
from clawbot.store.schema import channel_notes, events, inbox, outbox, seen, sessions
from clawbot.store.transcript import SHOWN_ALONE

WINDOW_ROWS = 1000
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
