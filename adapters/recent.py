"""What a platform told lately: remembered for a while, in bounded number, and what was missed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from clawbot.ports import Clock

T = TypeVar("T")


class Recent(Mapping[str, T]):
    """Values with an age limit; the oldest makes room."""

    def __init__(self, clock: Clock, *, kept_s: float, at_most: int) -> None:
        self._clock = clock
        self._kept_s = kept_s
        self._at_most = at_most
        self._values: dict[str, tuple[T, float]] = {}

    def __getitem__(self, key: str) -> T:
        value, until = self._values[key]
        if until <= self._clock.monotonic():
            del self._values[key]
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def remember(self, key: str, value: T, *, kept_s: float | None = None) -> None:
        """Keep a value, for another time than usual if told so."""
        self._values.pop(key, None)
        while len(self._values) >= self._at_most:
            del self._values[next(iter(self._values))]
        until = self._clock.monotonic() + (self._kept_s if kept_s is None else kept_s)
        self._values[key] = (value, until)

    def forget(self, key: str) -> None:
        """Keep it no longer."""
        self._values.pop(key, None)


class Misses(Mapping[str, T]):
    """A view of values that notes what a reader asked for in vain."""

    def __init__(self, values: Mapping[str, T]) -> None:
        self._values = values
        self.missed: dict[str, None] = {}

    def __getitem__(self, key: str) -> T:
        try:
            return self._values[key]
        except KeyError:
            self.missed[key] = None
            raise

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
