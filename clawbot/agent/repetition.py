"""Notices that the same call fails again and again, and says so to the model; pure.

It counts in the session's own history, so that it holds across turns and restarts and knows nothing
of other sessions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from clawbot.agent.batch import NOT_MADE
from clawbot.agent.interruption import INTERRUPTED
from clawbot.agent.steps import Exchange, Step, group
from clawbot.history import Entry, ToolCall

REMIND_FROM = 3


def reminder(call: ToolCall, entries: Sequence[Entry]) -> str:
    """What to add to the failure of a call; "" as long as it is not the third of its kind in a row.

    entries: the session's history before this failure.
    """
    count = 1 + _failures(call, entries)
    if count < REMIND_FROM:
        return ""
    return (
        f"\n[This very call has failed {count} times in a row. Do not make it again unchanged: "
        "find out why it fails, take another way, or tell the person what stands in the way.]"
    )


def _failures(call: ToolCall, entries: Sequence[Entry]) -> int:
    """How often the same call failed since it last succeeded."""
    wanted = (call.tool, normalised(call.arguments))
    count = 0
    for exchange in _newest_first(entries):
        result = exchange.result
        if result is None or result.text in {INTERRUPTED, NOT_MADE}:
            continue
        if (exchange.call.tool, normalised(exchange.call.arguments)) != wanted:
            continue
        if not result.is_error:
            break
        count += 1
    return count


def _newest_first(entries: Sequence[Entry]) -> Iterator[Exchange]:
    for unit in reversed(group(entries)):
        if isinstance(unit, Step):
            yield from reversed(unit.exchanges)


def normalised(arguments: str) -> str:
    """Arguments without what makes no difference: the order of keys, and spaces."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return " ".join(arguments.split())
    return " ".join(json.dumps(_spaced(value), sort_keys=True, ensure_ascii=False).split())


def _spaced(value: object) -> object:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {key: _spaced(item) for key, item in value.items()}
    return [_spaced(item) for item in value] if isinstance(value, list) else value
