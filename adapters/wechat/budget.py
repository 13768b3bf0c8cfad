"""How many messages a person's last words still allow: WeChat counts, so do we.

A message of a person allows five customer-service messages within 48 hours, a menu click, a scan or
a beginning to follow three within a minute (the platform's table of June 2021; older texts say 20).
The count is a note that all processes of the account share: a message is taken from it before it is
sent, so that however they end none is sent too many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from adapters.payload import dump, list_of, number_of, parse, text_of
from clawbot.ports import ChangeNote, Clock

PER_MESSAGE = 5
PER_EVENT = 3
_MESSAGE_WINDOW_MS = 48 * 3_600_000
_EVENT_WINDOW_MS = 60_000
_KEPT_S = 48 * 3600.0
_MAX_IDENTITIES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a chat may still be sent until then.

    renewed_by: the newest words that renewed it, by identity. withholds: whether something waits
    that the person was not told of. was_told: whether they know that they can ask for more.
    """

    left: int
    until_ms: int
    renewed_by: tuple[str, ...] = ()
    withholds: bool = False
    was_told: bool = False

    def left_at(self, now_ms: int) -> int:
        """How many messages may be sent now."""
        return self.left if now_ms < self.until_ms else 0

    def renewed(self, identity: str, now_ms: int, *, by_event: bool) -> Allowance:
        """After the person did something: the count begins anew, unless that would take from it.
        The platform's further attempts at the same words change nothing.
        """
        if identity in self.renewed_by:
            return self
        seen = (*self.renewed_by, identity)[-_MAX_IDENTITIES:]
        if by_event and self.left_at(now_ms) >= PER_EVENT:
            return replace(self, renewed_by=seen)
        left, window_ms = (
            (PER_EVENT, _EVENT_WINDOW_MS) if by_event else (PER_MESSAGE, _MESSAGE_WINDOW_MS)
        )
        return replace(
            self, left=left, until_ms=now_ms + window_ms, renewed_by=seen, withholds=False
        )

    def taken(self, now_ms: int, keep: int) -> Allowance | None:
        """With one message less, if more than `keep` are left."""
        left = self.left_at(now_ms)
        return None if left <= keep else replace(self, left=left - 1)


class Budget:
    """The allowances of one account's chats. Methods raise StoreUnavailable.

    A chat that is not known has what its person's words allowed; the platform knows better.
    """

    def __init__(self, clock: Clock, change: ChangeNote) -> None:
        self._clock = clock
        self.change = change

    async def renew(self, chat_id: str, identity: str, *, by_event: bool) -> Allowance:
        """The person did something. May be called twice for the same. Returns what was before."""
        now_ms = self._clock.now_ms()
        return await self._update(
            chat_id, lambda known: known.renewed(identity, now_ms, by_event=by_event)
        )

    async def take(self, chat_id: str, *, keep: int = 0) -> Allowance | None:
        """Take one message that is about to be sent, if more than `keep` are left; what is left
        then, None if nothing was taken.
        """
        now_ms = self._clock.now_ms()
        before = await self._update(chat_id, lambda it: it.taken(now_ms, keep) or it)
        return before.taken(now_ms, keep)

    async def give_back(self, chat_id: str) -> None:
        """A message that was taken did surely not go out."""
        await self._update(chat_id, lambda it: replace(it, left=min(it.left + 1, PER_MESSAGE)))

    async def exhaust(self, chat_id: str) -> None:
        """The platform says that no more are allowed."""
        await self._update(chat_id, lambda it: replace(it, left=0))

    async def withhold(self, chat_id: str) -> None:
        """Something waits for the person's next words, and they do not know it yet."""
        await self._update(chat_id, lambda it: replace(it, withholds=True))

    async def note_told(self, chat_id: str) -> None:
        """The person is told how to get what waits."""
        await self._update(chat_id, lambda it: replace(it, withholds=False, was_told=True))

    async def look(self, chat_id: str) -> Allowance:
        """What is known now."""
        return await self._update(chat_id, lambda it: it)

    async def _update(self, chat_id: str, update: Callable[[Allowance], Allowance]) -> Allowance:
        """Change a chat's allowance; returns the one before."""
        unknown = Allowance(left=PER_MESSAGE, until_ms=self._clock.now_ms() + _MESSAGE_WINDOW_MS)

        def change(text: str | None) -> str:
            return _text_of(update(_read(text) or unknown))

        before = await self.change(f"budget/{chat_id}", change, _KEPT_S)
        return _read(before) or unknown


def _text_of(allowance: Allowance) -> str:
    return dump(
        {
            "left": allowance.left,
            "until_ms": allowance.until_ms,
            "by": allowance.renewed_by,
            "withholds": allowance.withholds,
            "told": allowance.was_told,
        }
    )


def _read(text: str | None) -> Allowance | None:
    fields = parse(text) if text else None
    if fields is None:
        return None
    return Allowance(
        left=number_of(fields.get("left")) or 0,
        until_ms=number_of(fields.get("until_ms")) or 0,
        renewed_by=tuple(text_of(each) for each in list_of(fields.get("by"))),
        withholds=fields.get("withholds") is True,
        was_told=fields.get("told") is True,
    )
