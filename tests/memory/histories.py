"""Histories as sessions have them, and what tests need to fit them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from clawbot.agent.tokens import TokenCounter, load_encode
from clawbot.agent.weights import Weights
from clawbot.agent.window import Fitted, Room, fit
from clawbot.history import THINKS_FIRST, Entry, EntryKind


def user(text: str, turn: str = "now") -> Entry:
    return Entry(kind=EntryKind.USER, text=text, turn_id=turn)


def note(text: str, turn: str = "now") -> Entry:
    return Entry(kind=EntryKind.NOTE, text=text, turn_id=turn)


def said(text: str, turn: str = "now", step: int = 0) -> Entry:
    return Entry(kind=EntryKind.ASSISTANT, text=text, turn_id=turn, step=step)


def thought(text: str, turn: str = "now", step: int = 0, signature: str = "") -> Entry:
    return Entry(kind=EntryKind.THINKING, text=text, turn_id=turn, step=step, signature=signature)


def thought_first(text: str, turn: str = "now") -> Entry:
    """What the model thought before it acted, in a call of its own."""
    return Entry(kind=EntryKind.THINKING, tool=THINKS_FIRST, text=text, turn_id=turn)


def call(
    call_id: str,
    turn: str = "now",
    step: int = 0,
    *,
    tool: str = "read_file",
    arguments: str = '{"path":"a"}',
) -> Entry:
    return Entry(
        kind=EntryKind.TOOL_CALL,
        call_id=call_id,
        tool=tool,
        arguments=arguments,
        turn_id=turn,
        step=step,
    )


def result(call_id: str, text: str, turn: str = "now", step: int = 0) -> Entry:
    return Entry(
        kind=EntryKind.TOOL_RESULT,
        call_id=call_id,
        tool="read_file",
        text=text,
        turn_id=turn,
        step=step,
    )


def step(number: int, *results: str, turn: str = "now") -> list[Entry]:
    """One step of parallel calls with these results."""
    ids = [f"{turn}-{number}-{place}" for place in range(len(results))]
    calls = [call(each, turn, number) for each in ids]
    return [*calls, *(result(i, text, turn, number) for i, text in zip(ids, results, strict=True))]


def chat(pairs: int, first: int = 0) -> list[Entry]:
    """Small talk of earlier turns."""
    return [
        entry
        for number in range(first, first + pairs)
        for entry in (
            user(f"small talk {number}", f"old{number}"),
            said(f"ok {number}", f"old{number}"),
        )
    ]


def numbered(entries: Iterable[Entry]) -> list[Entry]:
    """As the store numbers them."""
    return [replace(entry, seq=seq) for seq, entry in enumerate(entries, 1)]


def weights(*, most: int = 1 << 40, sends_thinking: bool = True) -> Weights:
    counter = TokenCounter(load_encode())
    return Weights(counter.count, most=most, sends_thinking=sends_thinking)


def fitted(
    entries: Iterable[Entry],
    *,
    tokens: int = 1 << 40,
    messages: int = 0,
    kept_from: int = 0,
    surely: int = -1,
    turn: str = "now",
) -> Fitted:
    """Fit a history, by counting."""
    room = Room(turn_id=turn, tokens=tokens, surely=surely, messages=messages, kept_from=kept_from)
    return fit(numbered(entries), room, weights())


def texts(entries: Sequence[Entry]) -> list[str]:
    return [entry.text for entry in entries if entry.kind is not EntryKind.TOOL_CALL]


def is_whole_groups(entries: Sequence[Entry]) -> bool:
    """Whether each call has its result and each result its call."""
    calls = [entry.call_id for entry in entries if entry.kind is EntryKind.TOOL_CALL]
    results = [entry.call_id for entry in entries if entry.kind is EntryKind.TOOL_RESULT]
    return sorted(calls) == sorted(results)
