"""The tenant access token: fetched once for all who wait, and renewed before it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from clawbot.errors import SendError
from clawbot.ports import Clock

log = structlog.get_logger(__name__)

_LONGEST_MARGIN_S = 900.0
_RENEW_AGAIN_S = 10.0


class TenantToken:
    """Holds the token of one app.

    fetch: asks Feishu; returns the token and for how many seconds it is good. Feishu gives a new
    one while the old is still good for half an hour, so renewing ahead never leaves a gap.
    """

    def __init__(self, clock: Clock, fetch: Callable[[], Awaitable[tuple[str, float]]]) -> None:
        self._clock = clock
        self._fetch = fetch
        self._token = ""
        self._ends_at = float("-inf")
        self._renew_at = float("-inf")
        self._fetching: asyncio.Task[str] | None = None

    async def current(self) -> str:
        """A token that is good now. Raise what fetching raises when there is none."""
        now = self._clock.monotonic()
        if now < self._renew_at:
            return self._token
        fetching = self._shared_fetch()
        if now < self._ends_at:
            return self._token
        # Shielded: one caller that gives up must not take the others' answer away.
        return await asyncio.shield(fetching)

    def evict(self, token: str) -> None:
        """Forget this token, which Feishu refused; a newer one stays."""
        if token == self._token:
            self._token, self._ends_at, self._renew_at = "", float("-inf"), float("-inf")

    async def close(self) -> None:
        """Give up a fetch that is under way."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    def _shared_fetch(self) -> asyncio.Task[str]:
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._renew(), name="feishu token")
            self._fetching.add_done_callback(self._fetched)
        return self._fetching

    def _fetched(self, task: asyncio.Task[str]) -> None:
        self._fetching = None
        if not task.cancelled() and isinstance(error := task.exception(), SendError):
            log.warning("feishu_token_not_renewed", error=str(error))

    async def _renew(self) -> str:
        now = self._clock.monotonic()
        self._renew_at = max(self._renew_at, now + _RENEW_AGAIN_S) if self._token else now
        self._token, good_for_s = await self._fetch()
        self._ends_at = now + good_for_s
        self._renew_at = self._ends_at - min(_LONGEST_MARGIN_S, good_for_s / 3)
        return self._token
