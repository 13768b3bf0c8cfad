"""Thinking before acting: a call of its own, in which no tool may be used; and how much a provider
is to think by itself.

What the first call came to is kept beside the conversation and stands in later requests on the
user's side, so that no request ends with the assistant's words and no call is parted from its
result. It is the first to go where room is tight. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from clawbot.history import THINKS_FIRST, Entry, EntryKind, ModelReply, ModelRequest

Level = Literal["off", "low", "medium", "high"]

BUDGETS: Mapping[str, int] = {"low": 2048, "medium": 10_000, "high": 16_384}
"""The tokens that a level may take; a provider that is given a number is given this one (the model
library's: pydantic_ai.profiles.anthropic)."""

LEAST_ANSWER_TOKENS = 1024
"""What must be left for the answer."""

ASK = """\
Before you act, think: what is asked, what you know and what you must find out, what you will do and
in which order, what could go wrong. No tool may be used now. Nobody but you reads this: write only
your thoughts, in short notes."""


def to_think(request: ModelRequest) -> ModelRequest:
    """The request of the thinking phase: the same, with the wish at its end and no use of tools."""
    ask = Entry(kind=EntryKind.NOTE, text=ASK)
    return replace(request, entries=(*request.entries, ask), may_use_tools=False)


def thoughts(reply: ModelReply, turn_id: str) -> Entry | None:
    """What the phase came to, as it is kept; None for nothing."""
    if not reply.text.strip():
        return None
    return Entry(
        kind=EntryKind.THINKING,
        tool=THINKS_FIRST,
        text=reply.text,
        turn_id=turn_id,
        usage=reply.usage,
    )


def level_within(level: str | None, max_tokens: int) -> str | None:
    """The level, or the highest below it that leaves something of `max_tokens` for the answer."""
    if level is None or level not in BUDGETS:
        return level
    names = list(BUDGETS)
    for name in reversed(names[: names.index(level) + 1]):
        if BUDGETS[name] + LEAST_ANSWER_TOKENS <= max_tokens:
            return name
    return "off"
