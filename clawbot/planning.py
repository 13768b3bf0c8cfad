"""Plan mode of one turn: what each request says of the plan, and what may be done without one."""

from __future__ import annotations

import asyncio
import json
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clawbot.errors import ToolError
from clawbot.history import ToolCall
from clawbot.observation import PLAN, SAY_NOTHING
from clawbot.todo import HEAD, PLAN_FILE, TODO_FILE, Plan, state_of
from clawbot.tools.plan import plan_in

NEEDS_NO_PLAN = frozenset({PLAN, SAY_NOTHING, "schedule", "send_file", "process"})
UNPLANNED = (
    "Not made: plan mode is on here, and there is no plan with an open box. Make one first with "
    "the tool plan."
)
BY_THE_TOOL = "Not made: {path} is changed with the tool plan alone."


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """A turn's plan mode. folder: see `tools.plan.PlanMode`."""

    roots: Sequence[Path]
    folder: str

    async def notes(self) -> str:
        """What the next request says of the plan."""
        try:
            plan = await self._plan()
        except ToolError as error:
            return f"{HEAD}\n\nThe plan cannot be read: {error}"
        return f"{HEAD}\n\n{state_of(plan, self.folder)}"

    async def refusal(self, call: ToolCall) -> str | None:
        """Why a call that changes something is not made; None = it may be."""
        if call.tool in NEEDS_NO_PLAN:
            return None
        path = _path_of(call)
        if path in {self.folder + PLAN_FILE, self.folder + TODO_FILE}:
            return BY_THE_TOOL.format(path=path)
        try:
            plan = await self._plan()
        except ToolError as error:
            return f"Not made: the plan cannot be read: {error}"
        return UNPLANNED if plan is None or plan.next is None else None

    async def _plan(self) -> Plan | None:
        return await asyncio.to_thread(plan_in, self.roots, self.folder)


def _path_of(call: ToolCall) -> str:
    """The file that a call names, if it names one, as it is written from the work directory."""
    try:
        path = json.loads(call.arguments or "{}").get("path", "")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return posixpath.normpath(path) if isinstance(path, str) and path else ""
