"""say_nothing: the end of a planned turn that found nothing worth telling.

A structured way to be silent, so that no word of an answer ever has to mean it.
"""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel, Field

from clawbot.errors import ToolError
from clawbot.observation import SAY_NOTHING
from clawbot.ports import ToolContext


@runtime_checkable
class Silenceable(Protocol):
    """A context that knows whether its turn may end without a message."""

    may_be_silent: bool


class SayNothingArgs(BaseModel):
    """What `say_nothing` takes."""

    reason: str = Field(description="Why there is nothing to tell, for the log.", max_length=500)


class SayNothing:
    """The tool; it is offered only in turns that may end so."""

    name: ClassVar[str] = SAY_NOTHING
    description: ClassVar[str] = (
        "End this planned run without a message, when there is nothing worth telling people."
    )
    Args: ClassVar[type[BaseModel]] = SayNothingArgs

    async def run(self, args: SayNothingArgs, context: ToolContext) -> str:
        """Allow it, or say that somebody waits."""
        if not isinstance(context, Silenceable) or not context.may_be_silent:
            raise ToolError("People wait for an answer here: give one.")
        return f"The run ends without a message: {args.reason}"
