"""Keeps readable transcripts of all sessions under the state directory, behind the store.

One task of one process (the supervisor) follows the store's doorbell and writes what is new, some
seconds late and never on the path of a turn. It keeps no cursor: how far a session's files are is
read from their last lines, and files that are missing or damaged are made again from the store.
Nothing of clawbot ever reads them; tools cannot (see `state_dir.PRIVATE_MARK`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from sqlalchemy import select

from clawbot.agent.saved import saved_dir
from clawbot.errors import StoreUnavailable
from clawbot.ports import Clock, Store, Transaction
from clawbot.session_file import Record
from clawbot.session_key import SessionKey
from clawbot.state_dir import transcript_dir
from clawbot.store import copies
from clawbot.store.copies import PAGE, Position
from clawbot.store.history import entry_of
from clawbot.store.schema import messages, sessions
from clawbot.store.topics import EVENTS
from clawbot.transcript_files import (
    DamagedTranscript,
    Written,
    append,
    begin_rewrite,
    end_rewrite,
    find_written,
    names_in,
    remove,
    remove_before,
)

log = structlog.get_logger(__name__)

LOOK_AGAIN_S = 30.0
LEAST_INTERVAL_S = 2.0
LATE_EPOCHS = 2
"""How many epochs back a stopped turn may still record something."""
SESSIONS_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Where a session stands in the store. Epochs before first_epoch were deleted."""

    key: str
    last_seq: int
    epoch: int
    first_epoch: int
    is_deleted: bool


class TranscriptKeeper:
    """Writes the transcripts of one state directory."""

    def __init__(self, store: Store, clock: Clock, state_dir: Path) -> None:
        self._store = store
        self._clock = clock
        self._state_dir = state_dir
        self._written: dict[str, Written | None] = {}
        self._heads: dict[str, int] = {}

    async def run(self) -> None:
        """Write until cancelled."""
        ear = self._store.listen([EVENTS])
        is_failing = False
        try:
            while True:
                try:
                    await self.catch_up()
                except (StoreUnavailable, OSError) as error:
                    if not is_failing:
                        log.warning("transcripts_not_written", error=str(error))
                    is_failing = True
                else:
                    if is_failing:
                        log.info("transcripts_written_again")
                    is_failing = False
                await self._clock.sleep(LEAST_INTERVAL_S)
                await ear.wait(LOOK_AGAIN_S)
        finally:
            ear.close()

    async def catch_up(self) -> None:
        """Bring all files up to date with the store. Raise StoreUnavailable or OSError."""
        rows = await self._store.read(_heads)
        live = {head.key: head for head in rows if not head.is_deleted}
        await self._remove_others(live)
        new = [key for key in live if key not in self._written]
        for start in range(0, len(new), SESSIONS_AT_ONCE):
            page = new[start : start + SESSIONS_AT_ONCE]
            self._written |= await asyncio.to_thread(self._find_written, page)
        for key, head in live.items():
            if self._heads.get(key) != head.last_seq:
                await self._write(SessionKey.parse(key), head)
                self._heads[key] = head.last_seq

    async def _remove_others(self, live: Mapping[str, Head]) -> None:
        """Remove the files of sessions that are gone."""
        is_first = not self._heads
        gone = [key for key in self._heads if key not in live]
        for key in gone:
            parsed = SessionKey.parse(key)
            self._heads.pop(key)
            self._written.pop(key, None)
            saved = saved_dir(self._state_dir, parsed)
            await asyncio.to_thread(remove, self._folder(parsed), saved)
        if is_first:
            known = await asyncio.to_thread(lambda: {SessionKey.parse(key).digest for key in live})
            for parent in (self._state_dir / "transcripts", self._state_dir / "saved"):
                names = await asyncio.to_thread(names_in, parent)
                for name in set(names) - known:
                    await asyncio.to_thread(remove, parent / name)

    def _find_written(self, keys: list[str]) -> dict[str, Written | None]:
        """How far each session's files are; None = to be made anew."""
        found: dict[str, Written | None] = {}
        for key in keys:
            try:
                found[key] = find_written(self._folder(SessionKey.parse(key)))
            except DamagedTranscript as error:
                log.warning("transcript_damaged", session=key, problem=str(error))
                found[key] = None
        return found

    async def _write(self, key: SessionKey, head: Head) -> None:
        if head.first_epoch:
            await asyncio.to_thread(remove_before, self._folder(key), head.first_epoch)
        written = self._written[str(key)]
        if written is not None:
            try:
                await self._append_new(key, head.epoch, written)
            except DamagedTranscript as error:
                log.warning("transcript_damaged", session=str(key), problem=str(error))
            else:
                return
        self._written[str(key)] = await self._rewrite(key)

    async def _append_new(self, key: SessionKey, epoch: int, written: Written) -> None:
        folder = self._folder(key)
        while True:
            first = max(0, written.epoch - LATE_EPOCHS) if written.seq else 0
            page = await self._store.read(
                partial(_after, key=key, first_epoch=first, epoch=epoch, seq=written.seq)
            )
            if page:
                await asyncio.to_thread(append, folder, key, page, written)
            if len(page) < PAGE:
                return

    async def _rewrite(self, key: SessionKey) -> Written:
        folder = self._folder(key)
        fresh = await asyncio.to_thread(begin_rewrite, folder)
        written = Written(seq=0, epoch=0, sizes={})
        after = Position()
        while page := await self._store.read(partial(copies.page_of, key=key, after=after)):
            await asyncio.to_thread(append, fresh, key, page, written)
            after = Position(epoch=page[-1].epoch, seq=page[-1].entry.seq)
        await asyncio.to_thread(end_rewrite, fresh, folder)
        log.info("transcript_made_anew", session=str(key))
        return written

    def _folder(self, key: SessionKey) -> Path:
        return transcript_dir(self._state_dir, key)


def _heads(tx: Transaction) -> list[Head]:
    now = sessions.c
    rows = tx.conn.execute(
        select(now.key, now.last_seq, now.epoch, now.first_epoch, now.deleted_ms)
    )
    return [
        Head(
            key=row[0],
            last_seq=row[1],
            epoch=row[2],
            first_epoch=row[3],
            is_deleted=row[4] is not None,
        )
        for row in rows
    ]


def _after(
    tx: Transaction, key: SessionKey, first_epoch: int, epoch: int, seq: int
) -> list[Record]:
    """The next entries by number. Each epoch is a range of the primary key."""
    found: list[Record] = []
    for one in range(first_epoch, epoch + 1):
        rows = tx.conn.execute(
            select(messages)
            .where(
                messages.c.session_key == str(key), messages.c.epoch == one, messages.c.seq > seq
            )
            .order_by(messages.c.seq)
            .limit(PAGE)
        ).mappings()
        found += [Record(epoch=one, entry=entry_of(row)) for row in rows]
    found.sort(key=lambda record: record.entry.seq)
    return found[:PAGE]
