"""The app's own surfaces: the assistant's threads and the Home tab. They answer nobody; what is
said there arrives as messages like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import structlog

from adapters.payload import Json, object_of, text_of
from adapters.slack.chat_api import ChatApi
from adapters.slack.mrkdwn import render
from adapters.slack.names import Directory
from clawbot.errors import SendError, StoreUnavailable
from clawbot.ports import Overview

log = structlog.get_logger(__name__)

_MAX_TASKS = 100
_SECTION_CHARS = 2_900  # of 3,000
_MAX_SECTIONS = 20
_OVERVIEW_S = 10.0
_WELCOME = "Write to me in *Messages*, or mention me in a channel. `/clawbot help` tells more."
_NOT_ALLOWED = "You may not talk to me yet; ask the admin of this bot."


class Surfaces:
    """Looks after the surfaces of one account. prompts: suggested in new assistant threads."""

    def __init__(
        self, channel: str, chat: ChatApi, directory: Directory, prompts: Sequence[str]
    ) -> None:
        self._channel = channel
        self._chat = chat
        self._directory = directory
        self._prompts = prompts
        self._tasks: set[asyncio.Task[None]] = set()
        self.overview: Overview | None = None

    def notice(self, payload: Json) -> None:
        """Take an event that is no message. Work is done after its acknowledgement."""
        inner = object_of(payload.get("payload"))
        event = object_of((inner if "envelope_id" in payload else payload).get("event"))
        match text_of(event.get("type")):
            case "assistant_thread_started":
                self._learn(object_of(event.get("assistant_thread")))
                if self._prompts:
                    self._begin(self._suggest(object_of(event.get("assistant_thread"))))
            case "assistant_thread_context_changed":
                self._learn(object_of(event.get("assistant_thread")))
            case "app_home_opened" if event.get("tab") == "home":
                user, chat = text_of(event.get("user")), text_of(event.get("channel"))
                self._begin(self._publish_home(user, chat))

    async def close(self) -> None:
        """Give up what is under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._tasks) >= _MAX_TASKS:
            work.close()
            return
        task = asyncio.create_task(self._guarded(work), name=f"slack surface {self._channel}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (SendError, StoreUnavailable, TimeoutError) as error:
            log.info("slack_surface_not_shown", channel=self._channel, error=str(error))
        except Exception:
            # The boundary of one event: a surface that fails disturbs no conversation.
            log.exception("slack_surface_failed", channel=self._channel)

    def _learn(self, thread: Json) -> None:
        """Remember what the person looks at beside the thread."""
        chat, ts = text_of(thread.get("channel_id")), text_of(thread.get("thread_ts"))
        if chat and ts:
            seen = text_of(object_of(thread.get("context")).get("channel_id"))
            self._directory.viewing.remember(f"{chat}:{ts}", seen)

    async def _suggest(self, thread: Json) -> None:
        prompts = [{"title": prompt, "message": prompt} for prompt in self._prompts]
        chat, ts = text_of(thread.get("channel_id")), text_of(thread.get("thread_ts"))
        await self._chat.suggest(chat, ts, "", prompts)

    async def _publish_home(self, user: str, chat: str) -> None:
        shown = None
        if self.overview is not None and user and chat:
            async with asyncio.timeout(_OVERVIEW_S):
                shown = await self.overview(chat, user)
        texts = [_WELCOME, *_sections(render(shown) if shown else _NOT_ALLOWED)]
        blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": text}} for text in texts]
        await self._chat.publish_home(user, {"type": "home", "blocks": blocks})


def _sections(text: str) -> list[str]:
    """The text cut at lines into what a section takes."""
    sections = [""]
    for line in text.split("\n"):
        if len(sections[-1]) + len(line) > _SECTION_CHARS:
            sections.append("")
        sections[-1] += f"{line[:_SECTION_CHARS]}\n"
    return [section for section in sections if section.strip()][:_MAX_SECTIONS]
