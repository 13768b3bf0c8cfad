"""read_skill: the instructions for a kind of work."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from pydantic import BaseModel, Field

from clawbot.ports import ToolContext
from clawbot.tools import skills


class ReadSkillArgs(BaseModel):
    """What `read_skill` takes."""

    name: str = Field(min_length=1, max_length=200, description="As the list of skills names it.")


class ReadSkill:
    """The tool."""

    name: ClassVar[str] = "read_skill"
    description: ClassVar[str] = (
        "Read the instructions of a skill, before doing work of the kind that it is for."
    )
    Args: ClassVar[type[BaseModel]] = ReadSkillArgs

    async def run(self, args: ReadSkillArgs, context: ToolContext) -> str:
        """Read it in a thread."""
        return await asyncio.to_thread(skills.read_skill, context.work_dirs, args.name)
