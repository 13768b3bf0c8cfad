"""Calls of Slack's Web API that write and read messages, and signs on them.

As in `api` nothing is retried here. Methods raise NotSent, Rejected or OutcomeUnknown.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable

from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adapters.payload import Json, object_of, objects_of, text_of
from adapters.slack.api import SlackApi
from adapters.slack.outbound import Content
from clawbot.errors import NotSent, Rejected

_PAGE = 200
_MAX_PAGES = 20
_EVENT_TYPE = "clawbot_part"
_BLOCK_ID = "clawbot_part:"


class ChatApi:
    """Messages as one bot."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api

    async def post(
        self, channel: str, thread_ts: str | None, content: Content, key: str, *, plain: bool
    ) -> str:
        """chat.postMessage; returns the ts. `key` travels as metadata, for `find`. plain: without
        the block.
        """
        answer = await self._api.call(
            "chat.postMessage",
            self._api.client.chat_postMessage(
                channel=channel,
                thread_ts=thread_ts,
                text=content.text,
                blocks=None if plain else content.blocks or None,
                unfurl_links=False,
                metadata=_metadata(key),
            ),
        )
        return text_of(answer.get("ts"))

    async def update(
        self, channel: str, ts: str, content: Content, key: str, *, plain: bool
    ) -> None:
        """chat.update with the whole text. plain: without the block, so that Slack reads the
        Markdown itself.
        """
        client = self._api.client
        if plain:
            call = client.chat_update(
                channel=channel, ts=ts, markdown_text=content.markdown, metadata=_metadata(key)
            )
        else:
            call = client.chat_update(
                channel=channel,
                ts=ts,
                text=content.text,
                blocks=content.blocks,
                metadata=_metadata(key),
            )
        await self._api.call("chat.update", call)

    async def share(
        self, channel: str, thread_ts: str | None, file_id: str, name: str, key: str
    ) -> None:
        """files.completeUploadExternal: the file appears. `key` is the id of a block that says
        what it is called; no block without a key. Slack takes no markdown block here.
        """
        blocks = [_named(name, key)] if key else None
        await self._api.call(
            "files.completeUploadExternal",
            self._api.client.files_completeUploadExternal(
                files=[{"id": file_id, "title": name}],
                channel_id=channel,
                thread_ts=thread_ts,
                blocks=json.dumps(blocks) if blocks else None,
            ),
        )

    # -- streams -----------------------------------------------------------------------------------

    async def start_stream(
        self, channel: str, thread_ts: str, markdown: str, user_id: str, team_id: str
    ) -> str:
        """chat.startStream; returns the ts. It takes no metadata."""
        answer = await self._api.call(
            "chat.startStream",
            self._api.client.chat_startStream(
                channel=channel,
                thread_ts=thread_ts,
                markdown_text=markdown,
                recipient_user_id=user_id or None,
                recipient_team_id=team_id or None,
            ),
        )
        return text_of(answer.get("ts"))

    async def append(self, channel: str, ts: str, markdown: str) -> None:
        """chat.appendStream: the same text twice stands there twice."""
        await self._api.call(
            "chat.appendStream",
            self._api.client.chat_appendStream(channel=channel, ts=ts, markdown_text=markdown),
        )

    async def stop_stream(self, channel: str, ts: str, markdown: str, key: str) -> None:
        """chat.stopStream, with the last text, "" for none."""
        await self._api.call(
            "chat.stopStream",
            self._api.client.chat_stopStream(
                channel=channel, ts=ts, markdown_text=markdown or None, metadata=_metadata(key)
            ),
        )

    # -- reading -----------------------------------------------------------------------------------

    async def find(
        self, channel: str, thread_ts: str | None, key: str, oldest_ts: str
    ) -> str | None:
        """The ts of our message with this key that is newer than `oldest_ts`; None = not there."""
        async for message in self.messages(channel, thread_ts, oldest_ts):
            if key_of(message) == key:
                return text_of(message.get("ts"))
        return None

    async def messages(
        self, channel: str, thread_ts: str | None, oldest_ts: str
    ) -> AsyncIterator[Json]:
        """The messages of a thread, oldest first, or of a chat's root, newest first. Raises NotSent
        if there are more than can be read.
        """
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            try:
                page = await self.page(channel, thread_ts, oldest_ts, cursor, limit=_PAGE)
            except Rejected as error:
                if error.code == "thread_not_found":
                    return
                raise
            for message in objects_of(page.get("messages")):
                yield message
            cursor = next_cursor(page)
            if not cursor:
                return
        raise NotSent(f"slack: more than {_PAGE * _MAX_PAGES} messages to look through")

    async def page(
        self,
        channel: str,
        thread_ts: str | None,
        oldest_ts: str | None,
        cursor: str | None,
        *,
        limit: int,
    ) -> Json:
        """One page of conversations.replies, or of conversations.history without a thread."""
        client = self._api.client
        if thread_ts is None:
            method = "conversations.history"
            call = client.conversations_history(
                channel=channel,
                oldest=oldest_ts,
                limit=limit,
                cursor=cursor,
                include_all_metadata=True,
            )
        else:
            method = "conversations.replies"
            call = client.conversations_replies(
                channel=channel,
                ts=thread_ts,
                oldest=oldest_ts,
                limit=limit,
                cursor=cursor,
                include_all_metadata=True,
            )
        return await self._api.call(method, call)

    # -- signs -------------------------------------------------------------------------------------

    async def set_status(self, channel: str, thread_ts: str, status: str) -> None:
        """assistant.threads.setStatus; an empty status clears it."""
        await self._api.call(
            "assistant.threads.setStatus",
            self._api.client.assistant_threads_setStatus(
                channel_id=channel, thread_ts=thread_ts, status=status
            ),
        )

    async def react(self, channel: str, ts: str, emoji: str) -> None:
        """reactions.add; nothing happens if it is there already."""
        await self._benign(
            "already_reacted",
            "reactions.add",
            self._api.client.reactions_add(channel=channel, timestamp=ts, name=emoji),
        )

    async def unreact(self, channel: str, ts: str, emoji: str) -> None:
        """reactions.remove; nothing happens if it is not there."""
        await self._benign(
            "no_reaction",
            "reactions.remove",
            self._api.client.reactions_remove(channel=channel, timestamp=ts, name=emoji),
        )

    async def suggest(
        self, channel: str, thread_ts: str, title: str, prompts: list[dict[str, str]]
    ) -> None:
        """assistant.threads.setSuggestedPrompts."""
        await self._api.call(
            "assistant.threads.setSuggestedPrompts",
            self._api.client.assistant_threads_setSuggestedPrompts(
                channel_id=channel, thread_ts=thread_ts, title=title or None, prompts=prompts
            ),
        )

    async def publish_home(self, user_id: str, view: Json) -> None:
        """views.publish: the Home tab of one person."""
        await self._api.call(
            "views.publish", self._api.client.views_publish(user_id=user_id, view=dict(view))
        )

    async def _benign(self, code: str, method: str, call: Awaitable[AsyncSlackResponse]) -> None:
        try:
            await self._api.call(method, call)
        except Rejected as error:
            if error.code != code:
                raise


def key_of(message: Json) -> str:
    """The key of a part that we sent, "" for any other message."""
    metadata = object_of(message.get("metadata"))
    if metadata.get("event_type") == _EVENT_TYPE:
        return text_of(object_of(metadata.get("event_payload")).get("key"))
    ids = (text_of(block.get("block_id")) for block in objects_of(message.get("blocks")))
    return next((id_.removeprefix(_BLOCK_ID) for id_ in ids if id_.startswith(_BLOCK_ID)), "")


def next_cursor(page: Json) -> str:
    """Where the next page begins, "" after the last one."""
    return text_of(object_of(page.get("response_metadata")).get("next_cursor"))


def _named(name: str, key: str) -> dict[str, object]:
    section = {"type": "rich_text_section", "elements": [{"type": "text", "text": name}]}
    return {"type": "rich_text", "block_id": f"{_BLOCK_ID}{key}", "elements": [section]}


def _metadata(key: str) -> dict[str, object]:
    return {"event_type": _EVENT_TYPE, "event_payload": {"key": key}}
