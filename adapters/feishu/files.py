"""What a file is sent as on Feishu: a picture, a voice message, a video, or a file. Pure.

Source: open.feishu.cn, "Upload image" (10 MB; JPEG, PNG, WEBP, GIF, TIFF, BMP, ICO) and "Upload
file" (30 MB). A picture is shown, a voice message and a video can be played where they stand; what
Feishu does not take as such is taken as a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from adapters.feishu.outbound import dump_content
from clawbot.messages import OutboundFile

MAX_FILE_BYTES = 30 * 1024 * 1024
MAX_IMAGE_BYTES = 10 * 1024 * 1024
_NAME_CHARS = 120

_IMAGES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"\0\0\1\0")
_DOCUMENTS = {
    ".pdf": "pdf",
    ".doc": "doc",
    ".docx": "doc",
    ".xls": "xls",
    ".xlsx": "xls",
    ".ppt": "ppt",
    ".pptx": "ppt",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One way to send a file. upload: "image", or the type of the file that is uploaded."""

    message: str
    upload: str

    def content(self, key: str) -> str:
        """The content of the message, by the key of what was uploaded."""
        return dump_content({"image_key" if self.upload == "image" else "file_key": key})


_FILE = Shape(message="file", upload="stream")


def shapes_of(file: OutboundFile, data: bytes) -> tuple[Shape, ...]:
    """The ways to try in turn, judged by the bytes where a name can lie."""
    if _is_image(data) and len(data) <= MAX_IMAGE_BYTES:
        return Shape(message="image", upload="image"), _FILE
    if data[:4] == b"OggS" and b"OpusHead" in data[:64]:
        return Shape(message="audio", upload="opus"), _FILE
    if data[4:8] == b"ftyp" and PurePath(file.name).suffix.lower() in {".mp4", ".m4v"}:
        return Shape(message="media", upload="mp4"), _FILE
    kind = _DOCUMENTS.get(PurePath(file.name).suffix.lower())
    return (Shape(message="file", upload=kind), _FILE) if kind else (_FILE,)


def name_of(file: OutboundFile) -> str:
    """What people see it called: its end, which says what it is, is kept."""
    name = " ".join(file.name.split()) or "file"
    suffix = PurePath(name).suffix[:20]
    if len(name) <= _NAME_CHARS:
        return name
    return name[: _NAME_CHARS - len(suffix) - 1] + "…" + suffix


def _is_image(data: bytes) -> bool:
    return data.startswith(_IMAGES) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
