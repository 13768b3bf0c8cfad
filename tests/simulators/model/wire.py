"""What the server needs of a wire format, and the frame of a server-sent event.

The three formats live in `openai_chat.py`, `openai_responses.py` and `anthropic.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .answer import Delta, ErrorKind, Reply, Usage
from .body import Json
from .conversation import Conversation, RecordedRequest

CREATED_AT = 1_700_000_000
"""The `created` time of every answer: fixed, so that recorded answers compare equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer in the making: what was asked, the reply, and the ids it carries."""

    id: str
    request: RecordedRequest
    reply: Reply
    call_ids: tuple[str, ...]
    usage: Usage


class Stream(Protocol):
    """The streamed form of one answer, frame by frame; keeps what was sent so far."""

    def opening(self) -> bytes:
        """The frames before the first delta."""
        ...

    def delta(self, delta: Delta) -> bytes:
        """The frames of one delta."""
        ...

    def closing(self) -> bytes:
        """The frames after the last delta, with finish reason and usage."""
        ...


class Wire(Protocol):
    """One wire format. Pure: no I/O, no state."""

    call_prefix: str

    def read(self, body: Json) -> Conversation:
        """The normalised content of a request body; tolerates an illegal one."""
        ...

    def stream(self, turn: Turn) -> Stream:
        """A fresh streamed answer."""
        ...

    def whole(self, turn: Turn) -> Json:
        """The answer to a request without `stream`."""
        ...

    def error(self, kind: ErrorKind, message: str, turn_id: str) -> Json:
        """The provider's error body; an empty message means the provider's usual words."""
        ...

    def error_frame(self, body: Json) -> bytes:
        """The same error as an event inside a stream."""
        ...


def frame(data: Mapping[str, Any], event: str | None = None) -> bytes:
    """One server-sent event."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
