"""A process that is one part: the child of a supervisor, or a systemd unit of its own."""

from __future__ import annotations

import asyncio
import gc
import os
import uuid
from collections.abc import MutableMapping

import structlog

from clawbot.clock import SystemClock
from clawbot.logs import name_process
from clawbot.process.hosting import HostedPart, OpenPart
from clawbot.process.lifeline import PROCESS_ID_VARIABLE, take_lifeline
from clawbot.process.notify import Notifier
from clawbot.process.stopping import Stopping, on_hangup, on_signals

YOUNG_OBJECTS = 10_000

log = structlog.get_logger(__name__)


def collect_seldom() -> None:
    """Leave what was imported to itself: looking for garbage in it took a twelfth of a message's
    time. What a message leaves is freed by its reference counts, nearly all of it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 50, 50)


async def run_part(
    name: str,
    open_part: OpenPart,
    environ: MutableMapping[str, str],
    *,
    drain_s: float,
    linger_s: float,
) -> int:
    """Run the part until a signal, or the end of the supervisor, asks it to stop.

    The first signal drains, the second ends the process at once; a part that has not drained after
    `drain_s` is cut off, a process that outlives its supervisor by `linger_s` is ended. Return the
    exit code.
    """
    stopping, notifier, clock = Stopping(), Notifier(environ), SystemClock()
    lifeline = take_lifeline(environ)
    process_id = environ.pop(PROCESS_ID_VARIABLE, f"{name}-{uuid.uuid4().hex[:8]}")
    name_process(process_id)
    if lifeline is not None:
        lifeline.watch(stopping.request, linger_s=linger_s)

    def signalled(number: int) -> None:
        log.info("stop_requested", signal=number, insisted=stopping.stop.is_set())
        notifier.stopping()
        if stopping.stop.is_set():
            os._exit(128 + number)
        stopping.request()

    def on_ready() -> None:
        collect_seldom()
        log.info("part_ready")
        notifier.ready()
        if lifeline is not None:
            lifeline.say_ready()
            beats.append(asyncio.create_task(lifeline.beat(clock), name="beats"))

    waits = (lambda: None) if lifeline is None else lifeline.say_waits
    hosted = HostedPart(open_part=open_part, drain_s=drain_s, waits=waits)
    beats = [asyncio.create_task(notifier.feed_watchdog(clock), name="watchdog")]
    try:
        with on_signals(signalled), on_hangup(signalled):
            return await hosted(process_id, on_ready, stopping)
    finally:
        for task in beats:
            task.cancel()
