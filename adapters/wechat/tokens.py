"""The access token of an account: fetched once at a time, renewed before it ends.

The platforms' token calls that are used here give every caller the same token until it is nearly
over, so processes need not share it between them. A token that the platform refuses all the same
is replaced once; one that stays refused is not asked for again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from clawbot.ports import Clock

_RENEW_BEFORE_S = 240.0  # the old one stays good for five minutes beside the new one
_SHORTEST_S = 30.0  # also the least time between two forced renewals


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token and how long it is good."""

    value: str
    lasts_s: float


Fetch = Callable[[bool], Awaitable[Token]]
"""Asks the platform for the token; True insists on a new one. Raises SendError."""


class TokenCache:
    """The current token. Callers that find none share one fetch."""

    def __init__(self, clock: Clock, fetch: Fetch) -> None:
        self._clock = clock
        self._fetch = fetch
        self._value = ""
        self._good_until = float("-inf")
        self._forced_at = float("-inf")
        self._refused = ""
        self._lock = asyncio.Lock()

    async def get(self) -> str:
        """The token. Raises SendError when the platform gives none."""
        if self._clock.monotonic() < self._good_until:
            return self._value
        async with self._lock:
            if self._clock.monotonic() >= self._good_until:
                await self._renew()
            return self._value

    def refuse(self, value: str) -> None:
        """The platform did not take this token; the next `get` asks again."""
        if value == self._value:
            self._refused = value
            self._good_until = float("-inf")

    async def _renew(self) -> None:
        token = await self._fetch(False)  # noqa: FBT003 - see Fetch
        now = self._clock.monotonic()
        if token.value == self._refused and now - self._forced_at >= _SHORTEST_S:
            self._forced_at = now
            token = await self._fetch(True)  # noqa: FBT003 - see Fetch
        self._value = token.value
        lasts_s = max(token.lasts_s - _RENEW_BEFORE_S, min(token.lasts_s / 2, _SHORTEST_S))
        self._good_until = self._clock.monotonic() + lasts_s
