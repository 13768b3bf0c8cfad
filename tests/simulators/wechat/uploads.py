"""What WeChat and WeCom take as files of a program, by the rules of media/upload.

A kind is judged by the ending of the name and by the first bytes, and has a size.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

MB = 1024 * 1024
BEGINNINGS = {
    "jpg": (b"\xff\xd8\xff",),
    "jpeg": (b"\xff\xd8\xff",),
    "png": (b"\x89PNG",),
    "gif": (b"GIF8",),
    "amr": (b"#!AMR",),
    "mp3": (b"ID3", b"\xff\xfb"),
    "mp4": (b"\x00\x00\x00",),
}
OFFICIAL: Mapping[str, tuple[frozenset[str], int]] = {
    "image": (frozenset({"jpg", "jpeg", "png", "gif"}), 10 * MB),
    "voice": (frozenset({"amr", "mp3"}), 2 * MB),
    "video": (frozenset({"mp4"}), 10 * MB),
    "thumb": (frozenset({"jpg"}), 64 * 1024),
}
WECOM: Mapping[str, tuple[frozenset[str], int]] = {
    "image": (frozenset({"jpg", "jpeg", "png"}), 10 * MB),
    "voice": (frozenset({"amr"}), 2 * MB),
    "video": (frozenset({"mp4"}), 10 * MB),
    "file": (frozenset(), 20 * MB),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file that a person sees."""

    user: str
    kind: str
    name: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A file that was handed over."""

    kind: str
    name: str
    data: bytes


def refusal(rules: Mapping[str, tuple[frozenset[str], int]], file: Kept) -> int:
    """The error code for a file; 0 when it is taken."""
    if file.kind not in rules:
        return 40004
    endings, most = rules[file.kind]
    ending = file.name.rpartition(".")[2].lower()
    if not file.name or len(file.data) <= 5:
        return 44001
    if len(file.data) > most:
        return 40009
    if endings and ending not in endings:
        return 40005
    return 0 if not endings or file.data.startswith(BEGINNINGS[ending]) else 40005


async def read_upload(request: web.Request) -> Kept:
    """The file in a request of media/upload; its name must stand there unescaped."""
    form = await request.post()
    media = form["media"]
    if not isinstance(media, web.FileField):
        raise web.HTTPBadRequest(text="no file")
    return Kept(kind=request.query.get("type", ""), name=media.filename, data=media.file.read())
