"""The real clock."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """Time of the host."""

    def now_ms(self) -> int:
        """Wall clock, Unix milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running loop."""
        await asyncio.sleep(seconds)
