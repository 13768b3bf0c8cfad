"""Rows of `seeds`: the context document of each epoch of a sub-session, written once.

The row, and nothing else, says that an epoch has its document: it is never made again while the row
stands, and every request reads it from here.
"""

from __future__ import annotations

from sqlalchemy import select

from clawbot.ports import Transaction
from clawbot.seed import Seed
from clawbot.session_key import SessionKey
from clawbot.store import events, sessions
from clawbot.store.claims import Claim
from clawbot.store.schema import seeds


def find(tx: Transaction, key: SessionKey, epoch: int) -> Seed | None:
    """The document of an epoch."""
    row = tx.conn.execute(
        select(seeds.c.text, seeds.c.source).where(
            seeds.c.session_key == str(key), seeds.c.epoch == epoch
        )
    ).one_or_none()
    return None if row is None else Seed(text=row[0], source=row[1])


def inherited(tx: Transaction, key: SessionKey, epoch: int) -> Seed | None:
    """What an epoch without a document takes over: one that was given with the task.

    A configured one is made anew instead.
    """
    row = tx.conn.execute(
        select(seeds.c.text, seeds.c.source)
        .where(seeds.c.session_key == str(key), seeds.c.epoch < epoch)
        .order_by(seeds.c.epoch.desc())
        .limit(1)
    ).one_or_none()
    return Seed(text=row[0], source=row[1]) if row is not None and row[1] == "given" else None


def give(tx: Transaction, key: SessionKey, seed: Seed, now_ms: int) -> bool:
    """Give a task its document as it is opened; False when its epoch has one already."""
    numbers = sessions.take_numbers(tx, key, 1, now_ms)
    is_new = put(tx, key, numbers.epoch, seed, now_ms)
    if is_new:
        _tell(tx, key, numbers.last_seq, numbers.epoch, seed, now_ms)
    return is_new


def record(tx: Transaction, turn: Claim, seed: Seed, now_ms: int) -> None:
    """Keep the document that the first turn of an epoch has made, under the turn's fence.

    Raise LeaseLost or TurnStopped: then nothing was written.
    """
    numbers = sessions.lock(tx, turn.session, turn.fence, count=1, first_seq=turn.first_seq)
    if put(tx, turn.session, turn.epoch, seed, now_ms):
        _tell(tx, turn.session, numbers.last_seq, turn.epoch, seed, now_ms)


def put(tx: Transaction, key: SessionKey, epoch: int, seed: Seed, now_ms: int) -> bool:
    """Keep the document of an epoch; False when it has one already."""
    result = tx.conn.execute(
        tx.insert(seeds)
        .values(
            session_key=str(key),
            epoch=epoch,
            text=seed.text,
            source=seed.source,
            hash=seed.hash,
            created_ms=now_ms,
        )
        .on_conflict_do_nothing()
        .returning(seeds.c.hash)
    )
    return result.first() is not None


def _tell(tx: Transaction, key: SessionKey, seq: int, epoch: int, seed: Seed, now_ms: int) -> None:
    data = {"source": seed.source, "hash": seed.hash, "bytes": len(seed.text.encode())}
    events.append(tx, key, seq, epoch, "seeded", data, now_ms)
