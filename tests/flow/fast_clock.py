"""Time that runs faster, for a daemon of flow tests: an hour of its logic passes in a minute.

Only the logic's clock: leases are judged by the real one, as everywhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from unittest.mock import patch

from adapters.feishu.long_connection import Timings
from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.lease import Facts, Heartbeat, no_facts
from clawbot.parts.heartbeat import heartbeat_of
from clawbot.ports import Clock, Store

CALL_TIMEOUT_S = 1.0  # of the host's


class FastClock:
    """A `Clock` that begins now and runs `speed` times as fast as the host's."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._began = time.monotonic()
        self._began_ms = time.time_ns() / 1_000_000

    def elapsed_s(self) -> float:
        """How much time has passed on it."""
        return (time.monotonic() - self._began) * self._speed

    def now_s(self) -> float:
        """As `now_ms`, in seconds."""
        return self.now_ms() / 1000

    def now_ms(self) -> int:
        """See `Clock`."""
        return round(self._began_ms + self.elapsed_s() * 1000)

    def monotonic(self) -> float:
        """See `Clock`."""
        return self._began + self.elapsed_s()

    async def sleep(self, seconds: float) -> None:
        """See `Clock`."""
        await asyncio.sleep(seconds / self._speed)


@contextmanager
def running_by(clock: FastClock) -> Iterator[None]:
    """Let parts that are started within the block run by this clock; links to Feishu, which have
    time-outs of their own, are made and given up faster too.
    """
    timings = partial(Timings, connect_s=2.0, steady_s=0.2, backoff_s=0.02, max_backoff_s=1.0)
    with ExitStack() as stack:
        for part in ("adapter", "worker"):
            stack.enter_context(patch(f"clawbot.parts.{part}.SystemClock", lambda: clock))
            stack.enter_context(patch(f"clawbot.parts.{part}.heartbeat_of", _real_heartbeat))
        stack.enter_context(patch("adapters.feishu.adapter.Timings", timings))
        stack.enter_context(patch("adapters.feishu.calls.CALL_TIMEOUT_S", CALL_TIMEOUT_S))
        yield


def _real_heartbeat(
    config: Config,
    store: Store,
    _clock: Clock,
    process_id: str,
    role: str,
    facts: Facts = no_facts,
) -> Heartbeat:
    return heartbeat_of(config, store, SystemClock(), process_id, role, facts)
