"""Carrying a session out into a file and in from one; page by page, however long it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import BinaryIO

from clawbot.errors import RequestRefused
from clawbot.ports import Clock, Store
from clawbot.session_file import (
    VERSION,
    Damage,
    Header,
    Record,
    entry_line,
    header_line,
    read_session,
)
from clawbot.session_key import SessionKey
from clawbot.store import copies
from clawbot.store.copies import PAGE, Placement, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of a file. entries: how many were kept; damage: what could not be."""

    key: SessionKey
    entries: int
    damage: Damage


async def export_session(
    store: Store, key: SessionKey, *, epoch: int | None = None
) -> AsyncIterator[bytes]:
    """The lines of a session, or of one of its epochs. Raise NoSuchSession."""
    header = await store.read(partial(copies.header_of, key=key))
    if epoch is not None:
        seeds = tuple(seed for seed in header.seeds if seed.epoch == epoch)
        header = replace(header, epoch=epoch, seeds=seeds)
    yield header_line(header)
    after = Position()
    while True:
        page = await store.read(partial(copies.page_of, key=key, after=after, epoch=epoch))
        for record in page:
            yield entry_line(record.epoch, record.entry)
        if len(page) < PAGE:
            return
        after = Position(epoch=page[-1].epoch, seq=page[-1].entry.seq)


async def import_session(
    store: Store, clock: Clock, file: BinaryIO, key: SessionKey | None = None
) -> Imported:
    """Make a session of a file, under its own key or another one; what is damaged is left out.

    Raise SessionTaken, or RequestRefused when nothing in the file is a session.
    """
    damage = Damage()
    found = read_session(file, damage)
    head, first = await asyncio.to_thread(_head, found)
    if head is None and first is None:
        raise RequestRefused(f"{_name(file)}: holds no session; was it exported by clawbot?")
    if head is not None and head.version > VERSION:
        raise RequestRefused(f"{_name(file)}: written by a newer clawbot; upgrade this one")
    target = key or (SessionKey.parse(head.key) if head is not None else None)
    if target is None:
        raise RequestRefused(f"{_name(file)}: its first line is lost; name a key for the session")
    header = head or Header(key=str(target))
    now_ms = clock.now_ms()
    placement = await store.write(lambda tx: copies.begin_import(tx, target, header, now_ms))
    entries = 0
    batch = [first] if first is not None else []
    while True:
        batch += await asyncio.to_thread(_records, found, PAGE)
        if not batch:
            break
        kept = await _add(store, placement, batch)
        for _ in range(len(batch) - kept):
            damage.note(0, "number used twice")
        entries += kept
        batch = []
    await store.write(lambda tx: copies.end_import(tx, placement, entries, now_ms))
    return Imported(key=target, entries=entries, damage=damage)


async def _add(store: Store, placement: Placement, batch: list[Record]) -> int:
    return await store.write(lambda tx: copies.add_imported(tx, placement, batch))


def _head(found: Iterator[Header | Record]) -> tuple[Header | None, Record | None]:
    """The header, which is the first thing in a whole file, else the first record."""
    one = next(found, None)
    if isinstance(one, Header):
        return one, None
    return None, one


def _records(found: Iterator[Header | Record], count: int) -> list[Record]:
    return list(islice((one for one in found if isinstance(one, Record)), count))


def _name(file: BinaryIO) -> str:
    return str(getattr(file, "name", "the file"))
