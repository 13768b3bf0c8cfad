"""Groups the entries of a history into what people said and what the agent did, repaired.

Pure: entries in, values out. It decides nothing about size, and knows no provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from clawbot.history import Entry, EntryKind

_AGENT_SIDE = frozenset({EntryKind.ASSISTANT, EntryKind.THINKING, EntryKind.TOOL_CALL})


@dataclass(slots=True, kw_only=True)
class Exchange:
    """A tool call and its result, None as long as there is none."""

    call: Entry
    result: Entry | None = None


@dataclass(slots=True, kw_only=True)
class Step:
    """What one model call came to, with the results of its tool calls in the order of the calls."""

    turn_id: str | None
    number: int
    thinking: list[Entry] = field(default_factory=list)
    texts: list[Entry] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)

    def continues_with(self, entry: Entry) -> bool:
        """Whether an entry of the agent's side belongs to this step too."""
        if (self.turn_id, self.number) != (entry.turn_id, entry.step):
            return False
        # Entries without a number (imported ones) are told apart by the results between them.
        is_answered = any(exchange.result for exchange in self.exchanges)
        return self.number >= 0 or not is_answered


def group(entries: Iterable[Entry]) -> list[Entry | Step]:
    """Put entries in units: an entry of the user's side alone, the agent's as whole steps.

    A result that comes late stands with its call; one that answers nothing, or answers again what
    is answered, is dropped. Results are matched by step, then id, then position.
    """
    units: list[Entry | Step] = []
    for entry in entries:
        if entry.kind is EntryKind.TOOL_RESULT:
            exchange = _awaiting(units, entry)
            if exchange is not None:
                exchange.result = entry
        elif entry.kind in _AGENT_SIDE and not entry.is_thought:
            _add(_step_for(units, entry), entry)
        else:
            units.append(entry)
    return units


def _step_for(units: list[Entry | Step], entry: Entry) -> Step:
    newest = units[-1] if units else None
    if isinstance(newest, Step) and newest.continues_with(entry):
        return newest
    step = Step(turn_id=entry.turn_id, number=entry.step)
    units.append(step)
    return step


def _add(step: Step, entry: Entry) -> None:
    if entry.kind is EntryKind.TOOL_CALL:
        step.exchanges.append(Exchange(call=entry))
    elif entry.kind is EntryKind.THINKING:
        step.thinking.append(entry)
    else:
        step.texts.append(entry)


def _awaiting(units: list[Entry | Step], result: Entry) -> Exchange | None:
    """The call that a result answers."""
    waiting = list(_unanswered(units))
    own = [
        exchange
        for exchange in waiting
        if (exchange.call.turn_id, exchange.call.step) == (result.turn_id, result.step)
    ]
    for exchange in [*own, *waiting]:
        if exchange.call.call_id == result.call_id:
            return exchange
    if result.call_id:
        return None
    return next(iter([*own, *waiting]), None)


def _unanswered(units: list[Entry | Step]) -> Iterator[Exchange]:
    """Calls without a result, of the newest step first."""
    for unit in reversed(units):
        if isinstance(unit, Step):
            yield from (exchange for exchange in unit.exchanges if exchange.result is None)
