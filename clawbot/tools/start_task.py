"""start_task: work that takes long, done beside the conversation; its report comes back there."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel, Field

from clawbot.errors import ToolError
from clawbot.observation import START_TASK
from clawbot.ports import ToolContext

TITLE_CHARS = 80


class Tasks(Protocol):
    """The tasks beside the conversation of one turn."""

    async def start(self, title: str, instructions: str) -> str:
        """Begin one, with the result of the call; say under which name. Raise ToolError."""
        ...


@runtime_checkable
class TaskStarting(Protocol):
    """A context in which tasks can be begun."""

    def tasks(self) -> Tasks:
        """Where; what is begun there is committed with the call's result. Raise ToolError."""
        ...


class StartTaskArgs(BaseModel):
    """What `start_task` takes."""

    title: str = Field(
        min_length=1, max_length=TITLE_CHARS, description="What people see of it in lists."
    )
    instructions: str = Field(
        min_length=1,
        max_length=20_000,
        description=(
            "All that it takes to do it: whoever does it knows nothing of this conversation, works "
            "in the same directory, and can ask nobody anything."
        ),
    )


class StartTask:
    """The tool."""

    name: ClassVar[str] = START_TASK
    description: ClassVar[str] = (
        "Begin work that takes long beside this conversation, so that people need not wait for it. "
        "Its report comes here as a message of its own when it is over; do not wait or look for it."
    )
    Args: ClassVar[type[BaseModel]] = StartTaskArgs
    writes: ClassVar[bool] = True

    async def run(self, args: StartTaskArgs, context: ToolContext) -> str:
        """Begin it with the result of this call."""
        if not isinstance(context, TaskStarting):
            raise ToolError("No task can be begun here.")
        return await context.tasks().start(args.title, args.instructions)
