"""What a session remembers: our own neutral schema, independent of any model library.

A history is a sequence of entries in order of `seq`. It is only ever appended to; what a model sees
of it is decided anew for each request.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

THINKS_FIRST = "think_first"
"""Marks what a model thought before it acted, in a call of its own."""


class EntryKind(StrEnum):
    """What one entry of a history is."""

    USER = "user"
    ASSISTANT = "assistant"
    THINKING = "thinking"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    SEED = "seed"
    REMINDER = "reminder"
    SUMMARY = "summary"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one model call as the provider reported them; input includes cached tokens.

    cached_tokens: what of the input was read from the provider's cache, cache_written_tokens: what
        was put into it. model: who answered; "" in a sum over several models. cost_nanos: the price
        in billionths of a US dollar; None = unknown, which is never taken for nothing.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_written_tokens: int = 0
    model: str = ""
    cost_nanos: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """The sum; an empty one adds nothing, and a sum with an unknown price has none."""
        if EMPTY in {self, other}:
            return other if self == EMPTY else self
        is_known = self.cost_nanos is not None and other.cost_nanos is not None
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_written_tokens=self.cache_written_tokens + other.cache_written_tokens,
            model=self.model if self.model == other.model else "",
            cost_nanos=(self.cost_nanos or 0) + (other.cost_nanos or 0) if is_known else None,
        )


EMPTY = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """One model call and what it cost. has_failed: whether nothing came of it."""

    usage: Usage
    has_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a history.

    step: which model call of its turn it belongs to, from 0; the user's own entries have -1.
    call_id, tool, arguments: of a tool call (arguments as the model's JSON text) and, but for the
        arguments, of its result. is_error: of a result. signature: a provider's mark on thinking.
    sender: the name of the person who wrote a user entry. seq is 0 until stored.
    """

    kind: EntryKind
    text: str = ""
    turn_id: str | None = None
    step: int = -1
    call_id: str = ""
    tool: str = ""
    arguments: str = ""
    is_error: bool = False
    signature: str = ""
    sender: str = ""
    usage: Usage | None = None
    seq: int = 0
    created_ms: int = 0

    @property
    def is_thought(self) -> bool:
        """Whether it was thought before acting; such an entry stands on the user's side."""
        return self.kind is EntryKind.THINKING and self.tool == THINKS_FIRST


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model asks for; `arguments` is its JSON text, possibly broken.

    seq: its number in the history; 0 until it is recorded there.
    """

    call_id: str
    tool: str
    arguments: str
    seq: int = 0


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told of it; `parameters` is a JSON schema that nobody changes."""

    name: str
    description: str
    parameters: dict[str, object]

    def __hash__(self) -> int:
        return hash((self.name, self.description))

    @cached_property
    def text(self) -> str:
        """All of it as one text: to weigh, and to tell it from others."""
        schema = json.dumps(self.parameters, ensure_ascii=False)
        return f"{self.name} {self.description} {schema}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """All that one model call is given. `entries` is legal for every provider: units are whole.

    thinking: how much the model is to think by itself: off, low, medium or high; None = as it does,
    or as the config says of its provider.
    """

    system: str
    entries: tuple[Entry, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int = 4096
    temperature: float | None = None
    may_use_tools: bool = True
    thinking: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What one model call came to."""

    text: str = ""
    thinking: str = ""
    signature: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    finish_reason: str = "stop"
