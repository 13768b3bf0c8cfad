"""Where a part's time goes: `python -m tests.bench.profiled OUT PART …` runs `clawbot PART …`.

Every thread is profiled on its own. Waiting counts at what waits (the loop's `run_until_complete`,
a queue's `get`), and the profiler takes time too: shares tell more than figures.
"""

from __future__ import annotations

import cProfile
import io
import pstats
import sys
import threading
from pathlib import Path

SHOWN = 45


class Profiles:
    """The profiles of this process's threads, by the kind of thread."""

    def __init__(self) -> None:
        self.profiles: list[tuple[str, cProfile.Profile]] = []

    def begin(self, *_event: object) -> None:
        """Profile the thread that calls this."""
        profile = cProfile.Profile()
        name = threading.current_thread().name.rstrip("0123456789_-")
        self.profiles.append((name, profile))
        profile.enable()

    def report(self) -> str:
        """The most expensive functions of each kind of thread."""
        text = io.StringIO()
        for name in dict.fromkeys(name for name, _ in self.profiles):
            mine = [profile for each, profile in self.profiles if each == name]
            for profile in mine:
                profile.create_stats()
            stats = pstats.Stats(*mine, stream=text)
            text.write(f"\n==== threads {name}\n")
            for order in ("tottime", "cumulative"):
                stats.sort_stats(order).print_stats(SHOWN)
        return text.getvalue()


def main() -> None:
    """Run the part and write the profiles at its end."""
    out, sys.argv = Path(sys.argv[1]), ["clawbot", *sys.argv[2:]]
    from clawbot.cli import main as clawbot  # noqa: PLC0415  # its imports are not of interest

    profiles = Profiles()
    threading.setprofile(profiles.begin)
    profiles.begin()
    try:
        clawbot()
    finally:
        threading.setprofile(None)
        sys.setprofile(None)
        out.write_text(profiles.report())


if __name__ == "__main__":
    main()
