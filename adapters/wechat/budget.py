"""How many messages a person's last words still allow: WeChat counts, so do we.

A message of a person allows five customer-service messages within 48 hours, a menu click, a scan or
a beginning to follow three within a minute (the platform's table of June 2021; older texts say 20).
The count lives in this process. After a restart it begins anew; then the platform's own refusal
(45047, 45015) closes the window.
"""

from __future__ import annotations

from dataclasses import dataclass

from clawbot.ports import Clock

PER_MESSAGE = 5
PER_EVENT = 3
_MESSAGE_WINDOW_S = 48 * 3600.0
_EVENT_WINDOW_S = 60.0
_MAX_CHATS = 50_000


@dataclass(slots=True)
class _Allowance:
    left: int
    until: float
    withholds: bool = False


class Budget:
    """The allowances of one account's chats. A chat that is not known is left to the platform."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._chats: dict[str, _Allowance] = {}
        self._told_to_ask: dict[str, None] = {}

    def renew(self, chat_id: str, *, by_event: bool) -> None:
        """The person did something: the count begins anew, unless that would take from it."""
        allowed, window_s = (
            (PER_EVENT, _EVENT_WINDOW_S) if by_event else (PER_MESSAGE, _MESSAGE_WINDOW_S)
        )
        if by_event and self.left(chat_id) >= allowed and chat_id in self._chats:
            return
        self._chats.pop(chat_id, None)
        while len(self._chats) >= _MAX_CHATS:
            del self._chats[next(iter(self._chats))]
        until = self._clock.monotonic() + window_s
        self._chats[chat_id] = _Allowance(left=allowed, until=until)

    def left(self, chat_id: str) -> int:
        """How many messages may be sent now."""
        allowance = self._chats.get(chat_id)
        if allowance is None:
            return PER_MESSAGE
        return allowance.left if self._clock.monotonic() < allowance.until else 0

    def take(self, chat_id: str, *, keep: int = 0) -> int | None:
        """Take one message that is about to be sent, if more than `keep` are left; how many are
        left then, None if nothing was taken.
        """
        left = self.left(chat_id)
        if left <= keep:
            return None
        allowance = self._allowance(chat_id)
        allowance.left = left - 1
        return allowance.left

    def give_back(self, chat_id: str) -> None:
        """A message that was taken did surely not go out."""
        self._allowance(chat_id).left += 1

    def exhaust(self, chat_id: str) -> None:
        """The platform says that no more are allowed."""
        self._allowance(chat_id).left = 0

    def withhold(self, chat_id: str) -> None:
        """Something waits for the person's next words, and they do not know it yet."""
        self._allowance(chat_id).withholds = True

    def withholds(self, chat_id: str) -> bool:
        """Whether something was withheld since the person's last words."""
        return (allowance := self._chats.get(chat_id)) is not None and allowance.withholds

    def note_told(self, chat_id: str) -> None:
        """The person is told how to get what waits."""
        self._told_to_ask[chat_id] = None
        while len(self._told_to_ask) > _MAX_CHATS:
            del self._told_to_ask[next(iter(self._told_to_ask))]

    def was_told(self, chat_id: str) -> bool:
        """Whether the person may know how to get what waits."""
        return chat_id in self._told_to_ask

    def _allowance(self, chat_id: str) -> _Allowance:
        unknown = _Allowance(left=PER_MESSAGE, until=float("inf"))
        return self._chats.setdefault(chat_id, unknown)
