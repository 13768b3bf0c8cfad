"""What stood in a topic before somebody called the bot into it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

import structlog

from adapters.feishu.api import FeishuApi
from adapters.feishu.facts import Identity
from adapters.feishu.inbound import parse_event
from adapters.feishu.names import Directory
from adapters.payload import Json, dump, number_of, object_of, text_of
from clawbot.errors import ClawbotError, SendError
from clawbot.messages import Ignored, InboundMessage

log = structlog.get_logger(__name__)

_NAMES_S = 5.0
_PAGE = 50


class TopicHistory:
    """Reads topics of one account."""

    def __init__(self, channel: str, api: FeishuApi, directory: Directory) -> None:
        self._channel = channel
        self._api = api
        self._directory = directory

    async def before(self, raw: str, limit: int) -> Sequence[InboundMessage]:
        """See `ports.ThreadReader`. The root is always among them: it says what it is all about."""
        payload = object_of(json.loads(raw))
        asked = object_of(object_of(payload.get("event")).get("message"))
        if not text_of(asked.get("thread_id")) or limit <= 0:
            return ()
        found = await self._read(asked, limit)
        tasks = [self._message(payload, asked, each) for each in found]
        messages = await asyncio.gather(*tasks)
        root_id = text_of(asked.get("root_id"))
        return [_in_topic(each, root_id) for each in messages if each is not None]

    async def _read(self, asked: Json, limit: int) -> list[Json]:
        """The newest messages before the one that asks, oldest first, with the root in front."""
        root_id, asked_id = text_of(asked.get("root_id")), text_of(asked.get("message_id"))
        asked_ms = number_of(asked.get("create_time")) or 0
        try:
            newest = await self._api.thread(text_of(asked.get("thread_id")), min(limit + 1, _PAGE))
        except SendError as error:
            log.info("feishu_topic_not_read", channel=self._channel, error=str(error))
            newest = []
        earlier = [
            each
            for each in newest
            if text_of(each.get("message_id")) not in {asked_id, root_id}
            and (number_of(each.get("create_time")) or 0) <= asked_ms
        ]
        earlier.sort(key=lambda each: number_of(each.get("create_time")) or 0)
        roots = [each for each in newest if text_of(each.get("message_id")) == root_id]
        roots = roots or await self._root(root_id)
        return [*roots[:1], *earlier[max(len(earlier) - limit + len(roots[:1]), 0) :]]

    async def _root(self, root_id: str) -> list[Json]:
        if not root_id:
            return []
        try:
            return (await self._api.message(root_id))[:1]
        except SendError as error:
            log.info("feishu_root_not_read", channel=self._channel, error=str(error))
            return []

    async def _message(self, payload: Json, asked: Json, record: Json) -> InboundMessage | None:
        """A message of the topic as an event would have told it; None if nobody said it."""
        told = as_event(payload, asked, record)
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
        ours = facts.identity
        named = {ours.app_id: ours.name, ours.open_id: ours.name}
        stranger = replace(facts, identity=Identity(), users={**facts.users, **named})
        result = parse_event(told, stranger)
        return result if isinstance(result, InboundMessage) else None


def _in_topic(message: InboundMessage, root_id: str) -> InboundMessage:
    """The root has been heard in its chat, before it had a topic; what it means to the topic is
    kept beside that, under an identity of its own.
    """
    if message.identity != root_id:
        return message
    return replace(message, identity=f"{message.identity}@{message.thread}", transport_ids=())


def as_event(payload: Json, asked: Json, record: Json) -> Json:
    """A record of the API as the event that it once was; ids of people are plain texts there."""
    sender = object_of(record.get("sender"))
    content = object_of(record.get("body")).get("content")
    header = object_of(payload.get("header"))
    return {
        "schema": "2.0",
        "header": {"event_type": header.get("event_type"), "app_id": header.get("app_id")},
        "event": {
            "sender": {
                "sender_id": {"open_id": text_of(sender.get("id"))},
                "sender_type": sender.get("sender_type"),
            },
            "message": {
                "message_id": record.get("message_id"),
                "chat_id": asked.get("chat_id"),
                "chat_type": asked.get("chat_type"),
                "thread_id": asked.get("thread_id"),
                "root_id": record.get("root_id"),
                "parent_id": record.get("parent_id"),
                "create_time": record.get("create_time"),
                "message_type": record.get("msg_type"),
                "content": content if isinstance(content, str) else dump(content),
                "mentions": record.get("mentions"),
            },
        },
    }
