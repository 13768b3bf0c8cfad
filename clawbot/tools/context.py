"""What a tool is told of the turn it runs in: the plain value of `clawbot.ports.ToolContext`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from clawbot.errors import ToolError
from clawbot.history import ToolCall
from clawbot.ports import Reporter, Store, Unit
from clawbot.session_key import SessionKey
from clawbot.tools.schedule import Plans
from clawbot.tools.seen_files import SeenFiles
from clawbot.tools.start_task import Tasks


class Approvals(Protocol):
    """Asks people about calls of one turn."""

    async def ask(self, call: ToolCall, question: str) -> None:
        """See `ports.ToolContext.ask`."""
        ...

    def was_asked(self, call: ToolCall) -> bool:
        """Whether people were asked about this call before; what they say of it counts."""
        ...


class FileSender(Protocol):
    """Sends files to the chat of one turn."""

    async def prepare(self, name: str, mime: str, data: bytes) -> Unit[None]:
        """Keep the file; the unit puts it on its way. Raise ToolError where no chat takes files."""
        ...


@dataclass(slots=True, kw_only=True)
class TurnContext:
    """One turn's session, work directories (the first is where relative paths begin) and bounds.

    readable_dirs: the work directories, and what else may be read. session_dir: one of these, where
    tools keep what belongs to the session. is_owner: whether all who are answered are owners.
    deadline: when the turn must end, by the clock's `monotonic`. stopping: set when it is stopped.
    approvals: None where there are no people to ask. file_sender: None where there is no chat.
    planner: makes what plans for the conversation, of what takes units to be committed.
    task_starter: the like for what begins tasks beside it; None where there can be none.
    may_be_silent: whether the turn may end without a message. seen: which files the session has
    seen, and how. helper: does a task and reports. withheld: tools that the turn does not have.
    plan_folder: see `tools.plan.PlanMode`. guard: says why a call that changes something is not
    made.
    call: the call that this is the context of. call_effects: what it wants written with its result.
    """

    session: SessionKey
    work_dirs: Sequence[Path]
    readable_dirs: Sequence[Path]
    session_dir: Path
    is_owner: bool
    channel: str
    deadline: float
    reporter: Reporter
    stopping: asyncio.Event
    store: Store
    approvals: Approvals | None = None
    file_sender: FileSender | None = None
    planner: Callable[[Callable[[Unit[None]], None]], Plans] | None = None
    task_starter: Callable[[Callable[[Unit[None]], None]], Tasks] | None = None
    may_be_silent: bool = False
    seen: SeenFiles | None = None
    withheld: frozenset[str] = frozenset()
    plan_folder: str | None = None
    guard: Callable[[ToolCall], Awaitable[str | None]] | None = None
    helper: Callable[[str], Awaitable[str]] | None = None
    call: ToolCall | None = None
    call_effects: list[Unit[None]] = field(default_factory=list)
    _is_allowed: bool = False

    async def ask(self, question: str) -> None:
        """See `ports.ToolContext`."""
        if self.approvals is None or self.call is None:
            raise ToolError("This needs the approval of a person, and there is nobody to ask here.")
        if not self._is_allowed:
            await self.approvals.ask(self.call, question)
            self._is_allowed = True

    @property
    def was_asked(self) -> bool:
        """See `tools.registry.Questioned`."""
        return self.approvals is not None and (
            self.call is not None and self.approvals.was_asked(self.call)
        )

    def for_call(self, call: ToolCall) -> TurnContext:
        """See `ports.ToolContext`."""
        return replace(self, call=call, call_effects=[], _is_allowed=False)

    async def send_file(self, name: str, mime: str, data: bytes) -> None:
        """See `ports.ToolContext`."""
        if self.file_sender is None:
            raise ToolError("There is no chat here that takes files.")
        self.call_effects.append(await self.file_sender.prepare(name, mime, data))

    def plans(self) -> Plans:
        """See `tools.schedule.Planning`."""
        if self.planner is None:
            raise ToolError("Nothing can be planned here.")
        return self.planner(self.call_effects.append)

    def tasks(self) -> Tasks:
        """See `tools.start_task.TaskStarting`."""
        if self.task_starter is None:
            raise ToolError("No task can be begun here: do it yourself.")
        return self.task_starter(self.call_effects.append)

    async def refusal(self, call: ToolCall) -> str | None:
        """See `tools.registry.Guarding`."""
        return None if self.guard is None else await self.guard(call)

    async def delegate(self, task: str) -> str:
        """See `tools.subagent.Delegating`."""
        if self.helper is None:
            raise ToolError("There are no helpers here.")
        return await self.helper(task)

    def effects(self) -> tuple[Unit[None], ...]:
        """See `ports.ToolContext`."""
        return tuple(self.call_effects)
