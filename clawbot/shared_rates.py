"""Rates of people and chats (`clawbot.rates`) that hold for all adapter processes of a channel.

One process counts in its memory. As soon as there are several, each sees only some of the messages,
so they count together in notes of the channel: this minute's and the last one's, of which as much
counts as is not a minute ago yet. The hosts' clocks may differ: the latest minute is everybody's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clawbot.messages import InboundMessage
from clawbot.ports import Transaction
from clawbot.rates import WINDOW_MS, Over, RateLimits, Rates
from clawbot.store import notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many were taken in a minute (of the Unix time), and in the one before."""

    minute: int
    before: int = 0
    now: int = 0

    @classmethod
    def read(cls, text: str | None, now_ms: int) -> Counted:
        """What a note says, as of now."""
        this_minute = now_ms // WINDOW_MS
        if not text:
            return cls(minute=this_minute)
        minute, before, now = map(int, text.split())
        if this_minute <= minute:
            return cls(minute=minute, before=before, now=now)
        return cls(minute=this_minute, before=now if this_minute == minute + 1 else 0)

    def text(self) -> str:
        """As it stands in a note."""
        return f"{self.minute} {self.before} {self.now}"

    def within_window(self, now_ms: int) -> float:
        """How many were taken within the last minute, as far as that can be told."""
        passed = min(max(now_ms / WINDOW_MS - self.minute, 0.0), 1.0)
        return self.before * (1.0 - passed) + self.now

    def plus(self, count: int) -> Counted:
        """With so many more."""
        return Counted(minute=self.minute, before=self.before, now=max(self.now + count, 0))


class SharedRates:
    """See the module. processes: how many adapter processes of the channel live."""

    def __init__(self, limits: RateLimits, processes: Callable[[], int]) -> None:
        self._limits = limits
        self._processes = processes
        self._alone = Rates(limits)

    def take(self, tx: Transaction, message: InboundMessage, now_ms: int) -> Over | None:
        """Count a message that this transaction takes; or say whose rate it is over, uncounted."""
        if self._processes() <= 1:
            return self._alone.take(message, now_ms)
        sender, channel = message.sender.id, message.channel
        if not _count(tx, channel, f"rate/sender/{sender}", self._limits.per_sender, now_ms):
            return "sender"
        chat = f"rate/chat/{message.chat_id}"
        if not _count(tx, channel, chat, self._limits.per_chat, now_ms):
            _count(tx, channel, f"rate/sender/{sender}", self._limits.per_sender, now_ms, by=-1)
            return "chat"
        return None


def _count(tx: Transaction, channel: str, key: str, limit: int, now_ms: int, by: int = 1) -> bool:
    """Count one more, or one less; False = there is no room for more."""
    if not limit:
        return True

    def has_room(counted: Counted) -> bool:
        return by < 0 or counted.within_window(now_ms) + by <= limit

    def change(text: str | None) -> str:
        counted = Counted.read(text, now_ms)
        return (counted.plus(by) if has_room(counted) else counted).text()

    before = notes.change(tx, channel, key, change, lasts_ms=2 * WINDOW_MS, now_ms=now_ms)
    return has_room(Counted.read(before, now_ms))
