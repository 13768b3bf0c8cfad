"""Finds out whether a part stands in its chat, once Feishu has forgotten its `uuid`.

Feishu tells no message's uuid, so a part is known by its place, its time, its sender and its words.
What may or may not be it is never guessed: then the part stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from difflib import SequenceMatcher

from adapters.feishu.api import FeishuApi
from adapters.feishu.cards import read_card
from adapters.feishu.files import name_of
from adapters.payload import Json, list_of, number_of, object_of, parse, text_of
from clawbot.errors import NotSent, OutcomeUnknown, Rejected
from clawbot.messages import OutboundFile, OutboundPart

_PAGE = 50
_MOST_PAGES = 10
_SKEW_MS = 60_000  # between this clock and Feishu's
_COMPARED_CHARS = 1000
_SAME, _OTHER = 0.9, 0.5
_FILES = {"image": "image", "audio": "audio", "media": "video", "file": "application"}
_LINK_TARGET = re.compile(r"\]\([^)\s]*\)")
_PROGRESS = re.compile(r"\n*⏳[^\n]*\Z")


class Finder:
    """Looks for parts of one app."""

    def __init__(self, api: FeishuApi, app_id: str) -> None:
        self._api = api
        self._app_id = app_id

    async def find(self, part: OutboundPart) -> Json | None:
        """What the API says of the message that an earlier attempt left; None = surely not there.

        Raises NotSent where Feishu can be asked again, Rejected where it does not tell.
        """
        try:
            found = [record async for record in self._ours(part) if await self._is(part, record)]
        except OutcomeUnknown as error:
            raise NotSent(str(error)) from error
        return found[-1] if found else None  # the oldest

    async def _ours(self, part: OutboundPart) -> AsyncIterator[Json]:
        """The app's messages at the part's place since its first attempt, the newest first.

        An answer whose topic is gone has been sent to the chat.
        """
        since_ms = part.tried_ms - _SKEW_MS
        thread_id = await self._thread_id(part.route.thread)
        places = [("thread", thread_id)] if thread_id else []
        for container, of in [*places, ("chat", part.route.chat_id)]:
            after = ""
            for _ in range(_MOST_PAGES):
                records, after = await self._api.page(
                    container, of, _PAGE, since_s=max(since_ms // 1000, 1), after=after
                )
                times = [number_of(record.get("create_time")) or 0 for record in records]
                for record, created_ms in zip(records, times, strict=True):
                    sender = text_of(object_of(record.get("sender")).get("id"))
                    is_gone = record.get("deleted") is True
                    if created_ms >= since_ms and sender == self._app_id and not is_gone:
                        yield record
                if not after or min(times, default=0) < since_ms:
                    break
            else:
                raise Rejected("too much has been said since", code="too_many_messages")

    async def _thread_id(self, thread: str | None) -> str:
        """A topic's own id; a route may name it by its first message."""
        if thread is None or thread.startswith("omt_"):
            return thread or ""
        records = await self._api.message(thread)
        return text_of(records[0].get("thread_id")) if records else ""

    async def _is(self, part: OutboundPart, record: Json) -> bool:
        """Whether a message is the part. Raise Rejected if that cannot be told."""
        kind = text_of(record.get("msg_type"))
        content = _content_of(record)
        if kind in _FILES:
            return part.file is not None and _is_file(part.file, kind, content)
        if kind == "interactive":
            records = await self._api.message(text_of(record.get("message_id")))
            shown = read_card(_content_of(records[0])) if records else ""
        else:
            shown = text_of(content.get("text")) or "".join(_texts(content))
        likeness = likeness_of(part.text, _PROGRESS.sub("", shown))
        if _OTHER < likeness < _SAME:
            raise Rejected("a message may be it or not", code="ambiguous")
        return likeness >= _SAME


def _is_file(file: OutboundFile, kind: str, content: Json) -> bool:
    """Whether a message is this file; pictures and sounds have no name there."""
    if kind == "file":
        return content.get("file_name") == name_of(file)
    family = file.mime.partition("/")[0]
    if family not in {*_FILES.values(), "text"}:
        raise Rejected("a message may be it or not", code="ambiguous")
    return _FILES[kind] == family


def likeness_of(markdown: str, shown: str) -> float:
    """How much a message looks like a part that may have grown since: 1 = it shows its beginning.

    Only letters and digits are compared, for every form shows marks and links in its own way.
    """
    whole = _letters(_LINK_TARGET.sub("]", markdown))
    begun = _letters(_LINK_TARGET.sub("]", shown))
    if not whole or not begun:
        return 1.0 if whole == begun else 0.0
    whole = whole[: min(len(begun), _COMPARED_CHARS)]
    return SequenceMatcher(None, whole, begun[:_COMPARED_CHARS], autojunk=False).ratio()


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def _content_of(record: Json) -> Json:
    return object_of(parse(text_of(object_of(record.get("body")).get("content"))))


def _texts(node: object) -> list[str]:
    """All words of a post, of any shape."""
    if isinstance(node, dict):
        own = [text_of(node.get("title")), text_of(node.get("text"))]
        inner = [
            text
            for value in node.values()
            if isinstance(value, dict | list)
            for text in _texts(value)
        ]
        return [*own, *inner]
    return [text for each in list_of(node) for text in _texts(each)]
