"""Completing messages that were accepted before everything about them was known.

The row is stored and acknowledged first; then the adapter loads names, cards or forwards within a
deadline, and the message is queued, with placeholders where that failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import structlog
from sqlalchemy import select

from clawbot import received_files
from clawbot.errors import StoreUnavailable
from clawbot.messages import InboundMessage, cleaned
from clawbot.ports import Clock, Downloader, Enricher, Store, ThreadReader, Transaction
from clawbot.store import inbox, overheard
from clawbot.store.schema import inbox as rows
from clawbot.store.topics import enrich_topic

log = structlog.get_logger(__name__)

AT_ONCE = 64
LOADING_AT_ONCE = 4  # files are held in memory
LOOK_AGAIN_S = 1.0
LEAST_TIME_S = 1.0


class Enrichment:
    """The enrichment loop of one adapter process.

    thread_messages: how much of a thread is read that a session begins in. file_bytes: how large a
    file may be.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        process_id: str,
        channel: str,
        enricher: Enricher,
        *,
        thread_messages: int = 0,
        file_bytes: int = 0,
    ) -> None:
        self._store = store
        self._clock = clock
        self._process_id = process_id
        self._channel = channel
        self._enricher = enricher
        self._thread_messages = thread_messages
        self._file_bytes = file_bytes
        self._loading = asyncio.Semaphore(LOADING_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Complete messages until cancelled; what is half done is taken up by the next process."""
        ear = self._store.listen([enrich_topic(self._channel)])
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    begun = await self._begin(group)
                    if len(self._tasks) >= AT_ONCE:
                        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                    elif not begun:
                        await ear.wait(LOOK_AGAIN_S)
        finally:
            ear.close()

    async def run_once(self) -> int:
        """Complete what waits now; return how many messages that were."""
        async with asyncio.TaskGroup() as group:
            return await self._begin(group)

    async def _begin(self, group: asyncio.TaskGroup) -> int:
        """Begin to complete what waits, each message by itself: a slow one holds up no other."""
        try:
            rows = await self._store.write(
                partial(
                    inbox.take_unenriched,
                    channel=self._channel,
                    process_id=self._process_id,
                    limit=AT_ONCE - len(self._tasks),
                )
            )
        except StoreUnavailable as error:
            log.warning("enrichment_not_read", channel=self._channel, error=str(error))
            return 0
        for row_id, raw, deadline_ms in rows:
            name = f"enrich {row_id}"
            task = group.create_task(self._complete(row_id, raw, deadline_ms), name=name)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return len(rows)

    async def _complete(self, row_id: int, raw: str, deadline_ms: int) -> None:
        message: InboundMessage | None = None
        earlier: Sequence[InboundMessage] = ()
        seconds = max(LEAST_TIME_S, (deadline_ms - self._clock.now_ms()) / 1000)
        try:
            async with asyncio.timeout(seconds):
                message = cleaned(await self._enricher.enrich(raw))
                reason = await self._store.read(partial(overheard.reason_of, row_id=row_id))
                if reason == overheard.JOINS_THREAD:
                    earlier = await self._read_earlier(raw)
                if reason is not None:
                    message = await self._with_files(message)
        except TimeoutError:
            log.warning("enrichment_timed_out", channel=self._channel, inbox_id=row_id)
        except Exception:
            # The boundary of one message: it goes on as it is rather than hold its session back.
            log.exception("enrichment_failed", channel=self._channel, inbox_id=row_id)
        while True:
            try:
                await self._store.write(
                    partial(
                        _complete,
                        row_id=row_id,
                        message=message,
                        earlier=earlier,
                        deadline_ms=deadline_ms,
                        now_ms=self._clock.now_ms(),
                    )
                )
            except StoreUnavailable as error:
                log.warning("enrichment_not_stored", channel=self._channel, error=str(error))
                await self._clock.sleep(LOOK_AGAIN_S)
            else:
                return

    async def _read_earlier(self, raw: str) -> Sequence[InboundMessage]:
        """What was said in the message's thread before we were called into it."""
        if not isinstance(self._enricher, ThreadReader) or not self._thread_messages:
            return ()
        found = await self._enricher.earlier(raw, self._thread_messages)
        return [cleaned(message) for message in found]

    async def _with_files(self, message: InboundMessage) -> InboundMessage:
        """The message with its files in the store, or with the reasons why they are not."""
        if not isinstance(self._enricher, Downloader) or not message.attachments:
            return message
        async with self._loading:
            files = await received_files.load(
                self._store,
                self._clock,
                self._enricher,
                message.attachments,
                max_bytes=self._file_bytes,
            )
        return replace(message, attachments=files)


def _complete(
    tx: Transaction,
    row_id: int,
    message: InboundMessage | None,
    earlier: Sequence[InboundMessage],
    deadline_ms: int,
    now_ms: int,
) -> None:
    """Store what was loaded, unless the message was changed meanwhile and is loaded anew."""
    deadline = select(rows.c.enrich_by_ms).where(rows.c.id == row_id).with_for_update()
    if tx.conn.execute(deadline).scalar_one_or_none() != deadline_ms:
        return
    overheard.keep_earlier(tx, earlier, now_ms)
    inbox.complete(tx, row_id=row_id, message=message, now_ms=now_ms)
