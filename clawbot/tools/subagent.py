"""subagent: a helper that reads much and reports little."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel, Field

from clawbot.errors import ToolError
from clawbot.ports import ToolContext


@runtime_checkable
class Delegating(Protocol):
    """A context in which work can be given away."""

    async def delegate(self, task: str) -> str:
        """Let a sub-agent do it; return its report. Raise ToolError."""
        ...


class SubagentArgs(BaseModel):
    """What `subagent` takes."""

    task: str = Field(
        min_length=1,
        max_length=20_000,
        description="The task, with all that it takes to know; the helper sees nothing else.",
    )


class SubagentTool:
    """The tool."""

    name: ClassVar[str] = "subagent"
    description: ClassVar[str] = (
        "Give a task that needs much reading to a helper that can look at files and pages and "
        "change nothing. Only its report comes back. Several in one step work side by side."
    )
    Args: ClassVar[type[BaseModel]] = SubagentArgs

    async def run(self, args: SubagentArgs, context: ToolContext) -> str:
        """Wait for the report."""
        if not isinstance(context, Delegating):
            raise ToolError("There are no helpers here.")
        return await context.delegate(args.task)
