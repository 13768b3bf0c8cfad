"""The event log of each session, and reading on from a cursor.

An event is written in the transaction of what it tells about and takes its number from its
session's counter there. A cursor is a map of session numbers: one number over all sessions would
skip events whose transaction commits late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping, func, insert, select

from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import events, sessions
from clawbot.store.topics import EVENTS

_INSERT = insert(events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened in a session.

    kind: accepted, amended, turn_started, approval_asked, approval_decided, reply, notice,
        turn_ended, stopped, new_epoch, deleted.
    """

    session_key: str
    seq: int
    epoch: int
    kind: str
    data: dict[str, Any]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Events after a cursor, oldest first within each session, and the cursor behind them.

    `has_gap` names sessions of which more events are kept than one page holds, or of which older
    ones are gone: their readers start again from the transcript.
    """

    events: list[Event]
    cursor: dict[str, int]
    has_gap: frozenset[str] = frozenset()


def append(
    tx: Transaction,
    key: SessionKey,
    seq: int,
    epoch: int,
    kind: str,
    data: dict[str, Any],
    now_ms: int,
) -> None:
    """Write an event under a number that this transaction has taken from the session."""
    row = {
        "session_key": str(key),
        "seq": seq,
        "epoch": epoch,
        "kind": kind,
        "data": data,
        "at_ms": now_ms,
    }
    tx.run(_INSERT, row)
    tx.ring(EVENTS)


def of_session(tx: Transaction, key: SessionKey, after: int, *, limit: int = 500) -> list[Event]:
    """A session's events behind a number, oldest first."""
    rows = tx.conn.execute(
        select(events)
        .where(events.c.session_key == str(key), events.c.seq > after)
        .order_by(events.c.seq)
        .limit(limit)
    ).mappings()
    return [_event_of(row) for row in rows]


def _event_of(row: RowMapping) -> Event:
    return Event(
        session_key=row["session_key"],
        seq=row["seq"],
        epoch=row["epoch"],
        kind=row["kind"],
        data=row["data"],
        at_ms=row["at_ms"],
    )


def heads(tx: Transaction) -> dict[str, int]:
    """The cursor that stands behind all events there are now: each session's newest number."""
    rows = tx.conn.execute(select(sessions.c.key, sessions.c.last_seq))
    return {row[0]: row[1] for row in rows}


def since(tx: Transaction, cursor: Mapping[str, int], *, limit: int = 500) -> EventPage:
    """Events after `cursor` of all sessions; a session that it does not name is read from its
    start.

    At most `limit` events of one session are returned; of a session with more, the newest, and it
    is named in `has_gap`.
    """
    found: list[Event] = []
    gaps: set[str] = set()
    after = dict(cursor)
    for key, head in heads(tx).items():
        if head <= cursor.get(key, 0):
            continue
        rows = tx.conn.execute(
            select(events)
            .where(events.c.session_key == key, events.c.seq > cursor.get(key, 0))
            .order_by(events.c.seq.desc())
            .limit(limit + 1)
        ).mappings()
        page = [_event_of(row) for row in rows]
        if len(page) > limit:
            gaps.add(key)
            page.pop()
        if _oldest(tx, key) > cursor.get(key, 0) + 1:
            gaps.add(key)
        found.extend(reversed(page))
        after[key] = head
    return EventPage(events=found, cursor=after, has_gap=frozenset(gaps))


def _oldest(tx: Transaction, key: str) -> int:
    """The number of a session's oldest event that is kept; 0 = it never had any."""
    oldest = select(func.min(events.c.seq)).where(events.c.session_key == key)
    return tx.conn.execute(oldest).scalar_one() or 0
