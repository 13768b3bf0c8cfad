"""The access token of an account: fetched once at a time, by one process for all, and renewed
before it ends.

The token and who fetches it are a note that all processes of the account share. A token that the
platform refuses is replaced once; one that stays refused is not asked for again and again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from adapters.payload import dump, number_of, parse, text_of
from clawbot.errors import NotSent, StoreUnavailable
from clawbot.ports import ChangeNote, Clock

_RENEW_BEFORE_S = 240.0  # the old one stays good for five minutes beside the new one
_SHORTEST_S = 30.0  # also the least time between two forced renewals
_FETCH_MS = 15_000  # longer than a fetch takes; who fetched longer is taken for dead
_LOOK_AGAIN_S = 0.1
_NOTE_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token and how long it is good."""

    value: str
    lasts_s: float


Fetch = Callable[[bool], Awaitable[Token]]
"""Asks the platform for the token; True insists on a new one. Raises SendError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the processes know: the token and its end, when a new one was last insisted on, and
    until when somebody is fetching one.
    """

    value: str = ""
    until_ms: int = 0
    forced_ms: int = 0
    busy_until_ms: int = 0

    def serves(self, refused: str, now_ms: int) -> bool:
        """Whether it is good for who was refused another one."""
        return bool(self.value) and self.value != refused and now_ms < self.until_ms

    def claimed(self, refused: str, now_ms: int) -> Held | None:
        """With us as the one that fetches; None where there is no need, or somebody does it."""
        if self.serves(refused, now_ms) or now_ms < self.busy_until_ms:
            return None
        return replace(self, busy_until_ms=now_ms + _FETCH_MS)


class TokenCache:
    """The current token. Callers that find none share one fetch."""

    def __init__(self, clock: Clock, change: ChangeNote, account: str, fetch: Fetch) -> None:
        """account: what the token is for, its secret included; only a hash of it is kept."""
        self._clock = clock
        self.change = change
        self._note = f"token/{hashlib.sha256(account.encode()).hexdigest()[:32]}"
        self._fetch = fetch
        self._held = Held()
        self._refused = ""
        self._lock = asyncio.Lock()

    async def get(self) -> str:
        """The token. Raises SendError when the platform gives none."""
        if self._held.serves(self._refused, self._clock.now_ms()):
            return self._held.value
        async with self._lock:
            if not self._held.serves(self._refused, self._clock.now_ms()):
                try:
                    await self._renew()
                except StoreUnavailable as error:
                    raise NotSent("the store with the token is away") from error
            return self._held.value

    def refuse(self, value: str) -> None:
        """The platform did not take this token; the next `get` asks again."""
        if value == self._held.value:
            self._refused = value

    async def _renew(self) -> None:
        """Take over what another process has fetched, or fetch it for all."""
        while True:
            now_ms, refused = self._clock.now_ms(), self._refused
            claim = partial(_claim, refused=refused, now_ms=now_ms)
            before = await self._update(claim)
            if before.serves(refused, now_ms):
                self._held = before
                return
            if before.claimed(refused, now_ms) is not None:
                break
            await self._clock.sleep(_LOOK_AGAIN_S)
        fetched = replace(before, busy_until_ms=0)
        try:
            fetched = await self._fetched(before)
        finally:
            await self._update(lambda _held: fetched)
        self._held, self._refused = fetched, ""

    async def _fetched(self, before: Held) -> Held:
        token, forced_ms = await self._fetch(False), before.forced_ms  # noqa: FBT003 - see Fetch
        now_ms = self._clock.now_ms()
        if token.value == self._refused and now_ms - forced_ms >= _SHORTEST_S * 1000:
            forced_ms = now_ms
            token = await self._fetch(True)  # noqa: FBT003 - see Fetch
        lasts_s = max(token.lasts_s - _RENEW_BEFORE_S, min(token.lasts_s / 2, _SHORTEST_S))
        until_ms = self._clock.now_ms() + round(lasts_s * 1000)
        return Held(value=token.value, until_ms=until_ms, forced_ms=forced_ms)

    async def _update(self, update: Callable[[Held], Held]) -> Held:
        """Change the note; returns what it said before."""
        return _read(
            await self.change(self._note, lambda text: _text_of(update(_read(text))), _NOTE_S)
        )


def _claim(held: Held, refused: str, now_ms: int) -> Held:
    return held.claimed(refused, now_ms) or held


def _text_of(held: Held) -> str:
    return dump(
        {
            "value": held.value,
            "until_ms": held.until_ms,
            "forced_ms": held.forced_ms,
            "busy_until_ms": held.busy_until_ms,
        }
    )


def _read(text: str | None) -> Held:
    fields = (parse(text) if text else None) or {}
    return Held(
        value=text_of(fields.get("value")),
        until_ms=number_of(fields.get("until_ms")) or 0,
        forced_ms=number_of(fields.get("forced_ms")) or 0,
        busy_until_ms=number_of(fields.get("busy_until_ms")) or 0,
    )
