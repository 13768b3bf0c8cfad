"""Files that come in pieces over an AI bot's long connection."""

import base64
import hashlib
import itertools
from typing import Any

from .uploads import MB, WECOM, Kept, SentFile, refusal

PIECE_BYTES = 512 * 1024
MOST_PIECES = 100
KINDS = {**WECOM, "image": (frozenset({"jpg", "jpeg", "png"}), 2 * MB)}


class LinkedUploads:
    """Takes the frames of uploads. `kept` are the files that came whole, by media id; `files` what
    people see.
    """

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}
        self.files: list[SentFile] = []
        self._begun: dict[str, tuple[dict[str, Any], dict[int, bytes]]] = {}
        self._ids = itertools.count(1)

    def show(self, chat: str, kind: str, media_id: str) -> int:
        """A message with a file; its error code."""
        kept = self.kept.get(media_id)
        if kept is None or kept.kind != kind:
            return 40007
        self.files.append(SentFile(user=chat, kind=kind, name=kept.name, data=kept.data))
        return 0

    def take(self, command: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The error code and what is told besides."""
        if command == "aibot_upload_media_init":
            return self._begin(body)
        if body["upload_id"] not in self._begun:
            return 40058, {}
        about, pieces = self._begun[body["upload_id"]]
        if command == "aibot_upload_media_finish":
            return self._finish(about, pieces)
        piece = base64.b64decode(body["base64_data"], validate=True)
        if len(piece) > PIECE_BYTES or body["chunk_index"] >= about["total_chunks"]:
            return 40009, {}
        pieces[body["chunk_index"]] = piece
        return 0, {}

    def _begin(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if not 1 <= body["total_chunks"] <= MOST_PIECES:
            return 40058, {}
        upload_id = f"upload-{next(self._ids)}"
        self._begun[upload_id] = (body, {})
        return 0, {"upload_id": upload_id}

    def _finish(
        self, about: dict[str, Any], pieces: dict[int, bytes]
    ) -> tuple[int, dict[str, Any]]:
        data = b"".join(pieces[number] for number in sorted(pieces))
        is_whole = len(pieces) == about["total_chunks"] and len(data) == about["total_size"]
        if not is_whole or hashlib.md5(data).hexdigest() != about["md5"]:  # noqa: S324 - theirs
            return 40058, {}
        file = Kept(kind=about["type"], name=about["filename"], data=data)
        if code := refusal(KINDS, file):
            return code, {}
        media_id = f"media-{next(self._ids)}"
        self.kept[media_id] = file
        return 0, {"type": file.kind, "media_id": media_id, "created_at": "1"}
