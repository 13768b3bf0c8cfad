"""Rows of `messages`: a session's history, appended and read by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from sqlalchemy import bindparam, insert, select

from clawbot.history import Entry, EntryKind, Usage
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import messages

_INSERT = insert(messages)
_NEWEST = (
    select(messages)
    .where(
        messages.c.session_key == bindparam("of_session"),
        messages.c.epoch == bindparam("of_epoch"),
    )
    .order_by(messages.c.seq.desc())
    .limit(bindparam("most"))
)


def append(
    tx: Transaction,
    key: SessionKey,
    epoch: int,
    first_seq: int,
    entries: Sequence[Entry],
    now_ms: int,
) -> list[Entry]:
    """Append entries under numbers that this transaction has taken, from `first_seq` on."""
    stored = [
        replace(entry, seq=first_seq + offset, created_ms=now_ms)
        for offset, entry in enumerate(entries)
    ]
    if stored:
        rows = []
        for entry in stored:
            row = asdict(entry) | {"session_key": str(key), "epoch": epoch}
            row["kind"] = entry.kind.value
            rows.append(row)
        tx.conn.execute(_INSERT, rows)
    return stored


def load(tx: Transaction, key: SessionKey, epoch: int, *, newest: int) -> list[Entry]:
    """The newest entries of an epoch, oldest first; the cost does not depend on those before."""
    params = {"of_session": str(key), "of_epoch": epoch, "most": newest}
    rows = tx.conn.execute(_NEWEST, params).mappings()
    entries = [
        Entry(
            kind=EntryKind(row["kind"]),
            text=row["text"],
            turn_id=row["turn_id"],
            step=row["step"],
            call_id=row["call_id"],
            tool=row["tool"],
            arguments=row["arguments"],
            is_error=row["is_error"],
            signature=row["signature"],
            sender=row["sender"],
            usage=None if row["usage"] is None else Usage(**row["usage"]),
            seq=row["seq"],
            created_ms=row["created_ms"],
        )
        for row in rows
    ]
    return entries[::-1]
