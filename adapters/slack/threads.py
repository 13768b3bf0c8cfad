"""What stood in a thread before somebody called the bot into it."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import replace

import structlog

from adapters.payload import Json, object_of, objects_of, text_of
from adapters.slack.chat_api import ChatApi, next_cursor
from adapters.slack.facts import Identity
from adapters.slack.inbound import parse_event
from adapters.slack.names import Directory
from clawbot.errors import ClawbotError, SendError
from clawbot.messages import Ignored, InboundMessage

log = structlog.get_logger(__name__)

_PAGE = 200
_MAX_PAGES = 25
_NAMES_S = 5.0


class ThreadHistory:
    """Reads threads of one account."""

    def __init__(self, channel: str, chat: ChatApi, directory: Directory) -> None:
        self._channel = channel
        self._chat = chat
        self._directory = directory

    async def before(self, raw: str, limit: int) -> tuple[InboundMessage, ...]:
        """See `ports.ThreadReader`. The root is always among them: it says what it is all about.

        Slack tells a thread from its beginning, in pages, and gives some apps one page a minute:
        what was read until then is better than nothing.
        """
        payload = object_of(json.loads(raw))
        payload = object_of(payload.get("payload")) or payload
        event = object_of(payload.get("event"))
        chat, ts = text_of(event.get("channel")), text_of(event.get("ts"))
        thread = text_of(event.get("thread_ts"))
        if not chat or not thread or thread == ts or limit <= 0:
            return ()
        found = await self._read(chat, thread, ts, limit)
        tasks = [self._message(payload, event, each) for each in found]
        messages = await asyncio.gather(*tasks)
        return tuple(each for each in messages if each is not None)

    async def _read(self, chat: str, thread: str, before_ts: str, limit: int) -> list[Json]:
        root: Json | None = None
        newest: deque[Json] = deque(maxlen=max(limit - 1, 1))
        cursor: str | None = None
        try:
            for _ in range(_MAX_PAGES):
                page = await self._chat.page(chat, thread, None, cursor, limit=_PAGE)
                for message in objects_of(page.get("messages")):
                    ts = text_of(message.get("ts"))
                    if ts == thread:
                        root = message  # it stands at the head of every page
                    elif ts < before_ts:
                        newest.append(message)
                cursor = next_cursor(page)
                if not cursor:
                    break
        except SendError as error:
            log.info("slack_thread_not_read", channel=self._channel, error=str(error))
        rest = list(newest)
        return rest if root is None else [root, *rest[: limit - 1]]

    async def _message(self, payload: Json, asked: Json, message: Json) -> InboundMessage | None:
        """A message of the thread as an event would have told it; None if nobody said it."""
        event = {
            **message,
            "channel": asked.get("channel"),
            "channel_type": asked.get("channel_type", "channel"),
        }
        told = {key: value for key, value in payload.items() if key != "event_id"}
        told["event"] = event
        try:
            async with asyncio.timeout(_NAMES_S):
                return await self._directory.complete(told)
        except ClawbotError:
            return self._own(told)
        except TimeoutError:
            result = parse_event(told, self._directory.facts)
            return result if isinstance(result, InboundMessage) else None

    def _own(self, told: Json) -> InboundMessage | None:
        """What we said ourselves, before this conversation: as if another bot had."""
        facts = self._directory.facts
        result = parse_event(told, facts)
        if not isinstance(result, Ignored) or result.reason != "self":
            return None
        named = dict.fromkeys(facts.identity.user_ids, facts.identity.name)
        stranger = replace(facts, identity=Identity(), users={**facts.users, **named})
        result = parse_event(told, stranger)
        return result if isinstance(result, InboundMessage) else None
