"""Copies of sessions: forks within the store, and what goes out to and comes in from files.

A copy keeps the numbers of its source (behind those that its key has used already), so that
whatever refers to them stays true. Units of work, in pages: no history is loaded whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Table, case, func, literal, select, tuple_, update

from clawbot.errors import NoSuchSession, SessionTaken
from clawbot.ports import Transaction
from clawbot.seed import Seed
from clawbot.session_file import Header, Record, SeedRecord
from clawbot.session_key import SessionKey
from clawbot.session_settings import restored, stored
from clawbot.store import events, seeds, session_admin, sessions
from clawbot.store.history import entry_of
from clawbot.store.schema import messages, summaries
from clawbot.store.schema import seeds as seed_rows
from clawbot.store.schema import sessions as session_rows

PAGE = 100
"""Entries that are held at a time: one of them may hold megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A fork. entries: how many were copied."""

    key: SessionKey
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Behind which entry a page begins."""

    epoch: int = -1
    seq: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How the numbers of an imported session become those of its key: by adding these."""

    key: SessionKey
    epoch: int
    seq: int


# -- forks -----------------------------------------------------------------------------------------


def fork(
    tx: Transaction,
    source: SessionKey,
    target: SessionKey,
    now_ms: int,
    *,
    epoch: int | None = None,
    through_seq: int | None = None,
) -> Forked:
    """Begin a session with the history of another one: of its epoch now, or of an earlier one, or
    of a part of it. From then on both go their own ways.

    A task inherits the context document with the history. Raise NoSuchSession or SessionTaken.
    """
    origin = session_admin.get(tx, source)
    _refuse_taken(tx, target)
    from_epoch = origin.epoch if epoch is None else epoch
    numbers = sessions.take_numbers(
        tx, target, origin.last_seq + 1, now_ms, chat_type=origin.chat_type
    )
    shift = numbers.last_seq - 1 - origin.last_seq
    whole = (messages.c.session_key == str(source), messages.c.epoch == from_epoch)
    part = whole if through_seq is None else (*whole, messages.c.seq <= through_seq)
    changes: dict[str, ColumnElement[Any]] = {
        "session_key": literal(str(target)),
        "epoch": literal(numbers.epoch),
        "seq": messages.c.seq + shift,
    }
    copied = _copy_rows(tx, messages, part, changes)
    if not copied and epoch is not None:
        raise NoSuchSession(f"session {source}: nothing was said in its epoch {epoch}")
    if target.task is not None:
        of_epoch = (seed_rows.c.session_key == str(source), seed_rows.c.epoch == from_epoch)
        _copy_rows(tx, seed_rows, of_epoch, changes)
    _copy_summary(tx, source, from_epoch, changes, shift, through_seq)
    tx.conn.execute(
        update(session_rows)
        .where(session_rows.c.key == str(target))
        .values(
            title=origin.title,
            settings=stored(origin.settings),
            work_dirs=list(origin.work_dirs) or None,
        )
    )
    data = {"from": str(source), "entries": copied}
    events.append(tx, target, numbers.last_seq, numbers.epoch, "forked", data, now_ms)
    return Forked(key=target, entries=copied)


def _copy_summary(
    tx: Transaction,
    source: SessionKey,
    epoch: int,
    changes: Mapping[str, ColumnElement[Any]],
    shift: int,
    through_seq: int | None,
) -> None:
    """A summary goes along unless it tells more than the part that was copied."""
    where = [summaries.c.session_key == str(source), summaries.c.epoch == epoch]
    if through_seq is not None:
        where.append(summaries.c.through_seq <= through_seq)
    moved = {
        **changes,
        "through_seq": summaries.c.through_seq + shift,
        "wanted_seq": literal(0),
        "busy_until_ms": literal(0),
    }
    _copy_rows(tx, summaries, where, moved)


def _refuse_taken(tx: Transaction, key: SessionKey) -> None:
    if not session_admin.is_free(tx, key):
        raise SessionTaken(f"session {key}: exists already; choose another key, or delete it first")


def _copy_rows(
    tx: Transaction,
    table: Table,
    where: Sequence[ColumnElement[bool]],
    changes: Mapping[str, ColumnElement[Any]],
) -> int:
    """Copy rows within the database, some of their columns changed; return how many."""
    count: int = tx.conn.execute(select(func.count()).select_from(table).where(*where)).scalar_one()
    names = [column.name for column in table.c]
    columns = [changes.get(name, table.c[name]).label(name) for name in names]
    copied = table.insert().from_select(names, select(*columns).where(*where))
    tx.conn.execute(copied)
    return count


# -- out -------------------------------------------------------------------------------------------


def header_of(tx: Transaction, key: SessionKey) -> Header:
    """What stands at the head of an exported session. Raise NoSuchSession."""
    info = session_admin.get(tx, key)
    rows = tx.conn.execute(
        select(seed_rows.c.epoch, seed_rows.c.source, seed_rows.c.text)
        .where(seed_rows.c.session_key == str(key))
        .order_by(seed_rows.c.epoch)
    )
    return Header(
        key=str(key),
        title=info.title,
        chat_type=info.chat_type,
        epoch=info.epoch,
        settings=stored(info.settings) or {},
        seeds=tuple(SeedRecord(epoch=row[0], source=row[1], text=row[2]) for row in rows),
    )


def page_of(
    tx: Transaction,
    key: SessionKey,
    after: Position,
    *,
    epoch: int | None = None,
    limit: int = PAGE,
) -> list[Record]:
    """The next entries of a session in the order of (epoch, seq); of one epoch, if it is named."""
    query = select(messages).where(
        messages.c.session_key == str(key),
        tuple_(messages.c.epoch, messages.c.seq) > (after.epoch, after.seq),
    )
    if epoch is not None:
        query = query.where(messages.c.epoch == epoch)
    rows = tx.conn.execute(query.order_by(messages.c.epoch, messages.c.seq).limit(limit)).mappings()
    return [Record(epoch=row["epoch"], entry=entry_of(row)) for row in rows]


# -- in --------------------------------------------------------------------------------------------


def begin_import(tx: Transaction, target: SessionKey, header: Header, now_ms: int) -> Placement:
    """Make the session that a file becomes. Raise SessionTaken."""
    _refuse_taken(tx, target)
    numbers = sessions.take_numbers(tx, target, 0, now_ms, chat_type=header.chat_type)
    tx.conn.execute(
        update(session_rows)
        .where(session_rows.c.key == str(target))
        .values(
            title=header.title,
            settings=stored(restored(header.settings)),
            epoch=session_rows.c.epoch + header.epoch,
        )
    )
    placement = Placement(key=target, epoch=numbers.epoch, seq=numbers.last_seq)
    for one in header.seeds if target.task is not None else ():
        seed = Seed(text=one.text, source=one.source)
        seeds.put(tx, target, one.epoch + placement.epoch, seed, now_ms)
    return placement


def add_imported(tx: Transaction, placement: Placement, records: Sequence[Record]) -> int:
    """Add entries; return how many were new. One whose number is taken already is left out."""
    if not records:
        return 0
    moved = [
        (
            record.epoch + placement.epoch,
            replace(record.entry, seq=record.entry.seq + placement.seq),
        )
        for record in records
    ]
    rows = [
        {
            **asdict(entry),
            "kind": entry.kind.value,
            "session_key": str(placement.key),
            "epoch": epoch,
        }
        for epoch, entry in moved
    ]
    adding = tx.insert(messages).on_conflict_do_nothing().returning(messages.c.seq)
    added = len(tx.conn.execute(adding, rows).all())
    highest = max(entry.seq for _, entry in moved)
    newest = max(epoch for epoch, _ in moved)
    now = session_rows.c
    tx.conn.execute(
        update(session_rows)
        .where(now.key == str(placement.key))
        .values(
            last_seq=case((now.last_seq < highest, highest), else_=now.last_seq),
            epoch=case((now.epoch < newest, newest), else_=now.epoch),
        )
    )
    return added


def end_import(tx: Transaction, placement: Placement, entries: int, now_ms: int) -> None:
    """Tell that the session is complete."""
    numbers = sessions.take_numbers(tx, placement.key, 1, now_ms)
    data = {"entries": entries}
    events.append(tx, placement.key, numbers.last_seq, numbers.epoch, "imported", data, now_ms)
