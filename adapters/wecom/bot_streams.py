"""Answers that grow while WeCom asks for them: what each stream shows, and whether it was fetched.

WeCom opens a stream with a message's callback and asks for its whole text every second or two, for
at most six minutes. What is not asked for in the end has to go another way.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from clawbot.ports import Clock

LASTS_S = 345.0  # six minutes, less what the last questions need
_REMEMBERED_S = 900.0


@dataclass(slots=True, eq=False, kw_only=True)
class Stream:
    """One answer. `session` and `sender` tell which earlier messages it answers as well."""

    id: str
    opened_at: float
    session: str | None = None
    sender: str = ""
    content: str = ""
    is_final: bool = False
    is_command: bool = False
    fetched: asyncio.Event = field(default_factory=asyncio.Event)


class Streams:
    """The streams of one bot, oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._streams: dict[str, Stream] = {}

    def open(self, stream_id: str) -> Stream:
        """The stream of a message; a second attempt at the message has the same."""
        self._forget_old()
        stream = self._streams.get(stream_id)
        if stream is None:
            stream = Stream(id=stream_id, opened_at=self._clock.monotonic())
            self._streams[stream_id] = stream
        return stream

    def poll(self, stream_id: str) -> Stream | None:
        """What WeCom is told now; None for a stream that nobody here knows (yet)."""
        stream = self._streams.get(stream_id)
        if stream is not None and stream.is_final:
            stream.fetched.set()
        return stream

    def is_open(self, stream_id: str) -> bool:
        """Whether WeCom still asks for it. After a restart it may, though nobody here knows it."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return True
        is_young = self._clock.monotonic() - stream.opened_at < LASTS_S
        return is_young and not stream.fetched.is_set()

    async def show(self, stream_id: str, content: str, *, is_final: bool, wait_s: float) -> bool:
        """Show a text; the final one is waited for until it is fetched. False = it was not."""
        stream = self.open(stream_id)
        stream.content, stream.is_final = content, is_final
        if not is_final:
            return True
        self._end_answered_with(stream)
        try:
            async with asyncio.timeout(wait_s):
                await stream.fetched.wait()
        except TimeoutError:
            stream.fetched.set()  # it goes another way now
            return False
        return True

    def _end_answered_with(self, newest: Stream) -> None:
        """Earlier messages of the same person in the same conversation are answered with it."""
        if newest.session is None or newest.is_command:
            return
        for stream in self._streams.values():
            if stream is newest:
                return
            if (stream.session, stream.sender) != (newest.session, newest.sender):
                continue
            if not stream.content and not stream.is_command:
                stream.content, stream.is_final = "↓", True

    def _forget_old(self) -> None:
        horizon = self._clock.monotonic() - _REMEMBERED_S
        for stream in list(self._streams.values()):
            if stream.opened_at > horizon:
                return
            del self._streams[stream.id]
