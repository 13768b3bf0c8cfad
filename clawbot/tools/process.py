"""process: the commands that this session runs in the background."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from clawbot.errors import ToolError
from clawbot.ports import ToolContext
from clawbot.tools.background import FOLDER, Begun, begun_in, end_by_force
from clawbot.tools.files import open_file

_TAIL_BYTES = 8_000
_SHOWN_CHARS = 100


class ProcessArgs(BaseModel):
    """What `process` takes."""

    action: Literal["list", "output", "stop"] = "list"
    id: str = Field(default="", max_length=20, description="Which one; for output and stop.")


class Process:
    """The tool."""

    name: ClassVar[str] = "process"
    description: ClassVar[str] = (
        "Look at the commands that run in the background (bash with background), see the end of "
        "one's output, or stop it."
    )
    Args: ClassVar[type[BaseModel]] = ProcessArgs

    async def run(self, args: ProcessArgs, context: ToolContext) -> str:
        """Do it in a thread."""
        return await asyncio.to_thread(_do, args, context)


def _do(args: ProcessArgs, context: ToolContext) -> str:
    found = begun_in(context.session_dir / FOLDER)
    if args.action == "list":
        return "\n".join(map(_told, found)) or "nothing runs in the background"
    one = next((begun for begun in found if begun.id == args.id), None)
    if one is None:
        raise ToolError(f"there is no background command {args.id!r}; list shows those there are")
    if args.action == "stop":
        return f"{one.id}: {'stopped' if end_by_force(one) else one.state}"
    path = f"{FOLDER}/{one.id}/output"
    with open_file([context.session_dir], path) as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    more = f"[the end of {size:,} bytes; read_file of {path} shows all]\n"
    return f"{_told(one)}\n{more if size > _TAIL_BYTES else ''}{tail or '(no output yet)'}"


def _told(one: Begun) -> str:
    command = " ".join(one.command.split())
    shown = command if len(command) <= _SHOWN_CHARS else command[: _SHOWN_CHARS - 1] + "…"
    return f"{one.id}  {one.state}  {shown}"
