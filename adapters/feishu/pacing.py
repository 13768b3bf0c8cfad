"""Keeps calls apart: a few messages a second to one chat, and silence where Feishu asked for it.

Feishu counts what all processes of the app send: each of them keeps to its share.
"""

from __future__ import annotations

from collections.abc import Callable

from adapters.feishu.failures import RateLimited
from clawbot.ports import Clock

_GAP_S = 0.25
"""Five a second are allowed to one chat, for all bots in it together; calls do not arrive evenly.
Source: open.feishu.cn, "Send message"."""

_MAX_CHATS = 10_000


class Pacer:
    """Remembers when a chat may be written to next and until when an API must not be called."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.processes: Callable[[], int] = lambda: 1
        self._free_at: dict[str, float] = {}
        self._closed_until: dict[str, float] = {}

    async def turn(self, chat: str) -> None:
        """Wait for the chat's next turn; callers get theirs in the order in which they came."""
        now = self._clock.monotonic()
        at = max(now, self._free_at.pop(chat, now))
        self._free_at[chat] = at + _GAP_S * self.processes()
        while len(self._free_at) > _MAX_CHATS:
            del self._free_at[next(iter(self._free_at))]
        if at > now:
            await self._clock.sleep(at - now)

    def check(self, api: str) -> None:
        """Raise RateLimited, without a call, while an API must be left alone."""
        wait_s = self._closed_until.get(api, 0.0) - self._clock.monotonic()
        if wait_s > 0:
            raise RateLimited(
                f"feishu {api}: rate limited for {wait_s:.1f} s more",
                retry_after_s=wait_s,
                is_chat=False,
            )

    def note(self, api: str, chat: str, error: RateLimited) -> None:
        """Take a refusal to heart."""
        until = self._clock.monotonic() + (error.retry_after_s or _GAP_S)
        if error.is_chat and chat:
            self._free_at[chat] = max(self._free_at.get(chat, 0.0), until)
        elif not error.is_chat:
            self._closed_until[api] = until
