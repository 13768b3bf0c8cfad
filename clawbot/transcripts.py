"""Keeps readable transcripts of all sessions under the state directory, behind the store.

One task of one process (the supervisor) follows the store's doorbell and writes what is new, some
seconds late and never on the path of a turn. It keeps no cursor: how far a session's files are is
read from their last lines, and files that are missing or damaged are made again from the store.
Nothing of clawbot ever reads them; tools cannot (see `state_dir.PRIVATE_MARK`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from sqlalchemy import bindparam, select

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
        is_first = not self._heads
        changed = await self._store.read(partial(_changes, known=dict(self._heads)))
        live = [head for head in changed if not head.is_deleted]
        for head in changed:
            if head.is_deleted and self._heads.pop(head.key, None) is not None:
                await self._remove(SessionKey.parse(head.key))
        if is_first:
            await self._remove_unknown([head.key for head in live])
        for start in range(0, len(live), SESSIONS_AT_ONCE):
            await self._write_page(live[start : start + SESSIONS_AT_ONCE])

    async def _remove(self, key: SessionKey) -> None:
        self._written.pop(str(key), None)
        saved = saved_dir(self._state_dir, key)
        await asyncio.to_thread(remove, self._folder(key), saved)

    async def _remove_unknown(self, keys: Sequence[str]) -> None:
        """Remove what is left of sessions that were deleted while nobody looked."""

        def sweep() -> None:
            known = {SessionKey.parse(key).digest for key in keys}
            for parent in (self._state_dir / "transcripts", self._state_dir / "saved"):
                remove(*(parent / name for name in set(names_in(parent)) - known))

        await asyncio.to_thread(sweep)

    async def _write_page(self, heads: Sequence[Head]) -> None:
        new = [head.key for head in heads if head.key not in self._written]
        if new:
            self._written |= await asyncio.to_thread(self._find_written, new)
        # After a start most sessions have nothing new: that is found out for many at once.
        behind = await self._store.read(partial(_behind, heads=heads, written=self._written))
        for head in heads:
            if head.key in behind:
                await self._write(SessionKey.parse(head.key), head)
            self._heads[head.key] = head.last_seq

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
            page = await self._store.read(
                partial(_after, key=key, epochs=_epochs(written, epoch), seq=written.seq)
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


def _epochs(written: Written, newest: int) -> range:
    """The epochs that may hold entries which are not written yet."""
    return range(max(0, written.epoch - LATE_EPOCHS) if written.seq else 0, newest + 1)


def _changes(tx: Transaction, known: Mapping[str, int]) -> list[Head]:
    """The sessions that are not as they were; a deleted one that nobody knew is none."""
    now = sessions.c
    rows = tx.conn.execute(
        select(now.key, now.last_seq, now.epoch, now.first_epoch, now.deleted_ms)
    )
    return [
        Head(
            key=key,
            last_seq=last_seq,
            epoch=epoch,
            first_epoch=first_epoch,
            is_deleted=deleted_ms is not None,
        )
        for key, last_seq, epoch, first_epoch, deleted_ms in rows
        if known.get(key) != last_seq and (deleted_ms is None or key in known)
    ]


def _behind(
    tx: Transaction, heads: Sequence[Head], written: Mapping[str, Written | None]
) -> set[str]:
    """The sessions whose files lack something, or hold something that was deleted."""
    found = set()
    for head in heads:
        files = written[head.key]
        if files is None or head.first_epoch:
            found.add(head.key)
            continue
        for epoch in _epochs(files, head.epoch):
            params = {"of_session": head.key, "of_epoch": epoch, "after": files.seq, "most": 1}
            if tx.conn.execute(_NEXT, params).first() is not None:
                found.add(head.key)
                break
    return found


_NEXT = (
    select(messages)
    .where(
        messages.c.session_key == bindparam("of_session"),
        messages.c.epoch == bindparam("of_epoch"),
        messages.c.seq > bindparam("after"),
    )
    .order_by(messages.c.seq)
    .limit(bindparam("most"))
)


def _after(tx: Transaction, key: SessionKey, epochs: range, seq: int) -> list[Record]:
    """The next entries by number. Each epoch is a range of the primary key."""
    found: list[Record] = []
    for epoch in epochs:
        params = {"of_session": str(key), "of_epoch": epoch, "after": seq, "most": PAGE}
        rows = tx.conn.execute(_NEXT, params).mappings()
        found += [Record(epoch=epoch, entry=entry_of(row)) for row in rows]
    found.sort(key=lambda record: record.entry.seq)
    return found[:PAGE]
