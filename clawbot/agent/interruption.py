"""Closing what a turn leaves open when it is cut off, so that its history is whole; pure."""

from __future__ import annotations

from collections.abc import Sequence

from clawbot.agent.steps import Step, group
from clawbot.history import Entry, EntryKind

INTERRUPTED = "Interrupted: the call was cut off, and whether it had an effect is not known."
STOPPED_NOTE = "(stopped by the user)"
CUT_SHORT_NOTE = "(cut short by a newer message of the same person, which follows)"


def open_calls(entries: Sequence[Entry], turn_id: str) -> list[Entry]:
    """The tool calls of a turn that have no result, as after a kill or a stop."""
    return [
        exchange.call
        for unit in group(entries)
        if isinstance(unit, Step) and unit.turn_id == turn_id
        for exchange in unit.exchanges
        if exchange.result is None
    ]


def interrupted(calls: Sequence[Entry]) -> list[Entry]:
    """Results that say of open calls that they were interrupted."""
    return [
        Entry(
            kind=EntryKind.TOOL_RESULT,
            call_id=call.call_id,
            tool=call.tool,
            text=INTERRUPTED,
            is_error=True,
            turn_id=call.turn_id,
            step=call.step,
        )
        for call in calls
    ]


def cut_short(recorded: Sequence[Entry], turn_id: str, shown: str, note: str) -> list[Entry]:
    """What ends the history of a turn that was cut off: its open calls are closed, what people saw
    of the text that it was writing is kept, and a note says why it ends there.

    recorded: the turn's entries so far. shown: the reply so far, of all its steps.
    """
    step = 1 + max((entry.step for entry in recorded), default=-1)
    texts = [entry.text for entry in recorded if entry.kind is EntryKind.ASSISTANT]
    unfinished = shown.removeprefix("\n\n".join(texts)).strip()
    entries = interrupted(open_calls(recorded, turn_id))
    if unfinished:
        entries.append(Entry(kind=EntryKind.ASSISTANT, text=unfinished, turn_id=turn_id, step=step))
    entries.append(Entry(kind=EntryKind.NOTE, text=note, turn_id=turn_id, step=step))
    return entries
