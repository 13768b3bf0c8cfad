"""Runs one part in this process: as the whole of a child process, or beside others (`--single`).

This is the outermost boundary of a part: whatever it raises ends here as a log line and an exit
code, which tells the supervisor or systemd whether to start it again. Only while the store is away
at its start it waits here, as another process would have to.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import structlog

from clawbot.errors import (
    ChannelBroken,
    ConfigError,
    LeaseLost,
    StartupError,
    StoreAway,
    StoreUnavailable,
)
from clawbot.logs import name_process
from clawbot.ports import Part, Readiness
from clawbot.process.stopping import Stopping, first_of
from clawbot.supervisor import EXIT_BAD_CONFIG, EXIT_STORE_AWAY

log = structlog.get_logger(__name__)

EXIT_FAILED = 1
AWAY_PAUSE_S = 1.0


def _nothing() -> None:
    """Nobody wants to know."""


OpenPart = Callable[[str], AbstractAsyncContextManager[Part]]
"""Opens a part for a process id; leaving the context closes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedPart:
    """Runs a part in this event loop; see `supervisor.RunChild`.

    drain_s: how long after the request to stop the part is cut off; more than its own grace.
    ready_after_s: how long it may take until it works; None = who runs this process judges that.
    waits: called now and then while it waits for its store.
    """

    open_part: OpenPart
    drain_s: float
    ready_after_s: float | None = None
    waits: Callable[[], None] = _nothing

    async def __call__(
        self, process_id: str, on_ready: Callable[[], None], stopping: Stopping
    ) -> int:
        """Run it once; return the exit code that a process of its own would end with."""
        has_worked = False

        def ready() -> None:
            nonlocal has_worked
            has_worked = True
            limit.reschedule(None)
            if attempt:
                log.info("store_back", attempts=attempt)
            on_ready()

        for attempt in itertools.count():
            # What an attempt owned is freed under its own name when its lease is over.
            own_id = f"{process_id}.{attempt}" if attempt else process_id
            name_process(own_id)
            limit = asyncio.timeout(self.ready_after_s)
            try:
                async with limit, self.open_part(own_id) as part:
                    return await self._run(part, ready, stopping)
            except Exception as error:  # noqa: BLE001 logged here or by _exit_code
                if limit.expired():
                    log.error("part_not_ready", within_s=self.ready_after_s)  # noqa: TRY400 no trace
                    return EXIT_FAILED
                cause = _cause_of(error)
                if has_worked or not isinstance(cause, StoreAway | StoreUnavailable):
                    return _exit_code(cause)
                if not attempt:
                    log.warning("store_away", error=cause)
                self.waits()
            await first_of(stopping.stop.wait(), timeout_s=AWAY_PAUSE_S)
            if stopping.stop.is_set():
                return 0
        raise AssertionError  # count() does not end

    async def _run(self, part: Part, on_ready: Callable[[], None], stopping: Stopping) -> int:
        running = asyncio.create_task(part.run(stopping.stop), name="part")
        try:
            if isinstance(part, Readiness):
                await first_of(part.ready(), _end_of(running), stopping.stop.wait())
            if not running.done() and not stopping.stop.is_set():
                on_ready()
            await first_of(_end_of(running), stopping.stop.wait())
            await first_of(_end_of(running), stopping.now.wait(), timeout_s=self.drain_s)
            if not running.done():
                log.error("part_cut_off", drain_s=self.drain_s, insisted=stopping.now.is_set())
                return EXIT_FAILED
            running.result()
            if not stopping.stop.is_set():
                log.error("part_ended_unasked")
                return EXIT_FAILED
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return 0


async def _end_of(running: asyncio.Task[None]) -> None:
    """Wait for a task without owning it: neither its failure nor our end crosses over."""
    await asyncio.wait([running])


def _cause_of(error: Exception) -> BaseException:
    cause: BaseException = error
    while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]
    return cause


def _exit_code(cause: BaseException) -> int:
    """Log why a part failed; what its own message explains needs no traceback."""
    if isinstance(cause, ConfigError | ChannelBroken):
        log.error("part_refused", error=cause)
        return EXIT_BAD_CONFIG
    if isinstance(cause, StoreAway | StoreUnavailable):
        log.error("part_lost_its_store", error=cause)
        return EXIT_STORE_AWAY
    if isinstance(cause, StartupError):
        log.error("part_not_started", error=cause)
        return EXIT_FAILED
    if isinstance(cause, LeaseLost):
        log.error("part_lost_its_lease", error=cause)
        return EXIT_STORE_AWAY
    log.error("part_failed", exc_info=cause)
    return EXIT_FAILED
