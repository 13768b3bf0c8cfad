"""How a process is asked to stop: politely first, then at once."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

log = structlog.get_logger(__name__)

ECHO_S = 0.2


class Stopping:
    """Two requests: `stop` = finish or release what is open and return; `now` = drop everything."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.now = asyncio.Event()

    def request(self) -> None:
        """Ask to stop; asked again, insist."""
        if self.stop.is_set():
            self.now.set()
        self.stop.set()


@contextmanager
def on_signals(request: Callable[[int], None]) -> Iterator[None]:
    """Call `request` with the number of each SIGTERM or SIGINT that arrives.

    Some senders, timeout(1) for one, signal the process and then its group: what arrives within
    `ECHO_S` is the same wish.
    """
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    last = float("-inf")

    def arrived(number: int) -> None:
        nonlocal last
        if loop.time() - last >= ECHO_S:
            last = loop.time()
            request(number)

    for number in signals:
        loop.add_signal_handler(number, arrived, int(number))
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


@contextmanager
def on_hangup(request: Callable[[int], None]) -> Iterator[None]:
    """Take SIGHUP as the end of the terminal where there is one: call `request` as for SIGTERM.
    Elsewhere it asks to look at the config, which each part does every second in any case.
    """
    loop = asyncio.get_running_loop()
    number = int(signal.SIGHUP)
    has_terminal = sys.stdin is not None and sys.stdin.isatty()

    def arrived() -> None:
        if has_terminal:
            request(number)
        else:
            log.info("reload_requested", signal=number)

    loop.add_signal_handler(number, arrived)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)


async def first_of(*waits: Coroutine[Any, Any, object], timeout_s: float | None = None) -> None:
    """Return when one of these is done or the time is over; the others are cancelled.

    Raise what the finished one raised.
    """
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
