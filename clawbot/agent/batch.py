"""Runs the tool calls of one step: those that only look side by side, those that change something
alone and in their turn, so that the step comes to what it would have come to one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Protocol

from clawbot.errors import TurnParked
from clawbot.history import ToolCall, ToolSpec
from clawbot.observation import Observation
from clawbot.tracing.names import observed, tool_span

NOT_MADE = (
    "Not made: an earlier call of the same step waits for people. Make it again if it is still "
    "wanted once that is decided."
)


class Tools(Protocol):
    """The tools of a turn, bound to what they may know of it.

    at_once: how many calls may run side by side.
    """

    specs: tuple[ToolSpec, ...]
    at_once: int

    async def call(self, call: ToolCall) -> Observation:
        """Run a tool; return its observation.

        Raise TurnParked when people must decide first: the same call is made again afterwards.
        """
        ...

    def writes(self, call: ToolCall) -> bool:
        """Whether a call may change something."""
        ...


Ended = tuple[ToolCall, Observation | None]
"""A call and its observation; None when people must decide first."""


async def run_calls(tools: Tools, calls: Sequence[ToolCall]) -> AsyncGenerator[list[Ended], None]:
    """Run calls and give out those that have ended, as they end.

    Once a call waits for people, later ones that would change something are not made. Closing the
    generator ends what runs, and waits for it.
    """
    waits = False
    for group in _groups(tools, calls):
        if waits and tools.writes(group[0]):
            yield [(call, _not_made(call)) for call in group]
            continue
        async with aclosing(_side_by_side(tools, group)) as batches:
            async for ended in batches:
                waits = waits or any(seen is None for _, seen in ended)
                yield ended


def _groups(tools: Tools, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
    """The calls in order: a call that writes alone, those between two such together."""
    group: list[ToolCall] = []
    for call in calls:
        if not tools.writes(call):
            group.append(call)
            continue
        if group:
            yield group
        yield [call]
        group = []
    if group:
        yield group


async def _side_by_side(
    tools: Tools, calls: Sequence[ToolCall]
) -> AsyncGenerator[list[Ended], None]:
    waiting = list(reversed(calls))
    running: dict[asyncio.Task[Observation | None], ToolCall] = {}
    try:
        while waiting or running:
            while waiting and len(running) < tools.at_once:
                call = waiting.pop()
                task = asyncio.create_task(_observe(tools, call), name=f"tool {call.tool}")
                running[task] = call
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            yield [(running.pop(task), task.result()) for task in list(running) if task in done]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _not_made(call: ToolCall) -> Observation:
    seen = Observation(NOT_MADE, is_error=True)
    with tool_span(call) as span:
        observed(span, seen)
    return seen


async def _observe(tools: Tools, call: ToolCall) -> Observation | None:
    """A tool's observation; None when people must decide first."""
    try:
        with tool_span(call) as span:
            seen = await tools.call(call)
            observed(span, seen)
            return seen
    except TurnParked:
        return None
