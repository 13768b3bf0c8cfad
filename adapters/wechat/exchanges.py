"""Requests of the platform that are held open, so that an answer can travel in the response.

WeChat asks three times for one message, each time for five seconds, and then tells the person that
the account is out of order. An answer goes into whichever request of the chat waits. A response is
not acknowledged; the next attempt at the same message says that it was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from clawbot.ports import Clock

ATTEMPTS = 3
ATTEMPT_S = 5

_REMEMBERED_S = 60.0


@dataclass(slots=True, eq=False)
class Body:
    """A text in a response to a chat, and what became of it.

    written: whether it went to the peer. lost: set when the platform asked again. seen: set when
    the person's next message shows that it arrived.
    """

    chat_id: str
    text: str
    written: asyncio.Future[bool] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    seen: asyncio.Event = field(default_factory=asyncio.Event)

    def report(self, is_written: bool) -> None:  # noqa: FBT001 - the value that is reported
        """Say whether it was written; the first report counts."""
        if not self.written.done():
            self.written.set_result(is_written)

    async def survives(self, silence_s: float) -> bool:
        """Whether the platform does not ask again within that time."""
        waits = [asyncio.create_task(event.wait()) for event in (self.lost, self.seen)]
        try:
            await asyncio.wait(waits, timeout=silence_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        return not self.lost.is_set()


@dataclass(slots=True, eq=False, kw_only=True)
class Attempt:
    """One held request. `number` counts the attempts at its message, from 1.

    session: the conversation that the message went to; only known once it was accepted.
    is_command: its answer says nothing of earlier messages. is_for_more: it only asked for what
    waits. is_answered_elsewhere: its answer went with a later message's.
    """

    identity: str
    chat_id: str
    number: int
    session: str | None = None
    is_command: bool = False
    is_for_more: bool = False
    is_answered_elsewhere: bool = False
    _is_taken: bool = False
    _given: asyncio.Future[Body | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def waits(self) -> bool:
        """Whether it can take an answer now."""
        return not self._given.done()

    def give(self, body: Body | None) -> None:
        """Answer with a body; None ends it without one."""
        if not self._given.done():
            self._given.set_result(body)

    async def answer(self, wait_s: float) -> Body | None:
        """Wait for a body, which the caller must write. Afterwards the request takes none any
        more.
        """
        try:
            async with asyncio.timeout(wait_s):
                body = await asyncio.shield(self._given)
        except TimeoutError:
            # Given in the very moment of the time-out, it is still taken.
            body = self._given.result() if self._given.done() else None
            self.give(None)
        self._is_taken = True
        return body

    def close(self) -> None:
        """The request is over. A body that nobody came to write was not written."""
        self.give(None)
        body = self._given.result()
        if body is not None and not self._is_taken:
            body.report(False)  # noqa: FBT003 - see `report`


class Exchanges:
    """The held requests of one account, and the bodies that may still turn out to be lost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, list[Attempt]] = {}
        self._counts: dict[str, tuple[int, float]] = {}
        self._bodies: dict[str, Body] = {}

    def begin(self, identity: str, chat_id: str, *, at_least: int = 1) -> Attempt:
        """Hold a request; what an earlier attempt at the same message carried is lost.

        at_least: which attempt it must be by the platform's own times.
        """
        self._forget_old()
        count, _ = self._counts.pop(identity, (0, 0.0))
        self._counts[identity] = (count + 1, self._clock.monotonic())
        if (body := self._bodies.pop(identity, None)) is not None:
            body.lost.set()
        for earlier in self._of(chat_id):
            if earlier.identity == identity:
                earlier.give(None)
        attempt = Attempt(
            identity=identity, chat_id=chat_id, number=min(max(count + 1, at_least), ATTEMPTS)
        )
        self._waiting.setdefault(chat_id, []).append(attempt)
        return attempt

    def end(self, attempt: Attempt) -> None:
        """The request is over."""
        attempt.close()
        waiting = self._waiting.get(attempt.chat_id, [])
        if attempt in waiting:
            waiting.remove(attempt)
        if not waiting:
            self._waiting.pop(attempt.chat_id, None)

    def find(self, chat_id: str, identity: str | None) -> Attempt | None:
        """The request that shall carry the answer to a message: its own, else the chat's newest."""
        waiting = [attempt for attempt in self._of(chat_id) if attempt.waits]
        own = [attempt for attempt in waiting if attempt.identity == identity]
        found = own or waiting
        return found[-1] if found else None

    def carry(self, attempt: Attempt, text: str, *, answers: str | None) -> Body:
        """Answer a request. `answers` names the message that the text answers."""
        body = Body(attempt.chat_id, text)
        self._bodies[attempt.identity] = body
        attempt.give(body)
        if answers == attempt.identity and not attempt.is_command:
            self._end_answered_with(attempt)
        return body

    def confirm(self, chat_id: str) -> None:
        """The person asks for the rest of what was carried: they have read it."""
        for body in self._bodies.values():
            if body.chat_id == chat_id:
                body.seen.set()

    def _end_answered_with(self, newest: Attempt) -> None:
        """Earlier messages of the same conversation were answered together with this one."""
        for earlier in self._of(newest.chat_id):
            if earlier is newest:
                return
            if earlier.session == newest.session and not earlier.is_command:
                earlier.is_answered_elsewhere = True
                earlier.give(None)

    def _of(self, chat_id: str) -> Iterator[Attempt]:
        return iter(list(self._waiting.get(chat_id, ())))

    def _forget_old(self) -> None:
        """The table is in the order of the newest attempts, so the oldest stand first."""
        horizon = self._clock.monotonic() - _REMEMBERED_S
        for identity, (_, at) in list(self._counts.items()):
            if at > horizon:
                break
            del self._counts[identity]
            self._bodies.pop(identity, None)
