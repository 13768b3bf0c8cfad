"""How much one person, and one chat, may ask for in a minute: counted in the adapter's process.

What is over the rate is not taken, and its sender is told so. Counts live in memory: a restart
begins anew. Several adapter processes of one channel count together (`clawbot.shared_rates`).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from clawbot.messages import InboundMessage

WINDOW_MS = 60_000
MOST_COUNTED = 10_000

Over = Literal["sender", "chat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """How many messages a minute are taken; 0 = any number."""

    per_sender: int = 0
    per_chat: int = 0


class Rates:
    """The messages of the last minute, by sender and by chat. Used by one thread at a time."""

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits
        # Each holds the messages taken within the window, the oldest first: identity -> when.
        self._taken: OrderedDict[tuple[Over, str], dict[str, int]] = OrderedDict()

    def take(self, message: InboundMessage, now_ms: int) -> Over | None:
        """Count a message that is about to be taken; or say whose rate it is over, uncounted.

        May be called again for the same message: it counts once.
        """
        who: tuple[tuple[Over, str], ...] = (
            ("sender", message.sender.id),
            ("chat", message.chat_id),
        )
        most = (self._limits.per_sender, self._limits.per_chat)
        counted = [self._within_window(key, now_ms) for key in who]
        for key, taken, limit in zip(who, counted, most, strict=True):
            if limit and len(taken) >= limit and message.identity not in taken:
                return key[0]
        for taken, limit in zip(counted, most, strict=True):
            if limit:
                taken.setdefault(message.identity, now_ms)
        return None

    def _within_window(self, key: tuple[Over, str], now_ms: int) -> dict[str, int]:
        taken = self._taken.setdefault(key, {})
        self._taken.move_to_end(key)
        while len(self._taken) > MOST_COUNTED:
            self._taken.popitem(last=False)
        since = now_ms - WINDOW_MS
        while taken and (oldest := next(iter(taken))) and taken[oldest] <= since:
            del taken[oldest]
        return taken
