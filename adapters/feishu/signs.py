"""The reaction that says a message is being answered; at best effort, never in anybody's way."""

from __future__ import annotations

import asyncio

import structlog

from adapters.feishu.api import FeishuApi
from adapters.feishu.failures import SCOPE_CODES
from adapters.recent import Recent
from clawbot.errors import NotSent, Rejected, SendError
from clawbot.ports import Clock

log = structlog.get_logger(__name__)

_KEPT_S = 3600.0
_MAX_SIGNS = 5_000
_REFUSED_S = 3600.0
_CLEAR_S = 2.0


class Signs:
    """Puts the reaction on and takes it off again."""

    def __init__(self, channel: str, emoji: str, api: FeishuApi, clock: Clock) -> None:
        self._channel = channel
        self._emoji = emoji
        self._api = api
        self._clock = clock
        self._shown: Recent[str] = Recent(clock, kept_s=_KEPT_S, at_most=_MAX_SIGNS)
        self._refused_until = float("-inf")

    async def show(self, message_id: str, *, active: bool, mark: str = "") -> str | None:
        """Begin or end the sign on a message; may be called twice. Returns the reaction's id, by
        which another process can end it.
        """
        if not self._emoji or self._clock.monotonic() < self._refused_until:
            return None
        try:
            if active:
                return await self._begin(message_id)
            await self._end(message_id, mark)
        except SendError as error:
            self._refused_until = self._clock.monotonic() + _pause_s(error)
            log.info("feishu_sign_failed", channel=self._channel, error=str(error))
        return None

    async def clear(self) -> None:
        """Take all signs off that this process shows, as far as that goes quickly."""
        try:
            async with asyncio.timeout(_CLEAR_S):
                for message_id in list(self._shown):
                    await self.show(message_id, active=False)
        except TimeoutError:
            log.info("feishu_signs_left", channel=self._channel)

    async def _begin(self, message_id: str) -> str:
        if message_id not in self._shown:
            self._shown.remember(message_id, await self._api.react(message_id, self._emoji))
        return self._shown[message_id]

    async def _end(self, message_id: str, mark: str) -> None:
        """Also a sign that the process before this one put on; without its id Feishu is asked."""
        known = self._shown.get(message_id) or mark
        self._shown.forget(message_id)
        ours = [known] if known else await self._api.own_reactions(message_id, self._emoji)
        for reaction_id in ours:
            await self._api.unreact(message_id, reaction_id)


def _pause_s(error: SendError) -> float:
    """How long to show no signs; a missing permission will not come back soon."""
    if isinstance(error, NotSent):
        return error.retry_after_s or 0.0
    is_refused = isinstance(error, Rejected) and error.code in SCOPE_CODES
    return _REFUSED_S if is_refused else 0.0
