"""Standing by: several processes for a channel of which the platform keeps one connection only.

One of them is active; the others wait until its heartbeat is gone. A process that was taken for
dead, and lives on, notices that another one is active, and ends.
"""

from __future__ import annotations

import asyncio
from functools import partial

import structlog

from clawbot.errors import LeaseLost, StoreUnavailable
from clawbot.ports import Clock, Store, Transaction
from clawbot.process.stopping import first_of
from clawbot.store import holding

log = structlog.get_logger(__name__)

LOOK_AGAIN_S = 1.0


class StandBy:
    """The right of one process to be the active one of its channel."""

    def __init__(self, store: Store, clock: Clock, channel: str, process_id: str) -> None:
        self._store = store
        self._clock = clock
        self._channel = channel
        self._process_id = process_id

    async def wait_for_turn(self, stop: asyncio.Event) -> bool:
        """Return True when this process is the active one, False when it is to stop before."""
        is_told = False
        while not stop.is_set():
            try:
                if await self._store.write(self._hold):
                    if is_told:
                        log.info("channel_taken_over", channel=self._channel)
                    return True
            except StoreUnavailable as error:
                log.warning("channel_not_looked_at", channel=self._channel, error=str(error))
            else:
                if not is_told:
                    log.info("channel_stands_by", channel=self._channel)
                is_told = True
            while not stop.is_set() and await self._is_held():
                await first_of(stop.wait(), self._clock.sleep(LOOK_AGAIN_S))
        return False

    async def watch(self) -> None:
        """Watch until cancelled. Raise LeaseLost when another process is the active one."""
        while True:
            await self._clock.sleep(LOOK_AGAIN_S)
            try:
                holder = await self._holder()
            except StoreUnavailable:
                continue  # the lease says when that has lasted too long
            if holder not in {None, self._process_id}:
                raise LeaseLost(f"channel {self._channel}: {holder} serves it now")

    async def _is_held(self) -> bool:
        try:
            return await self._holder() is not None
        except StoreUnavailable:
            return True

    async def _holder(self) -> str | None:
        return await self._store.read(partial(holding.holder_of, channel=self._channel))

    def _hold(self, tx: Transaction) -> bool:
        return holding.hold(tx, self._channel, self._process_id, self._clock.now_ms())
