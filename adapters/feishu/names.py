"""What a message needs besides its payload: names, other messages, the kind of its chat.

Asked for when a message needs it, remembered for a while, and one question for all who wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import structlog

from adapters.feishu.api import FeishuApi
from adapters.feishu.config import FeishuConfig
from adapters.feishu.facts import Facts, Identity
from adapters.feishu.failures import SCOPE_CODES
from adapters.feishu.inbound import needs_chat, parse_event
from adapters.feishu.menu import direct_chat_of
from adapters.feishu.words import read_mentions
from adapters.payload import Json, object_of
from adapters.recent import Misses, Recent
from clawbot.errors import ClawbotError, Rejected, SendError
from clawbot.messages import Ignored, InboundMessage
from clawbot.ports import Clock

log = structlog.get_logger(__name__)

_NAME_KEPT_S = 6 * 3600.0
_CHAT_KEPT_S = 6 * 3600.0
_DIRECT_KEPT_S = 30 * 86_400.0
_MESSAGE_KEPT_S = 300.0  # messages and cards change
_FAILURE_KEPT_S = 60.0
_NO_SCOPE_KEPT_S = 3600.0
_CHAT_TIMEOUT_S = 1.5  # Feishu wants its answer within three seconds
_LOOKUP_TIMEOUT_S = 5.0
_MAX_LOOKUPS = 50  # a message that names more people is a list, not a conversation
_MAX_ROUNDS = 3
_AT_ONCE = 4


class Directory:
    """What is known of people, messages and chats of one account."""

    def __init__(self, channel: str, config: FeishuConfig, api: FeishuApi, clock: Clock) -> None:
        self._channel = channel
        self._config = config
        self._api = api
        self._clock = clock
        self._users: Recent[str] = Recent(clock, kept_s=_NAME_KEPT_S, at_most=10_000)
        self._messages: Recent[list[Json]] = Recent(clock, kept_s=_MESSAGE_KEPT_S, at_most=500)
        self._chats: Recent[bool] = Recent(clock, kept_s=_CHAT_KEPT_S, at_most=10_000)
        self._direct_chats: Recent[str] = Recent(clock, kept_s=_DIRECT_KEPT_S, at_most=10_000)
        self._asking: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._names_refused_until = float("-inf")
        self.identity = Identity()

    @property
    def facts(self) -> Facts:
        """For the parser; the maps in it are live views."""
        return self._facts(self._users, self._messages)

    async def prepare(self, payload: Json) -> None:
        """Learn what must be known before a payload is parsed: the kind of its group, whose direct
        chat it is, and the names that its mentions tell. Never raises; what cannot be had in time
        stays unknown.
        """
        message = object_of(object_of(payload.get("event")).get("message"))
        for mention in read_mentions(message).values():
            if mention.id and mention.name:
                self._users.remember(mention.id, mention.name)
        if (direct := direct_chat_of(payload)) is not None:
            self._direct_chats.remember(*direct)
        chat_id = needs_chat(payload)
        if chat_id and chat_id not in self._chats:
            asking = self._ask(("chat", chat_id))
            await asyncio.wait([asking], timeout=_CHAT_TIMEOUT_S)

    def forget_chat(self, chat_id: str) -> None:
        """A chat was changed: ask anew."""
        self._chats.forget(chat_id)

    async def complete(self, payload: Json) -> InboundMessage:
        """Parse a payload after loading the names and messages that it lacks.

        What cannot be loaded reads as its id or a mark. Raises ClawbotError if it is no message.
        """
        for _ in range(_MAX_ROUNDS):  # a quoted message may name people in turn
            users, messages = Misses(self._users), Misses(self._messages)
            parse_event(payload, self._facts(users, messages))
            questions = [("message", key) for key in messages.missed if key]
            questions += [("user", key) for key in users.missed if key]
            if not questions:
                break
            await asyncio.wait([self._ask(question) for question in questions[:_MAX_LOOKUPS]])
        message = parse_event(payload, self.facts)
        if isinstance(message, Ignored):
            raise ClawbotError(f"channel {self._channel}: no message any more: {message.reason}")
        return replace(message, is_incomplete=False)

    async def close(self) -> None:
        """Give up open questions."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _facts(self, users: Mapping[str, str], messages: Mapping[str, list[Json]]) -> Facts:
        return Facts(
            channel=self._channel,
            identity=self.identity,
            answers_all=self._config.answer_all,
            quotes=self._config.quote_in_groups,
            users=users,
            messages=messages,
            topic_chats=self._chats,
            direct_chats=self._direct_chats,
            menu=self._config.menu,
        )

    def _ask(self, question: tuple[str, str]) -> asyncio.Task[None]:
        """The one task that answers this question, however many messages wait for it."""
        task = self._asking.get(question)
        if task is None:
            task = asyncio.create_task(self._answer(*question), name=f"feishu {question[0]}")
            self._asking[question] = task
            task.add_done_callback(lambda _: self._asking.pop(question, None))
        return task

    async def _answer(self, kind: str, key: str) -> None:
        try:
            async with self._gate, asyncio.timeout(_LOOKUP_TIMEOUT_S):
                await self._ask_feishu(kind, key)
        except (SendError, TimeoutError) as error:
            log.info("feishu_not_told", channel=self._channel, kind=kind, id=key, error=repr(error))
            self._give_up(kind, key, error)

    async def _ask_feishu(self, kind: str, key: str) -> None:
        if kind == "chat":
            self._chats.remember(key, await self._api.has_topics(key))
        elif kind == "message":
            self._messages.remember(key, await self._api.message(key))
        elif self._clock.monotonic() < self._names_refused_until:
            self._users.remember(key, "", kept_s=_FAILURE_KEPT_S)
        else:
            name = await self._api.user_name(key)
            self._users.remember(key, name, kept_s=None if name else _FAILURE_KEPT_S)

    def _give_up(self, kind: str, key: str, error: Exception) -> None:
        """Remember for a short while that there is no answer; an ordinary group is the default."""
        has_no_scope = isinstance(error, Rejected) and error.code in SCOPE_CODES
        if kind == "chat":
            kept_s = _NO_SCOPE_KEPT_S if has_no_scope else _FAILURE_KEPT_S
            self._chats.remember(key, value=False, kept_s=kept_s)
        elif kind == "message":
            self._messages.remember(key, [], kept_s=_FAILURE_KEPT_S)
        else:
            self._users.remember(key, "", kept_s=_FAILURE_KEPT_S)
            if has_no_scope:
                self._names_refused_until = self._clock.monotonic() + _NO_SCOPE_KEPT_S
