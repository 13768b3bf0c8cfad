"""Notes of one process alone, for as long as an adapter has not been told of the shared ones: it
reads a recorded payload, or is tried without a daemon.
"""

from __future__ import annotations

from collections.abc import Callable

from clawbot.ports import Clock


class OwnNotes:
    """`change` is a `ports.ChangeNote`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._notes: dict[str, tuple[str, float]] = {}

    async def change(
        self, key: str, change: Callable[[str | None], str | None], lasts_s: float
    ) -> str | None:
        """See `ports.ChangeNote`."""
        now = self._clock.monotonic()
        text, until = self._notes.pop(key, ("", now))
        before = text if until > now else None
        after = change(before)
        if after is not None:
            self._notes[key] = (after, now + lasts_s)
        return before
