"""Weighs units, tools and texts in counted tokens, each text once.

An object lives for one turn: what it has weighed it knows for the turn's later steps. Weights
include what the wire puts around a text; they are of the counting vocabulary, not of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from clawbot.agent.steps import Step
from clawbot.agent.tokens import byte_bound, estimate
from clawbot.history import Entry, EntryKind, ToolSpec

Unit = Entry | Step
"""What stands or falls together in a request; see `agent.steps`."""

# Role, separators and JSON around a text; for calls and their results also their ids and names.
_AROUND = {EntryKind.TOOL_CALL: 28, EntryKind.TOOL_RESULT: 24}
_AROUND_TEXT = 8
_AROUND_TOOL = 16
_STAND_IN = 40  # what the wire says of a result that is missing
_REMEMBERED_FROM = 64  # characters; weighing less is cheaper than remembering it


class Count(Protocol):
    """Counts the tokens of a text; see `TokenCounter.count`."""

    def __call__(self, text: str, *, stop_above: int | None = None) -> int:
        """Tell how many there are."""
        ...


class Weights:
    """Weighs by counting.

    most: a text with more tokens than this is not counted to its end. sends_thinking: whether the
    model is sent its earlier thinking.
    """

    def __init__(self, count: Count, *, most: int, sends_thinking: bool) -> None:
        self._count = count
        self._most = most
        self._sends_thinking = sends_thinking
        self._known: dict[str, int] = {}

    def text(self, text: str) -> int:
        """The tokens of a text."""
        if len(text) < _REMEMBERED_FROM:
            return self._count(text) if text else 0
        if text not in self._known:
            self._known[text] = self._count(text, stop_above=self._most)
        return self._known[text]

    def is_above(self, text: str, limit: int) -> bool:
        """Whether a text has more tokens than `limit`, without counting all of a long one."""
        if byte_bound(text) <= limit:
            return False
        if text in self._known:
            return self._known[text] > limit
        return self._count(text, stop_above=limit) > limit

    def unit(self, unit: Unit) -> int:
        """The tokens that a unit adds to a request."""
        return self._weigh_unit(unit, self.text)

    def units(self, units: Iterable[Unit]) -> int:
        """The tokens that several units add to a request."""
        return sum(self._weigh_unit(unit, self.text) for unit in units)

    def bound(self, units: Iterable[Unit]) -> int:
        """More tokens than this the units cannot add; nothing is counted."""
        return sum(self._weigh_unit(unit, byte_bound) for unit in units)

    def estimate(self, units: Iterable[Unit]) -> int:
        """About how many tokens the units add; nothing is counted."""
        return sum(self._weigh_unit(unit, estimate) for unit in units)

    def _weigh_unit(self, unit: Unit, measure: Callable[[str], int]) -> int:
        unanswered = 0
        if isinstance(unit, Step):
            unanswered = sum(exchange.result is None for exchange in unit.exchanges)
        entries = sum(self._weigh(entry, measure) for entry in flat(unit))
        return entries + unanswered * _STAND_IN

    def _weigh(self, entry: Entry, measure: Callable[[str], int]) -> int:
        if entry.kind is EntryKind.THINKING and not entry.is_thought:
            return measure(entry.text) + _AROUND_TEXT if self._sends_thinking else 0
        # A sender's name is written before the words.
        named = measure(entry.sender) + 2 if entry.sender else 0
        around = _AROUND.get(entry.kind, _AROUND_TEXT)
        return measure(entry.text) + measure(entry.arguments) + named + around


def tools_text(tools: Sequence[ToolSpec]) -> str:
    """The tools of a request as text to weigh."""
    return "\n".join(tool.text for tool in tools)


def around_tools(tools: Sequence[ToolSpec]) -> int:
    """The tokens that the wire puts around tools."""
    return _AROUND_TOOL * len(tools)


def flat(unit: Unit) -> list[Entry]:
    """The entries of a unit, each result right after the calls of its step."""
    if isinstance(unit, Entry):
        return [unit]
    calls = [exchange.call for exchange in unit.exchanges]
    results = [exchange.result for exchange in unit.exchanges if exchange.result is not None]
    return [*unit.thinking, *unit.texts, *calls, *results]
