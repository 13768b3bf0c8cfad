"""What a tool call came to."""

from __future__ import annotations

from typing import NamedTuple

from clawbot.ports import Unit

SAY_NOTHING = "say_nothing"
"""The tool whose success ends a turn without a message."""
PLAN = "plan"
"""The tool for the plan of a conversation in plan mode."""
START_TASK = "start_task"
"""The tool that begins a task beside its conversation."""


class Observation(NamedTuple):
    """What the model is told of a call. `effects` are committed with its record, or not at all."""

    text: str
    is_error: bool
    effects: tuple[Unit[None], ...] = ()
