"""Who listens in this process, whatever carries the rings to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet


class Ear:
    """One listener; see `ports.Wakeup`."""

    def __init__(self, ears: Ears, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        self.rung = asyncio.Event()
        self._ears = ears

    async def wait(self, timeout_s: float) -> bool:
        """Wait for a ring, at most `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.rung.wait()
        except TimeoutError:
            return False
        self.rung.clear()
        return True

    def close(self) -> None:
        """Hear no more."""
        self._ears.forget(self)


class Ears:
    """The listeners of one process; used on its event loop alone.

    topics: what any of them listens to, for any thread to look at.
    """

    def __init__(self) -> None:
        self.topics = frozenset[str]()
        self._listening: set[Ear] = set()

    def listen(self, topics: Sequence[str]) -> Ear:
        """Hear the rings of `topics` from now on."""
        ear = Ear(self, topics)
        self._listening.add(ear)
        self._gather_topics()
        return ear

    def forget(self, ear: Ear) -> None:
        """Let a listener go."""
        self._listening.discard(ear)
        self._gather_topics()

    def _gather_topics(self) -> None:
        self.topics = frozenset().union(*(ear.topics for ear in self._listening))

    def ring(self, topics: AbstractSet[str]) -> None:
        """Wake those who listen to one of `topics`."""
        for ear in self._listening:
            if ear.topics & topics:
                ear.rung.set()
