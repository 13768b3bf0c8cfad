"""Session keys: the text name of one isolated conversation, and its grammar.

    key     = base [ "/task:" id ]  |  "task:" id      (the latter is short for global/task:id)
    base    = "global"  |  "dir:" id  |  channel ":" id [ "/thread:" id ] [ "/user:" id ]

Every id is percent-escaped outside ``A-Z a-z 0-9 . _ - @ +`` (upper-case hex of its UTF-8), its
case is kept, and it is never looked into. Encoding and decoding are a bijection: a text that is not
the one canonical spelling of its key is refused, so no two texts can name one session and no two
sessions can share a text. Keys are never joined or split anywhere else.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Self

from clawbot.errors import InvalidSessionKey

RESERVED_CHANNELS = frozenset({"global", "task", "dir"})

_UNSAFE = re.compile(r"[^A-Za-z0-9._\-@+]")
_ESCAPED_ID = re.compile(r"(?:[A-Za-z0-9._\-@+]|%[0-9A-F]{2})+")


def escape_id(value: str) -> str:
    """Percent-escape one id; lone surrogates survive the round trip."""
    return _UNSAFE.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass")),
        value,
    )


def unescape_id(text: str) -> str:
    """Undo `escape_id`; raise InvalidSessionKey for any text that it cannot have produced."""
    if not _ESCAPED_ID.fullmatch(text):
        raise InvalidSessionKey(
            f"session key part {text!r}: empty, or holds an unescaped character"
        )
    raw = re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), text.encode("ascii"))
    try:
        value = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise InvalidSessionKey(f"session key part {text!r}: not escaped UTF-8") from error
    if escape_id(value) != text:
        raise InvalidSessionKey(f"session key part {text!r}: not in canonical form")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """One conversation. Exactly one of these shapes: global, a directory, or a chat of a channel.

    Build it with `of_global`, `of_directory`, `of_chat`, or read it with `parse`; `str(key)` is the
    canonical text.
    """

    directory: str | None = None
    channel: str | None = None
    chat_id: str | None = None
    thread: str | None = None
    user: str | None = None
    task: str | None = None

    def __post_init__(self) -> None:
        for part in (self.directory, self.chat_id, self.thread, self.user, self.task):
            if part == "":
                raise InvalidSessionKey("session key: an id is empty; leave it out or name it")
        if (self.channel is None) != (self.chat_id is None):
            raise InvalidSessionKey(
                "session key: a channel needs a chat id and a chat id a channel"
            )
        if self.channel is None and (self.thread or self.user):
            raise InvalidSessionKey("session key: a thread or user needs a channel and a chat id")
        if self.channel is not None and self.directory is not None:
            raise InvalidSessionKey("session key: a directory has no channel")
        if self.channel is not None and (not self.channel or self.channel in RESERVED_CHANNELS):
            raise InvalidSessionKey(f"session key: {self.channel!r} cannot be a channel's name")

    @classmethod
    def of_global(cls) -> Self:
        """The session of whoever names none."""
        return cls()

    @classmethod
    def of_directory(cls, path: str) -> Self:
        """The terminal's session of one working directory."""
        return cls(directory=path)

    @classmethod
    def of_chat(
        cls, channel: str, chat_id: str, *, thread: str | None = None, user: str | None = None
    ) -> Self:
        """The base session of a chat, of one thread in it, or of one person in it."""
        return cls(channel=channel, chat_id=chat_id, thread=thread, user=user)

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Read a key; None and "" are the global session. Raise InvalidSessionKey."""
        if not text or text == "global":
            return cls()
        first, *rest = text.split("/")
        fields: dict[str, str] = {}
        label, separator, value = first.partition(":")
        if label == "task" and separator and not rest:
            return cls(task=unescape_id(value))
        if label == "dir" and separator:
            fields["directory"] = unescape_id(value)
        elif separator:
            fields["channel"], fields["chat_id"] = unescape_id(label), unescape_id(value)
        elif first != "global":
            raise InvalidSessionKey(
                f"session key {text!r}: want global, dir:PATH, task:ID or CHANNEL:CHAT"
            )
        order = ("thread", "user", "task")
        position = 0
        for piece in rest:
            label, separator, value = piece.partition(":")
            if not separator or label not in order[position:]:
                raise InvalidSessionKey(
                    f"session key {text!r}: {piece!r} is not a thread:, user: or task: part, "
                    "or stands in the wrong place"
                )
            position = order.index(label) + 1
            fields[label] = unescape_id(value)
        return cls(**fields)

    def __str__(self) -> str:
        if self.directory is not None:
            base = f"dir:{escape_id(self.directory)}"
        elif self.channel is not None and self.chat_id is not None:
            base = f"{escape_id(self.channel)}:{escape_id(self.chat_id)}"
        else:
            base = "global"
        for label, value in (("thread", self.thread), ("user", self.user), ("task", self.task)):
            if value is not None:
                base += f"/{label}:{escape_id(value)}"
        return base

    @property
    def is_global(self) -> bool:
        """Whether this is the global base session."""
        return self == SessionKey()

    @property
    def base(self) -> SessionKey:
        """The base session beside which this one stands (itself when it is one)."""
        return self if self.task is None else replace(self, task=None)

    @property
    def chat(self) -> str:
        """The chat that it belongs to: the key without thread, user and task."""
        return str(replace(self, thread=None, user=None, task=None))

    def with_task(self, task: str | None) -> SessionKey:
        """The sub-session `task` of the same base."""
        return replace(self, task=task)

    @property
    def digest(self) -> str:
        """A name for files: 32 hex digits, distinct on case-insensitive file systems too."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:32]
