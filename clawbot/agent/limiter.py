"""How much a provider is asked for: requests and tokens a minute, and a pause when it wants one.

One object a worker process; all its sessions share it, so that one which is told to wait makes the
others wait too, instead of being told the same. Calls go ahead in the order in which they came. Of
several workers each takes an equal part, so that the provider sees no more than is configured.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from clawbot.config_sections import ProviderConfig
from clawbot.errors import ModelError
from clawbot.ports import Clock

WINDOW_S = 60.0


@dataclass(slots=True)
class Admitted:
    """A call that may go ahead. tokens: an estimate, until the caller knows better."""

    at: float
    tokens: int


@dataclass(slots=True, kw_only=True)
class _Provider:
    """The calls of the last minute, and until when there is a pause."""

    requests: int | None
    tokens: int | None
    calls: deque[Admitted] = field(default_factory=deque)
    pause_until: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Limiter:
    """Holds calls back; see the config section `providers`.

    longest_wait_s: who would wait longer is refused, as the provider itself would do. workers: how
    many share what is configured, this one included.
    """

    def __init__(
        self, clock: Clock, providers: Mapping[str, ProviderConfig], longest_wait_s: float
    ) -> None:
        self._clock = clock
        self._longest_wait_s = longest_wait_s
        self._given = providers
        self.workers: Callable[[], int] = lambda: 1
        self._providers: dict[str, _Provider] = {}

    async def admit(self, provider: str, tokens: int) -> Admitted:
        """Wait until a call of about so many tokens may be made. Raise ModelError (rate_limited) if
        that takes too long.
        """
        state = self._of(provider)
        gives_up = self._clock.monotonic() + self._longest_wait_s
        async with state.turn:
            while (wait_s := self._wait_s(state, tokens)) > 0:
                now = self._clock.monotonic()
                if now + wait_s > gives_up:
                    raise ModelError(
                        f"provider {provider}: no call is free within {self._longest_wait_s:g} s",
                        kind="rate_limited",
                        retry_after_s=wait_s,
                    )
                await self._clock.sleep(wait_s)
            admitted = Admitted(self._clock.monotonic(), tokens)
            if state.requests is not None or state.tokens is not None:
                state.calls.append(admitted)
            return admitted

    def pause(self, provider: str, seconds: float) -> None:
        """Let no call go ahead for a while: the provider wants it."""
        state = self._of(provider)
        state.pause_until = max(state.pause_until, self._clock.monotonic() + seconds)

    def _of(self, provider: str) -> _Provider:
        if provider not in self._providers:
            given = self._given.get(provider, ProviderConfig())
            self._providers[provider] = _Provider(
                requests=given.requests_per_minute, tokens=given.tokens_per_minute
            )
        return self._providers[provider]

    def _wait_s(self, state: _Provider, tokens: int) -> float:
        """How long until the next call of about so many tokens may be made; 0 = now.

        One that is larger than a minute's tokens goes ahead when nothing else counts.
        """
        now, workers = self._clock.monotonic(), self.workers()
        calls = state.calls
        # A part of less than one request is one in a longer time.
        requests = state.requests or workers
        most, most_in_s = max(1, requests // workers), WINDOW_S * max(1.0, workers / requests)
        while calls and calls[0].at + most_in_s <= now:
            calls.popleft()
        waits = [state.pause_until - now, 0.0]
        if state.requests is not None and len(calls) >= most:
            waits.append(calls[len(calls) - most].at + most_in_s - now)
        if state.tokens is not None:
            recent = [call for call in calls if call.at + WINDOW_S > now]
            used = sum(call.tokens for call in recent)
            for call in recent:
                if used + tokens <= state.tokens / workers:
                    break
                used -= call.tokens
                waits.append(call.at + WINDOW_S - now)
        return max(waits)
