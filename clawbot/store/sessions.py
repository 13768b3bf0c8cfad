"""Rows of `sessions`: numbering, the fence, and what a turn needs to know of its session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping, case, select, update

from clawbot.errors import LeaseLost, TurnStopped
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """A session's counters right after some of its numbers were taken.

    `last_seq` is the highest number taken: of `count` numbers the first is `last_seq - count + 1`.
    """

    last_seq: int
    stop_seq: int
    epoch: int
    fence: int = 0


def take_numbers(
    tx: Transaction,
    key: SessionKey,
    count: int,
    now_ms: int,
    *,
    chat_type: str = "",
    values: dict[str, Any] | None = None,
) -> Numbers:
    """Number `count` things that happen in a session, which is made if it is new.

    The row stays locked until the transaction ends. `values` are further columns to set.
    """
    new = {
        "key": str(key),
        "context_type": "global" if key.task is None else "task",
        "context_id": key.task or "",
        "chat_type": chat_type,
        "last_seq": count,
        "created_ms": now_ms,
        "active_ms": now_ms,
        **(values or {}),
    }
    changes = {
        "last_seq": sessions.c.last_seq + count,
        "active_ms": case((sessions.c.active_ms > now_ms, sessions.c.active_ms), else_=now_ms),
        **(values or {}),
    }
    row = tx.conn.execute(
        tx.insert(sessions)
        .values(**new)
        .on_conflict_do_update(index_elements=["key"], set_=changes)
        .returning(sessions.c.last_seq, sessions.c.stop_seq, sessions.c.epoch, sessions.c.fence)
    ).one()
    return Numbers(last_seq=row[0], stop_seq=row[1], epoch=row[2], fence=row[3])


def lock(
    tx: Transaction,
    key: SessionKey,
    fence: int,
    *,
    count: int = 0,
    first_seq: int | None = None,
    values: Mapping[str, Any] | None = None,
) -> Numbers:
    """Begin a fenced transaction: lock the session's row and take `count` numbers.

    A fence that is only read lets a stale worker write, so this is an UPDATE. Raise LeaseLost when
    somebody else owns the session by now, and TurnStopped when the turn whose first row has the
    number `first_seq` was stopped. `values` are further columns to set.
    """
    row = tx.conn.execute(
        update(sessions)
        .where(sessions.c.key == str(key), sessions.c.fence == fence)
        .values(last_seq=sessions.c.last_seq + count, **(values or {}))
        .returning(sessions.c.last_seq, sessions.c.stop_seq, sessions.c.epoch)
    ).one_or_none()
    if row is None:
        raise LeaseLost
    if first_seq is not None and first_seq <= row[1]:
        raise TurnStopped
    return Numbers(last_seq=row[0], stop_seq=row[1], epoch=row[2], fence=fence)


def find(tx: Transaction, key: SessionKey) -> RowMapping | None:
    """The session's row, if it exists."""
    return (
        tx.conn.execute(select(sessions).where(sessions.c.key == str(key))).mappings().one_or_none()
    )


def recent(tx: Transaction, limit: int) -> list[RowMapping]:
    """Sessions, the most recently active first."""
    return list(
        tx.conn.execute(
            select(sessions)
            .where(sessions.c.archived.is_(False))
            .order_by(sessions.c.active_ms.desc())
            .limit(limit)
        ).mappings()
    )


def stop_marks(tx: Transaction, keys: list[str]) -> dict[str, tuple[int, int]]:
    """Per session its `stop_seq` and fence: a worker sees stops and takeovers of all at once."""
    rows = tx.conn.execute(
        select(sessions.c.key, sessions.c.stop_seq, sessions.c.fence).where(
            sessions.c.key.in_(keys)
        )
    )
    return {row[0]: (row[1], row[2]) for row in rows}
