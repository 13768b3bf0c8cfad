"""Answers that grow while WeCom asks for them: what each stream shows, and whether it was fetched.

WeCom opens a stream with a message's callback and asks for its whole text every second or two, for
at most six minutes. What is not asked for in the end has to go another way. Behind a balancer any
process of the bot may be asked, and any may have the answer: what is known of a stream is a note
that they share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from urllib.parse import quote

from adapters.payload import dump, list_of, number_of, parse, text_of
from clawbot.ports import ChangeNote, Clock

LASTS_MS = 345_000  # six minutes, less what the last questions need
_REMEMBERED_S = 900.0
_LOOK_S = 0.3
_MAX_ASKED = 50
_ENDED = "↓"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One answer. `session` and `sender` tell which earlier messages it answers as well; owner: the
    key of the reply that it shows, "" before there is one. is_fetched: with the end of it. is_over:
    nobody asked for that in time, and it went another way.
    """

    id: str
    opened_ms: int
    session: str = ""
    sender: str = ""
    owner: str = ""
    content: str = ""
    is_final: bool = False
    is_command: bool = False
    is_fetched: bool = False
    is_over: bool = False

    def takes(self, owner: str, now_ms: int) -> bool:
        """Whether it can show this reply: WeCom still asks for it, and it shows no other one."""
        is_open = now_ms - self.opened_ms < LASTS_MS and not (self.is_fetched or self.is_over)
        return is_open and self.owner in {"", owner}


class Streams:
    """The streams of one bot. Methods raise StoreUnavailable."""

    def __init__(self, clock: Clock, change: ChangeNote) -> None:
        self._clock = clock
        self.change = change
        self._waiting: dict[str, asyncio.Event] = {}

    async def open(
        self, stream_id: str, *, session: str | None, sender: str, is_command: bool
    ) -> Stream:
        """The stream of a message; a second attempt at the message has the same."""

        def told(known: Stream) -> Stream:
            return replace(known, session=session or "", sender=sender, is_command=is_command)

        before = await self._update(stream_id, told)
        if session is not None and not is_command:
            await self._asked(session, sender, lambda ids: [*ids, stream_id])
        return told(before)

    async def poll(self, stream_id: str) -> Stream | None:
        """What WeCom is told now; None for a stream that nobody knows (yet)."""

        def fetch(text: str | None) -> str | None:
            known = self._read(stream_id, text)
            return text and _text_of(
                replace(known, is_fetched=known.is_final and not known.is_over)
            )

        text = await self.change(_key(stream_id), fetch, _REMEMBERED_S)
        if not text:
            return None
        stream = self._read(stream_id, text)
        if stream.is_final and (waiting := self._waiting.get(stream_id)) is not None:
            waiting.set()
        return stream

    async def show(
        self, stream_id: str, owner: str, content: str, *, is_final: bool, wait_s: float
    ) -> bool:
        """Show a text of a reply; the final one is waited for until it is fetched. False = it was
        not, or cannot be shown here.
        """
        now_ms = self._clock.now_ms()

        def shown(known: Stream) -> Stream:
            if not known.takes(owner, now_ms):
                return known
            return replace(known, owner=owner, content=content, is_final=is_final)

        before = await self._update(stream_id, shown)
        if not before.takes(owner, now_ms):
            return before.is_fetched and (before.owner, before.content) == (owner, content)
        if not is_final:
            return True
        await self._end_answered_with(before)
        return await self._until_fetched(stream_id, wait_s)

    async def _until_fetched(self, stream_id: str, wait_s: float) -> bool:
        fetched = self._waiting.setdefault(stream_id, asyncio.Event())
        give_up = self._clock.monotonic() + wait_s
        try:
            while not fetched.is_set() and self._clock.monotonic() < give_up:
                if (await self._update(stream_id, lambda known: known)).is_fetched:
                    return True
                try:
                    async with asyncio.timeout(_LOOK_S):
                        await fetched.wait()
                except TimeoutError:
                    continue
        finally:
            self._waiting.pop(stream_id, None)
        # If it was not, it goes another way now, and is not shown here any more.
        given_up = await self._update(
            stream_id, lambda known: replace(known, is_over=not known.is_fetched)
        )
        return given_up.is_fetched

    async def _end_answered_with(self, newest: Stream) -> None:
        """Earlier messages of the same person in the same conversation are answered with it."""
        if not newest.session or newest.is_command:
            return

        def later(ids: list[str]) -> list[str]:
            return ids[ids.index(newest.id) :] if newest.id in ids else ids

        def ended(known: Stream) -> Stream:
            is_open = not known.content and not known.is_final
            return replace(known, content=_ENDED, is_final=True) if is_open else known

        before = await self._asked(newest.session, newest.sender, later)
        for stream_id in before[: -len(later(before)) or None]:
            if stream_id != newest.id:
                await self._update(stream_id, ended)

    async def _update(self, stream_id: str, update: Callable[[Stream], Stream]) -> Stream:
        """Change what is known of a stream; returns what was known before."""
        before = await self.change(
            _key(stream_id),
            lambda text: _text_of(update(self._read(stream_id, text))),
            _REMEMBERED_S,
        )
        return self._read(stream_id, before)

    async def _asked(
        self, session: str, sender: str, update: Callable[[list[str]], list[str]]
    ) -> list[str]:
        """Change the ids of the streams of a person's messages that may wait, oldest first; returns
        those before.
        """

        def change(text: str | None) -> str:
            fresh = dict.fromkeys(update(_ids(text)))
            return dump({"ids": list(fresh)[-_MAX_ASKED:]})

        key = f"asked/{quote(session, safe='')}/{quote(sender, safe='')}"
        return _ids(await self.change(key, change, _REMEMBERED_S))

    def _read(self, stream_id: str, text: str | None) -> Stream:
        """A stream by its note; of one that nobody knows WeCom may ask, after a restart."""
        fields = (parse(text) if text else None) or {}
        return Stream(
            id=stream_id,
            opened_ms=number_of(fields.get("opened_ms")) or self._clock.now_ms(),
            session=text_of(fields.get("session")),
            sender=text_of(fields.get("sender")),
            owner=text_of(fields.get("owner")),
            content=text_of(fields.get("content")),
            is_final=fields.get("is_final") is True,
            is_command=fields.get("is_command") is True,
            is_fetched=fields.get("is_fetched") is True,
            is_over=fields.get("is_over") is True,
        )


def _key(stream_id: str) -> str:
    return f"stream/{stream_id}"


def _text_of(stream: Stream) -> str:
    return dump(asdict(stream))


def _ids(text: str | None) -> list[str]:
    fields = (parse(text) if text else None) or {}
    return [text_of(each) for each in list_of(fields.get("ids"))]
