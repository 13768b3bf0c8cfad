"""schedule: what the agent plans for later, in the conversation in which it is asked to."""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, Field

from clawbot.errors import ToolError
from clawbot.ports import ToolContext


class Plans(Protocol):
    """What is planned in the conversation of one turn."""

    async def add(self, when: str, text: str, *, may_be_silent: bool) -> str:
        """Plan something, with the result of the call; say when it will be. Raise ToolError."""
        ...

    async def listing(self) -> str:
        """What is planned, one a line."""
        ...

    async def cancel(self, plan_id: str) -> str:
        """Plan something no more, with the result of the call. Raise ToolError."""
        ...


@runtime_checkable
class Planning(Protocol):
    """A context in which something can be planned."""

    def plans(self) -> Plans:
        """Where; what is done there is committed with the call's result. Raise ToolError."""
        ...


class ScheduleArgs(BaseModel):
    """What `schedule` takes."""

    action: Literal["add", "list", "cancel"] = Field(description="What to do.")
    when: str = Field(
        default="",
        max_length=200,
        description=(
            "For add: a time such as 30m, tomorrow 9:00, 2030-01-31 12:00, every day 9:00, "
            "weekdays 18:30, every monday 9:00, every 30m, or cron 0 9 * * 1-5."
        ),
    )
    text: str = Field(
        default="",
        max_length=4000,
        description="For add: what you are to do then, with all that you need to know.",
    )
    may_be_silent: bool = Field(
        default=False,
        description="For add: whether a run that finds nothing worth telling may stay silent.",
    )
    id: str = Field(default="", max_length=40, description="For cancel: which one, as listed.")


class ScheduleTool:
    """The tool."""

    name: ClassVar[str] = "schedule"
    description: ClassVar[str] = (
        "Plan something for later in this conversation, once or repeatedly; list or cancel what is "
        "planned. When its time comes you are given the text and answer here."
    )
    Args: ClassVar[type[BaseModel]] = ScheduleArgs
    writes: ClassVar[bool] = True

    async def run(self, args: ScheduleArgs, context: ToolContext) -> str:
        """Do it, in the turn's conversation."""
        if not isinstance(context, Planning):
            raise ToolError("Nothing can be planned here.")
        plans = context.plans()
        if args.action == "list":
            return await plans.listing()
        if args.action == "cancel":
            return await plans.cancel(args.id)
        if not args.text.strip():
            raise ToolError("text: say what is to be done then")
        return await plans.add(args.when, args.text, may_be_silent=args.may_be_silent)
