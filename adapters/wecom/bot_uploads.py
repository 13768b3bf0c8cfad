"""Files that an AI bot sends by its long connection: handed over in pieces, each in a frame."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable

from adapters.payload import Json, object_of, text_of
from adapters.wechat.failures import code_of, from_code
from adapters.wechat.files import Upload
from clawbot.errors import NotSent, OutcomeUnknown

PIECE_BYTES = 512 * 1024

Ask = Callable[[str, Json], Awaitable[Json]]
"""Sends a frame, by its command and body, and waits for its answer."""


async def upload(ask: Ask, file: Upload) -> str:
    """Hand a file over; returns the id by which a message can show it. No message refers to it
    yet, so all of it may be done again. Raises NotSent or Rejected.
    """
    pieces = range(0, len(file.data), PIECE_BYTES)
    begun = await _ask(
        ask,
        "aibot_upload_media_init",
        {
            "type": file.kind,
            "filename": file.name,
            "total_size": len(file.data),
            "total_chunks": len(pieces),
            "md5": hashlib.md5(file.data, usedforsecurity=False).hexdigest(),
        },
    )
    upload_id = _told(begun, "upload_id")
    for number, start in enumerate(pieces):
        piece = base64.b64encode(file.data[start : start + PIECE_BYTES]).decode()
        body = {"upload_id": upload_id, "chunk_index": number, "base64_data": piece}
        await _ask(ask, "aibot_upload_media_chunk", body)
    ended = await _ask(ask, "aibot_upload_media_finish", {"upload_id": upload_id})
    return _told(ended, "media_id")


async def _ask(ask: Ask, command: str, body: Json) -> Json:
    try:
        answer = await ask(command, body)
    except OutcomeUnknown as error:
        raise NotSent(str(error)) from error
    if code_of(answer):
        raise from_code(command, answer)
    return answer


def _told(answer: Json, name: str) -> str:
    value = text_of(object_of(answer.get("body")).get(name))
    if not value:
        raise NotSent(f"the answer holds no {name}")
    return value
