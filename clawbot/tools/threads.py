"""Blocking work of tools in a thread that ends early when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work` in a thread and return its result.

    A thread cannot be cancelled: work that may take long looks at the event, which is set as soon
    as the caller is cancelled, and returns or raises then.
    """
    abandoned = threading.Event()
    try:
        return await asyncio.to_thread(work, abandoned)
    finally:
        abandoned.set()
