"""Proving that this process lives, and noticing when it no longer can.

A process that fails to renew its heartbeat for as long as the lease must stop what it does, because
others take its work over. It judges that by its own monotonic clock, never by the wall clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from clawbot.errors import LeaseLost, StoreUnavailable
from clawbot.ports import Clock, Store, Transaction
from clawbot.store import processes
from clawbot.store.draining import DRAINS

log = structlog.get_logger(__name__)


Facts = Callable[[], Mapping[str, str]]
"""What a process has to tell `status` of itself now, by what it concerns: troubles alone."""


def no_facts() -> Mapping[str, str]:
    """Nothing to tell."""
    return {}


class Heartbeat:
    """The heartbeat of one process, and the reaping of those that have none.

    peers: how many processes of the same role live, this one included, at its last beat.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        process_id: str,
        role: str,
        *,
        interval_s: float,
        lease_s: float,
        facts: Facts = no_facts,
    ) -> None:
        self.process_id = process_id
        self._store = store
        self._clock = clock
        self._role = role
        self._interval_s = interval_s
        self._lease_s = lease_s
        self._facts = facts
        self._drains = False
        self.peers = 1
        self._beaten = clock.monotonic()

    @property
    def is_fresh(self) -> bool:
        """Whether others still take this process for alive."""
        return self._clock.monotonic() - self._beaten < self._lease_s

    async def begin(self) -> None:
        """Register the process; must come before it claims anything."""
        await self._beat()

    async def run(self) -> None:
        """Beat until cancelled. Raise LeaseLost when the lease ran out: end the process then."""
        while True:
            await self._clock.sleep(self._interval_s)
            try:
                async with asyncio.timeout(self._lease_s):
                    await self._beat()
                    await self._reap()
            except (StoreUnavailable, TimeoutError) as error:
                log.warning("heartbeat_failed", error=str(error))
                if not self.is_fresh:
                    raise LeaseLost(
                        f"no heartbeat was stored for {self._lease_s:g} s; ending this process"
                    ) from error

    async def drain(self) -> None:
        """Say at once that this process was asked to stop, and finishes what it has begun."""
        self._drains = True
        try:
            await self._beat()
        except StoreUnavailable as error:
            log.warning("heartbeat_failed", error=str(error))

    async def end(self) -> None:
        """Sign off: whatever is still owned is free at once."""
        await self._store.write(lambda tx: processes.release(tx, self.process_id))

    async def _beat(self) -> None:
        started = self._clock.monotonic()
        facts = {**self._facts(), **(DRAINS if self._drains else {})}
        lease_ms = round(self._lease_s * 1000)

        def unit(tx: Transaction) -> int:
            processes.beat(tx, self.process_id, self._role, facts)
            return processes.count(tx, self._role, lease_ms)

        self.peers = await self._store.write(unit)
        self._beaten = started

    async def _reap(self) -> None:
        lease_ms = round(self._lease_s * 1000)
        dead = await self._store.write(lambda tx: processes.reap(tx, lease_ms))
        if dead:
            log.warning("processes_reaped", ids=dead)
