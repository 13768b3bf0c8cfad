"""Sends files: reserve a place, bring the bytes there, then let them appear in the chat.

Nobody sees anything before the last step, so whatever fails earlier is surely not sent and is begun
again. What becomes of the last step is looked up: the file's message carries the part's key as the
id of a block, for this message takes no metadata.
"""

from __future__ import annotations

import structlog

from adapters.payload import Json, objects_of, text_of
from adapters.slack.api import SlackApi
from adapters.slack.chat_api import ChatApi, key_of
from adapters.slack.facts import Identity
from adapters.slack.failures import BLOCK_CODES
from adapters.slack.pacing import Pacer
from adapters.slack.references import Reference
from clawbot.errors import NotSent, OutcomeUnknown, Rejected
from clawbot.messages import OutboundFile, OutboundPart

log = structlog.get_logger(__name__)

MAX_FILE_BYTES = 1_000_000_000  # "files up to 1 GB", slack.com/help, "Add files to Slack"


class Uploads:
    """Files of one account."""

    def __init__(self, channel: str, api: SlackApi, chat: ChatApi, pacer: Pacer) -> None:
        self._channel = channel
        self._api = api
        self._chat = chat
        self._pacer = pacer

    async def send(self, part: OutboundPart, file: OutboundFile, data: bytes) -> Reference:
        """Send a file; raises as `ports.Uploader.upload`."""
        chat_id = part.route.chat_id
        self._pacer.check("files.completeUploadExternal", chat_id)
        file_id = await self._bring(file, data)
        await self._pacer.post_turn(chat_id)
        try:
            await self._share(part, file, file_id)
        except NotSent as error:
            self._pacer.note(error, "files.completeUploadExternal", chat_id)
            raise
        return Reference(channel=chat_id, file_id=file_id)

    async def _bring(self, file: OutboundFile, data: bytes) -> str:
        """Bring the bytes to Slack, where nobody sees them yet; return the file's id."""
        try:
            url, file_id = await self._api.upload_url(file.name, len(data))
            await self._api.put(url, data)
        except OutcomeUnknown as error:
            raise NotSent(str(error)) from error
        return file_id

    async def _share(self, part: OutboundPart, file: OutboundFile, file_id: str) -> None:
        route = part.route
        try:
            await self._chat.share(route.chat_id, route.thread, file_id, file.name, part.key)
        except Rejected as error:
            if error.code not in BLOCK_CODES:
                raise
            log.info("slack_block_refused", channel=self._channel, error=str(error))
            await self._chat.share(route.chat_id, route.thread, file_id, file.name, "")


def may_be_file_of(message: Json, part: OutboundPart, own: Identity) -> bool:
    """Whether a message of ours without a key holds the part's file, as far as one can see."""
    is_ours = text_of(message.get("user")) in own.user_ids or (
        text_of(message.get("bot_id")) in own.bot_ids
    )
    if part.file is None or not is_ours or key_of(message):
        return False
    files = objects_of(message.get("files"))
    wanted = (part.file.name, part.file.size_bytes)
    return any((one.get("name"), one.get("size")) == wanted for one in files)
