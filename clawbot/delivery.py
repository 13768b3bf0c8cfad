"""Delivery: the outbox loop that every adapter process runs.

It claims the replies whose turn it is in their lanes and hands each to a task of its own
(`clawbot.reply`), so that a slow chat holds up no other; and it looks after all growing replies
with one query.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import structlog

from clawbot.commands.tasks import footer
from clawbot.errors import LeaseLost, StoreUnavailable
from clawbot.lease import Heartbeat
from clawbot.ports import ChannelAdapter, Clock, Store
from clawbot.reply import ReplySender
from clawbot.store import draining as draining_of
from clawbot.store import lanes, outbox
from clawbot.store.outbox import OutboxRow
from clawbot.store.topics import draft_topic, outbox_topic

log = structlog.get_logger(__name__)

CLAIM_BATCH = 32
ROWS_AT_ONCE = 256
ROWS_OF_A_CHAT = 64  # what waits for its chat's pace leaves room for the others
LOOK_AGAIN_S = 1.0
GROWTH_INTERVAL_S = 0.2
HEARD_OF_WITHIN_S = 2.0
LAST_CALLS_S = 3.0  # less than what cuts a part off that has not ended


class Delivery:
    """Sends the replies of one channel through its adapter."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        heartbeat: Heartbeat,
        channel: str,
        adapter: ChannelAdapter,
        *,
        grace_s: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._heartbeat = heartbeat
        self._channel = channel
        self._grace_s = grace_s
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._hearing: asyncio.Task[bool] | None = None
        self._is_short = self._was_freed = False
        self._growing: dict[int, asyncio.Future[OutboxRow | None]] = {}
        self.sender = ReplySender(store, clock, heartbeat, adapter)

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop`; then finish what can be finished within the grace."""
        ear = self._store.listen([outbox_topic(self._channel)])
        try:
            async with asyncio.TaskGroup() as group:
                growth = group.create_task(self._follow_growth(), name="growth")
                stopped = group.create_task(stop.wait(), name="stop")
                while not stop.is_set():
                    if await self._claim(group) < CLAIM_BATCH and not self._was_freed:
                        self._hearing = group.create_task(ear.wait(LOOK_AGAIN_S), name="ear")
                        waited = {self._hearing, stopped}
                        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                        self._hearing.cancel()
                await self._flush(group)
                growth.cancel()
        finally:
            ear.close()

    async def _claim(self, group: asyncio.TaskGroup) -> int:
        room = min(CLAIM_BATCH, ROWS_AT_ONCE - len(self._tasks))
        counts = Counter(self._tasks.values()) if len(self._tasks) >= ROWS_OF_A_CHAT else {}
        crowded = [chat for chat, count in counts.items() if count >= ROWS_OF_A_CHAT]
        self._is_short, self._was_freed = room <= 0 or bool(crowded), False
        if room <= 0 or not self._heartbeat.is_fresh:
            return 0
        try:
            rows = await self._store.write(
                partial(
                    lanes.claim,
                    channel=self._channel,
                    holder=self._heartbeat.process_id,
                    now_ms=self._clock.now_ms(),
                    limit=room,
                    split=self.sender.split,
                    footer=footer,
                    crowded=crowded,
                )
            )
        except StoreUnavailable as error:
            log.warning("outbox_not_read", channel=self._channel, error=str(error))
            return 0
        for row in rows:
            task = group.create_task(self._deliver(row), name=f"reply {row.id}")
            self._tasks[task] = row.route.chat_id
            task.add_done_callback(self._forget)
        return len(rows)

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if self._is_short and self._hearing is not None:
            self._was_freed = True
            self._hearing.cancel()  # there is room again: look at once

    async def _deliver(self, row: OutboxRow) -> None:
        """See one reply through; it ends, is given back for later, or is taken over."""
        sent = self.sender.begin()
        view: OutboxRow | None = row
        try:
            while view is not None:
                view = await self.sender.bring_up_to_date(view, sent)
                if view.state != "streaming":
                    return
                view = await self._next_view(view.id)
        except LeaseLost:
            log.warning("reply_left_off", channel=row.channel, outbox_id=row.id)
            await self._let_go(row.id)

    async def _let_go(self, row_id: int) -> None:
        """Free a reply that nobody took over: our lease was only late, and we live on."""
        while True:
            try:
                await self._store.write(
                    partial(outbox.let_go, outbox_id=row_id, holder=self._heartbeat.process_id)
                )
            except StoreUnavailable as error:
                log.warning("reply_not_let_go", outbox_id=row_id, error=str(error))
                await self._clock.sleep(LOOK_AGAIN_S)
            else:
                return

    async def _next_view(self, row_id: int) -> OutboxRow | None:
        """The growing reply as it is at the next look; None when it is ours no longer."""
        self._growing[row_id] = asyncio.get_running_loop().create_future()
        try:
            return await self._growing[row_id]
        finally:
            del self._growing[row_id]

    async def _follow_growth(self) -> None:
        """Look at all growing replies together, when one grew, a few times a second."""
        ear = self._store.listen([draft_topic(self._channel)])
        try:
            while True:
                await ear.wait(LOOK_AGAIN_S)
                waiting = dict(self._growing)
                if not waiting:
                    continue
                try:
                    rows = await self._store.read(
                        partial(outbox.held, ids=list(waiting), holder=self._heartbeat.process_id)
                    )
                except StoreUnavailable as error:
                    log.warning("drafts_not_read", channel=self._channel, error=str(error))
                    continue
                found = {row.id: row for row in rows}
                for row_id, future in waiting.items():
                    if not future.done():
                        future.set_result(found.get(row_id))
                await self._clock.sleep(GROWTH_INTERVAL_S)
        finally:
            ear.close()

    async def _flush(self, group: asyncio.TaskGroup) -> None:
        """Go on within the grace until nothing is left to send, nor to come from workers that end
        too; then leave it to the next one.
        """
        began = self._clock.monotonic()
        while (spent_s := self._clock.monotonic() - began) < self._grace_s:
            claimed = await self._claim(group)
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=GROWTH_INTERVAL_S)
            elif not claimed:
                if not await self._is_more_to_come(spent_s):
                    return
                await self._clock.sleep(GROWTH_INTERVAL_S)
        await self._leave_off()

    async def _is_more_to_come(self, spent_s: float) -> bool:
        """Whether replies may come of turns in workers that were asked to stop as well; each of
        them says so, but perhaps not before us.
        """
        try:
            running, draining = await self._store.read(
                partial(draining_of.running, channel=self._channel)
            )
        except StoreUnavailable as error:
            log.warning("draining_not_read", channel=self._channel, error=str(error))
            return False
        return draining > 0 or (running > 0 and spent_s < HEARD_OF_WITHIN_S)

    async def _leave_off(self) -> None:
        """Give back what is not sent yet. A call to the platform that has begun may end."""
        self.sender.permit.withdraw()
        for future in self._growing.values():
            if not future.done():
                future.set_result(None)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_CALLS_S)
        for task in self._tasks:
            task.cancel()
