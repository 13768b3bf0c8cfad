"""Working memory: what of a session's history goes into one model request; pure.

The history is cut at whole units (what a person said; a step of the agent with all its results),
never inside one. The current turn is always whole in the request: a limit yields to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from clawbot.agent.steps import Step, group
from clawbot.history import Entry


def window(entries: Sequence[Entry], turn_id: str, limit: int) -> tuple[Entry, ...]:
    """The newest units of a history, at most about `limit` entries; 0 or less = all of them.

    The result begins with something that a person said, and holds all units of turn `turn_id`.
    """
    units = group(entries)
    first_pinned = next(
        (number for number, unit in enumerate(units) if unit.turn_id == turn_id), len(units)
    )
    size = sum(_size(unit) for unit in units[first_pinned:])
    start = first_pinned
    while start > 0 and (limit <= 0 or size + _size(units[start - 1]) <= limit):
        start -= 1
        size += _size(units[start])
    while start < first_pinned and not _begins(units[start]):
        start += 1
    return tuple(entry for unit in units[start:] for entry in _flat(unit))


def open_calls(entries: Sequence[Entry], turn_id: str) -> list[Entry]:
    """The tool calls of a turn that have no result, as after a kill or a stop."""
    return [
        exchange.call
        for unit in group(entries)
        if isinstance(unit, Step) and unit.turn_id == turn_id
        for exchange in unit.exchanges
        if exchange.result is None
    ]


def _begins(unit: Entry | Step) -> bool:
    """Whether a conversation can begin here: with the user's side, not in the middle of a turn."""
    return isinstance(unit, Entry)


def _size(unit: Entry | Step) -> int:
    return len(_flat(unit))


def _flat(unit: Entry | Step) -> list[Entry]:
    """The entries of a unit, each result right after the calls of its step."""
    if isinstance(unit, Entry):
        return [unit]
    calls = [exchange.call for exchange in unit.exchanges]
    results = [exchange.result for exchange in unit.exchanges if exchange.result is not None]
    return [*unit.thinking, *unit.texts, *calls, *results]
