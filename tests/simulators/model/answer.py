"""What the simulated model answers: a reply, its faults, or an HTTP refusal.

Values only, independent of the wire format. A reply is a row of deltas (thinking pieces, text
pieces, and for each tool call its start and its argument pieces); faults and gates name their
place by the number of deltas sent before them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ConfigDict, with_config

Finish = Literal["stop", "tool_calls", "length", "content_filter", "missing"]
ErrorKind = Literal[
    "invalid_request",
    "authentication",
    "permission",
    "not_found",
    "overflow",
    "rate_limit",
    "quota",
    "overloaded",
    "server",
]

_KIND_BY_STATUS: Mapping[int, ErrorKind] = {
    400: "invalid_request",
    401: "authentication",
    402: "quota",
    403: "permission",
    404: "not_found",
    413: "overflow",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}

# A script also arrives as JSON from another process: a misspelt key must not pass unnoticed.
_STRICT = ConfigDict(extra="forbid")


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts. `input_tokens` is the whole prompt, cached parts included."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call. `arguments`: an object, raw text (also invalid JSON), or the pieces to stream.

    `id` None lets the simulator choose a fresh one; any text, also the empty one, is sent as it is.
    """

    name: str
    arguments: dict[str, Any] | str | tuple[str, ...] = ""
    id: str | None = None

    @property
    def pieces(self) -> tuple[str, ...]:
        """The argument text in the pieces in which it is streamed."""
        if isinstance(self.arguments, dict):
            return (json.dumps(self.arguments),)
        if isinstance(self.arguments, str):
            return (self.arguments,) if self.arguments else ()
        return self.arguments


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class BreakOff:
    """How a reply goes wrong on the way.

    `hang` keeps the connection open and silent, `reset` aborts it, `end` closes the stream properly
    but early, `error` sends the provider's error event of `error_kind`. `after` is the number of
    deltas sent before; None means before the response headers (`end` and `error` then act after
    them, because without headers there is no stream to end).
    """

    how: Literal["hang", "reset", "end", "error"]
    after: int | None = 0
    error_kind: ErrorKind = "overloaded"


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model answer. An empty one is legal: it ends with `stop` and says nothing.

    `text` and `thinking` may be tuples: the pieces to stream. `finish` None means `tool_calls` when
    there are calls, else `stop`; `missing` leaves the reason out of an otherwise complete stream.
    `usage` None is estimated from the request. `delay_s` passes before each delta.
    """

    text: str | tuple[str, ...] = ""
    thinking: str | tuple[str, ...] = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    finish: Finish | None = None
    break_off: BreakOff | None = None
    delay_s: float = 0.0

    @property
    def finish_reason(self) -> Finish:
        """The finish reason that the reply ends with."""
        return self.finish or ("tool_calls" if self.tool_calls else "stop")


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An HTTP error. Without `body` it has the provider's own shape for `kind` and `message`.

    A text `body` is sent as HTML, as a proxy in front of a provider does. `retry_after` is in
    seconds.
    """

    status: int
    kind: ErrorKind | None = None
    message: str = ""
    body: dict[str, Any] | str | None = None
    retry_after: float | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def error_kind(self) -> ErrorKind:
        """The kind named, or the one the status implies."""
        return self.kind or _KIND_BY_STATUS.get(self.status, "server")


Answer = Reply | Refusal


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of reasoning text."""

    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the visible text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """The beginning of tool call number `index`."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of the argument text of tool call number `index`."""

    index: int
    text: str


Delta = ThinkingDelta | TextDelta | CallStart | CallArguments


def pieces(text: str | tuple[str, ...]) -> tuple[str, ...]:
    """The pieces of a text; an empty text has none."""
    if isinstance(text, str):
        return (text,) if text else ()
    return text


def deltas(reply: Reply, call_ids: tuple[str, ...]) -> Iterator[Delta]:
    """The reply in streaming order; `call_ids` holds the id of each call."""
    yield from (ThinkingDelta(piece) for piece in pieces(reply.thinking))
    yield from (TextDelta(piece) for piece in pieces(reply.text))
    for index, (call, call_id) in enumerate(zip(reply.tool_calls, call_ids, strict=True)):
        yield CallStart(index, call_id, call.name)
        yield from (CallArguments(index, piece) for piece in call.pieces)


def overflow() -> Refusal:
    """The provider's own context overflow error."""
    return Refusal(status=400, kind="overflow")


def invalid_key() -> Refusal:
    """The provider's own answer to a key it does not know."""
    return Refusal(status=401, kind="authentication")


def rate_limited(retry_after: float | None = None) -> Refusal:
    """HTTP 429, with `Retry-After` if given."""
    return Refusal(status=429, kind="rate_limit", retry_after=retry_after)
