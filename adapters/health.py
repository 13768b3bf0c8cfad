"""How an account's connection is, said in the log once a change; the same for every adapter."""

from __future__ import annotations

import asyncio

import structlog

from clawbot.errors import ChannelBroken
from clawbot.messages import ChannelHealth

log = structlog.get_logger(__name__)


class Health:
    """The state that `status` shows. `broken` stays until the process is started anew."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._state = "connecting"
        self._detail = ""
        self._facts: dict[str, str] = {}
        self._remark = ""
        self._is_broken = asyncio.Event()

    def snapshot(self) -> ChannelHealth:
        """The state now, as a value."""
        return ChannelHealth(state=self._state, detail=self._detail, facts=dict(self._facts))

    def learn(self, **facts: str) -> None:
        """Add or change facts."""
        self._facts |= facts

    def remark(self, text: str) -> None:
        """Say what an admin should know although it works; shown while nothing worse is. "" = no
        more.
        """
        if text and text != self._remark:
            log.warning("channel_incomplete", channel=self._channel, remark=text)
        self._remark = text
        if self._state == "up":
            self._detail = text

    def up(self) -> None:
        """Connected and receiving."""
        if self._state not in {"up", "broken"}:
            log.info("channel_up", channel=self._channel, before=self._state)
            self._state, self._detail = "up", self._remark

    def lost(self, reason: str) -> None:
        """Not working now; tried again."""
        if self._state in {"up", "connecting"}:
            log.warning("channel_lost", channel=self._channel, reason=reason)
            self._state = "degraded"
        if self._state != "broken":
            self._detail = reason

    def broken(self, reason: str) -> None:
        """Only an admin can help."""
        if self._state != "broken":
            log.error("channel_broken", channel=self._channel, reason=reason)
            self._state, self._detail = "broken", reason
            self._is_broken.set()

    async def wait_broken(self) -> None:
        """Wait until only an admin can help; then raise ChannelBroken."""
        await self._is_broken.wait()
        raise ChannelBroken(f"channel {self._channel}: {self._detail}")
