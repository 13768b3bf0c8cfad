"""Blocking work of tools in a thread that ends early when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[threading.Event], T], threads: Executor | None = None) -> T:
    """Run `work` in a thread (of `threads`, or of those that everybody shares), return its result.

    A thread cannot be cancelled: work that may take long looks at the event, which is set as soon
    as the caller is cancelled, and returns or raises then.
    """
    abandoned = threading.Event()
    loop = asyncio.get_running_loop()
    context = contextvars.copy_context()
    try:
        return await loop.run_in_executor(threads, context.run, work, abandoned)
    finally:
        abandoned.set()
