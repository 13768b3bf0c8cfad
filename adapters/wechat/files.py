"""Which files WeChat and WeCom take, as what, and how large. Pure: no network.

The kind is judged by the name, as the platforms do; what they do not know is no file for an
Official Account, and an ordinary file for WeCom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from clawbot.errors import Rejected
from clawbot.messages import OutboundFile

_MB = 1024 * 1024
_LEAST_BYTES = 6
"""WeCom refuses files of up to five bytes, and they are no picture or sound either."""

_UNSAFE = str.maketrans(dict.fromkeys('"\\/\r\n', "_"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file on its way to the platform, and the kind of message that shows it."""

    kind: str
    name: str
    mime: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of media. No endings = any."""

    endings: frozenset[str]
    max_bytes: int


Kinds = Mapping[str, Kind]
"""What a platform takes; the first that fits is used."""

OFFICIAL_KINDS: Kinds = {
    "image": Kind(endings=frozenset({"jpg", "jpeg", "png", "gif"}), max_bytes=10 * _MB),
    "voice": Kind(endings=frozenset({"amr", "mp3"}), max_bytes=2 * _MB),
    "video": Kind(endings=frozenset({"mp4"}), max_bytes=10 * _MB),
}
"""Customer-service messages know no ordinary files."""

WECOM_KINDS: Kinds = {
    "image": Kind(endings=frozenset({"jpg", "jpeg", "png"}), max_bytes=10 * _MB),
    "voice": Kind(endings=frozenset({"amr"}), max_bytes=2 * _MB),
    "video": Kind(endings=frozenset({"mp4"}), max_bytes=10 * _MB),
    "file": Kind(endings=frozenset(), max_bytes=20 * _MB),
}

BOT_KINDS: Kinds = {**WECOM_KINDS, "image": replace(WECOM_KINDS["image"], max_bytes=2 * _MB)}
"""An AI bot's, by its long connection."""


def largest(kinds: Kinds) -> int:
    """The size above which nothing is taken."""
    return max(kind.max_bytes for kind in kinds.values())


def upload_of(file: OutboundFile, data: bytes, kinds: Kinds) -> Upload:
    """How a file is handed over. Raises Rejected where the platform has no way to show it."""
    _, dot, ending = file.name.rpartition(".")
    if len(data) < _LEAST_BYTES:
        raise Rejected(f"a file of {len(data)} bytes is not taken", code="too_small")
    for name, kind in kinds.items():
        is_known = bool(dot) and ending.lower() in kind.endings
        if len(data) <= kind.max_bytes and (is_known or not kind.endings):
            safe = file.name.translate(_UNSAFE)
            return Upload(kind=name, name=safe, mime=file.mime, data=data)
    raise Rejected(f"no message shows a file of this kind and size ({ending})", code="no_kind")
