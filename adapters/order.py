"""Keeps the order of arrival: what belongs to one chat is done one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class ArrivalOrder:
    """One queue a chat, gone when nobody waits in it.

    A connection hands over several events at once, each in a task of its own; the store gives the
    order numbers, so the commits of one chat must follow each other as they arrived.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, chat: str) -> AsyncIterator[None]:
        """Wait for those of `chat` who called earlier. The place in the queue is taken before the
        first suspension, so calling order is arrival order.
        """
        lock = self._locks.get(chat)
        if lock is None:
            lock = self._locks[chat] = asyncio.Lock()  # fair: first come, first served
        async with lock:
            yield
