"""Files on their way from an adapter to a worker: bytes by their digest, in parts.

A file is whole once its last part is written; only then a message names it. It is needed until the
message's turn has ended, or the file was sent; `store.retention` removes it some days later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial

from sqlalchemy import Insert, bindparam, select

from clawbot.ports import InsertOf, Store, Transaction
from clawbot.store.schema import blobs

PART_BYTES = 1 << 20  # one transaction each, so that a large file holds up no other writer

_PART = select(blobs.c.data).where(
    blobs.c.digest == bindparam("of_digest"), blobs.c.part_no == bindparam("of_part")
)


async def keep(store: Store, data: bytes, now_ms: int) -> str:
    """Keep a file; return the name under which it is found. Raise StoreUnavailable."""
    digest = hashlib.sha256(data).hexdigest()
    for part_no, part in enumerate(_parts(data)):
        put = partial(_put, digest=digest, part_no=part_no, data=part, now_ms=now_ms)
        await store.write(put)
    return digest


async def fetch(store: Store, digest: str) -> bytes | None:
    """A file that was kept; None if it is gone, or not whole."""
    parts: list[bytes] = []
    while True:
        part = await store.read(partial(_get, digest=digest, part_no=len(parts)))
        if part is None:
            break
        parts.append(part)
        if len(part) < PART_BYTES:
            break
    data = b"".join(parts)
    return data if hashlib.sha256(data).hexdigest() == digest else None


def _parts(data: bytes) -> Iterator[bytes]:
    """Full parts and a shorter one, perhaps empty, that ends the file."""
    for start in range(0, len(data) + 1, PART_BYTES):
        yield data[start : start + PART_BYTES]


def _put(tx: Transaction, digest: str, part_no: int, data: bytes, now_ms: int) -> None:
    values = {"digest": digest, "part_no": part_no, "data": data, "at_ms": now_ms}
    tx.conn.execute(tx.prepared(_putting), values)


def _putting(insert: InsertOf) -> Insert:
    statement = insert(blobs)
    made: Insert = statement.on_conflict_do_update(
        index_elements=["digest", "part_no"],
        set_={"at_ms": statement.excluded.at_ms},
    )
    return made


def _get(tx: Transaction, digest: str, part_no: int) -> bytes | None:
    names = {"of_digest": digest, "of_part": part_no}
    found: bytes | None = tx.conn.execute(_PART, names).scalar_one_or_none()
    return found
