"""Waiting for a state without polling: who changes the simulator rings, who waits looks again.

Not a queue: nothing is carried, a waiter only re-reads what it waits for.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Bell:
    """One bell for the whole simulator; `ring` is synchronous, so no state change can be missed."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        """Wake every waiter so that it looks again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def until(
        self, look: Callable[[], T | None], *, timeout_s: float, what: Callable[[], str]
    ) -> T:
        """Return the first truthy value of `look`; TimeoutError with `what()` after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                while not (value := look()):
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiters.add(waiter)
                    try:
                        await waiter
                    finally:
                        self._waiters.discard(waiter)
                return value
        except TimeoutError as error:
            raise TimeoutError(f"feishu simulator: waited {timeout_s} s for {what()}") from error
