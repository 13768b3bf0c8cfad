"""Rows of `messages`: a session's history, appended and read by epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, fields, replace

from sqlalchemy import RowMapping, bindparam, insert, select

from clawbot.history import Entry, EntryKind, Usage
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import messages

_INSERT = insert(messages)
_ENTRY = tuple(field.name for field in fields(Entry))
_EPOCH = select(messages).where(
    messages.c.session_key == bindparam("of_session"), messages.c.epoch == bindparam("of_epoch")
)
_NEWEST = (
    _EPOCH.where(messages.c.seq < bindparam("before"))
    .order_by(messages.c.seq.desc())
    .limit(bindparam("most"))
)
_BETWEEN = _EPOCH.where(
    messages.c.seq > bindparam("after"), messages.c.seq <= bindparam("through")
).order_by(messages.c.seq)
ALL = 2**62
PAGE = 32
"""Rows that are fetched at a time: one of them may hold megabytes."""


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
        tx.run(_INSERT, [_row_of(entry, str(key), epoch) for entry in stored])
    return stored


def _row_of(entry: Entry, session_key: str, epoch: int) -> dict[str, object]:
    # Not by `asdict`, which copies every value: this runs several times a message.
    values = {name: getattr(entry, name) for name in _ENTRY}
    usage = None if entry.usage is None else asdict(entry.usage)
    more = {"session_key": session_key, "epoch": epoch, "kind": entry.kind.value, "usage": usage}
    return values | more


_ANY = select(messages.c.seq).where(
    messages.c.session_key == bindparam("of_session"), messages.c.epoch == bindparam("of_epoch")
)


def has_begun(tx: Transaction, key: SessionKey, epoch: int) -> bool:
    """Whether an epoch has any entry."""
    params = {"of_session": str(key), "of_epoch": epoch}
    return tx.conn.execute(_ANY.limit(1), params).first() is not None


def load(tx: Transaction, key: SessionKey, epoch: int, *, newest: int) -> list[Entry]:
    """The newest entries of an epoch, oldest first; the cost does not depend on those before."""
    params = {"of_session": str(key), "of_epoch": epoch, "before": ALL, "most": newest}
    return [entry_of(row) for row in tx.run(_NEWEST, params).mappings()][::-1]


def newest_first(tx: Transaction, key: SessionKey, epoch: int) -> Iterator[Entry]:
    """An epoch from its end on, in small pages: whoever stops early has not paid for the rest."""
    params = {"of_session": str(key), "of_epoch": epoch, "before": ALL, "most": PAGE}
    found = PAGE
    while found == PAGE:
        found = 0
        with closing(tx.run(_NEWEST, params)) as rows:
            for row in rows.mappings():
                found += 1
                params["before"] = row["seq"]
                yield entry_of(row)


def between(
    tx: Transaction, key: SessionKey, epoch: int, *, after: int, through: int
) -> Iterator[Entry]:
    """The entries with numbers above `after` up to and with `through`, oldest first, in pages."""
    params = {"of_session": str(key), "of_epoch": epoch, "after": after, "through": through}
    with tx.conn.execute(_BETWEEN, params, execution_options={"yield_per": PAGE}) as result:
        for row in result.mappings():
            yield entry_of(row)


def of_turn(
    tx: Transaction, key: SessionKey, epoch: int, turn_id: str, *, after: int
) -> list[Entry]:
    """The entries of one turn, all of which have numbers above `after`."""
    params = {"of_session": str(key), "of_epoch": epoch, "after": after, "through": ALL}
    rows = tx.conn.execute(_BETWEEN.where(messages.c.turn_id == turn_id), params).mappings()
    return [entry_of(row) for row in rows]


def entry_of(row: RowMapping) -> Entry:
    """A row of `messages` as an entry."""
    return Entry(
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
