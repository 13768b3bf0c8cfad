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


class Budget:
    """The allowances of one account's chats. A chat that is not known is left to the platform."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._chats: dict[str, _Allowance] = {}

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

    def spend(self, chat_id: str) -> None:
        """A message was sent, or may have been."""
        if (allowance := self._chats.get(chat_id)) is not None:
            allowance.left = max(allowance.left - 1, 0)

    def exhaust(self, chat_id: str) -> None:
        """The platform says that no more are allowed."""
        self._chats.setdefault(chat_id, _Allowance(left=0, until=float("inf"))).left = 0
