"""Rows of `sessions`: numbering, the fence, and what a turn needs to know of its session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping, bindparam, case, false, func, or_, select, update
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from clawbot.errors import LeaseLost, TurnStopped
from clawbot.ports import InsertOf, Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import sessions
from clawbot.store.topics import TURNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """A session's counters right after some of its numbers were taken.

    `visible_total` is how many replies it has given in all. `is_busy` says that somebody owns it or
    something waits in it already.

    `last_seq` is the highest number taken: of `count` numbers the first is `last_seq - count + 1`.
    """

    last_seq: int
    stop_seq: int
    epoch: int
    fence: int = 0
    visible_total: int = 0
    is_busy: bool = False


_COUNTERS = (
    sessions.c.last_seq,
    sessions.c.stop_seq,
    sessions.c.epoch,
    sessions.c.visible_total,
)


def take_numbers(
    tx: Transaction,
    key: SessionKey,
    count: int,
    now_ms: int,
    *,
    chat_type: str = "",
    wants_turn: bool = False,
    pool: str | None = None,
) -> Numbers:
    """Number `count` things that happen in a session, which is made if it is new.

    The row stays locked until the transaction ends. `wants_turn` says that a turn is due from now
    on, if it was not before; the claim looks whether it is possible. `pool` is that of a session
    which has none yet: it stays where its files are.
    """
    row = tx.run(
        tx.prepared(_numbering),
        {
            "key": str(key),
            "base_key": str(key.base),
            "context_type": "global" if key.task is None else "task",
            "context_id": key.task or "",
            "chat_type": chat_type,
            "last_seq": count,
            "due_ms": now_ms if wants_turn else None,
            "pool": pool,
            "created_ms": now_ms,
            "active_ms": now_ms,
        },
    ).one()
    if wants_turn:
        tx.ring(TURNS)
    *counters, fence, owner, due_ms = row
    return Numbers(
        last_seq=counters[0],
        stop_seq=counters[1],
        epoch=counters[2],
        visible_total=counters[3],
        fence=fence,
        is_busy=owner is not None or (due_ms is not None and due_ms < now_ms),
    )


def _numbering(insert: InsertOf) -> ReturningInsert[Any]:
    statement = insert(sessions)
    new = statement.excluded
    is_newer = sessions.c.active_ms < new.active_ms
    # A message brings an archived session back into the lists, and anything a deleted one.
    comes_back = or_(sessions.c.deleted_ms.is_not(None), new.due_ms.is_not(None))
    made: ReturningInsert[Any] = statement.on_conflict_do_update(
        index_elements=["key"],
        set_={
            "last_seq": sessions.c.last_seq + new.last_seq,
            "chat_type": func.coalesce(func.nullif(sessions.c.chat_type, ""), new.chat_type),
            "due_ms": func.coalesce(sessions.c.due_ms, new.due_ms),
            "pool": func.coalesce(sessions.c.pool, new.pool),
            "active_ms": case((is_newer, new.active_ms), else_=sessions.c.active_ms),
            "archived": case((comes_back, false()), else_=sessions.c.archived),
            "deleted_ms": None,
        },
    ).returning(*_COUNTERS, sessions.c.fence, sessions.c.owner, sessions.c.due_ms)
    return made


_MINE = update(sessions).where(
    sessions.c.key == bindparam("of_key"), sessions.c.fence == bindparam("of_fence")
)
_TAKE = {"last_seq": sessions.c.last_seq + bindparam("count")}
_LOCK = _MINE.values(_TAKE).returning(*_COUNTERS)
_OWN = _MINE.values(
    {
        **_TAKE,
        "owner": bindparam("new_owner"),
        "fence": sessions.c.fence + 1,
        "due_ms": None,
        "wait_until_ms": None,
        "active_ms": bindparam("now_ms"),
    }
).returning(*_COUNTERS)
_LEAVE = _MINE.values(
    {
        **_TAKE,
        "owner": None,
        "fence": sessions.c.fence + 1,  # an end whose commit went unheard is not written again
        "visible_total": sessions.c.visible_total + bindparam("replies"),
        "active_ms": bindparam("now_ms"),
    }
).returning(*_COUNTERS)
_GIVE_BACK = _MINE.values(
    {
        **_TAKE,
        "owner": None,
        "fence": sessions.c.fence + 1,
        "due_ms": bindparam("now_ms"),
        "wait_until_ms": bindparam("until_ms"),
    }
).returning(*_COUNTERS)


def lock(
    tx: Transaction, key: SessionKey, fence: int, *, count: int = 0, first_seq: int | None = None
) -> Numbers:
    """Begin a fenced transaction: lock the session's row and take `count` numbers.

    A fence that is only read lets a stale worker write, so this is an UPDATE. Raise LeaseLost when
    somebody else owns the session by now, and TurnStopped when the turn whose first row has the
    number `first_seq` was stopped.
    """
    return _locked(tx, key, fence, _LOCK, count, first_seq)


def own(
    tx: Transaction,
    key: SessionKey,
    fence: int,
    owner: str,
    *,
    count: int,
    now_ms: int,
) -> Numbers:
    """Lock the session and make it the owner's, under the next fence; see `lock`."""
    more = {"new_owner": owner, "now_ms": now_ms}
    return _locked(tx, key, fence, _OWN, count, None, **more)


def leave(
    tx: Transaction,
    key: SessionKey,
    fence: int,
    *,
    count: int,
    replies: int,
    now_ms: int,
    first_seq: int | None,
) -> Numbers:
    """Lock the session at the end of a turn: nobody owns it then; see `lock`."""
    more = {"replies": replies, "now_ms": now_ms}
    return _locked(tx, key, fence, _LEAVE, count, first_seq, **more)


def give_back(
    tx: Transaction, key: SessionKey, fence: int, now_ms: int, *, until_ms: int | None = None
) -> None:
    """Let another worker claim the session, at once or after a time; see `lock`."""
    _locked(tx, key, fence, _GIVE_BACK, 0, None, now_ms=now_ms, until_ms=until_ms)


def _locked(
    tx: Transaction,
    key: SessionKey,
    fence: int,
    statement: ReturningUpdate[Any],
    count: int,
    first_seq: int | None,
    **more: object,
) -> Numbers:
    row = tx.run(
        statement, {"of_key": str(key), "of_fence": fence, "count": count, **more}
    ).one_or_none()
    if row is None:
        raise LeaseLost
    if first_seq is not None and first_seq <= row[1]:
        raise TurnStopped
    return Numbers(
        last_seq=row[0], stop_seq=row[1], epoch=row[2], visible_total=row[3], fence=fence
    )


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
