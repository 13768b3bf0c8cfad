"""What a stretch of a process costs: wall time, CPU, memory."""

from __future__ import annotations

import resource
import time


class Stopwatch:
    """Begins to count when it is made."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def per(self, count: int) -> dict[str, float]:
        """Milliseconds for each of `count`, and the most memory that the process has held."""
        return {
            "wall_ms": (time.perf_counter() - self._wall) / count * 1000,
            "cpu_ms": (time.process_time() - self._cpu) / count * 1000,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
