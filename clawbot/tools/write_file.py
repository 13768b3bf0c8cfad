"""write_file: a whole text file, new or in the place of an old one."""

from __future__ import annotations

import threading
from typing import ClassVar

from pydantic import BaseModel, Field

from clawbot.ports import ToolContext
from clawbot.text import clean
from clawbot.tools.seen_files import seen_of
from clawbot.tools.threads import in_thread
from clawbot.tools.writing import place_of


class WriteFileArgs(BaseModel):
    """What `write_file` takes."""

    path: str = Field(
        description="The file, relative to the work directory.", min_length=1, max_length=4096
    )
    content: str = Field(description="All of its text.")


class WriteFile:
    """The tool."""

    name: ClassVar[str] = "write_file"
    description: ClassVar[str] = (
        "Write a text file, with its directories; what it held before is replaced, unless it was "
        "changed since you read it. To change a part of a file use edit_file."
    )
    Args: ClassVar[type[BaseModel]] = WriteFileArgs
    writes: ClassVar[bool] = True

    async def run(self, args: WriteFileArgs, context: ToolContext) -> str:
        """Write it in a thread."""
        return await in_thread(lambda abandoned: _write(args, context, abandoned))


def _write(args: WriteFileArgs, context: ToolContext, abandoned: threading.Event) -> str:
    data = clean(args.content).encode()
    with place_of(context.work_dirs, args.path, abandoned, makes_dirs=True) as place:
        seen = seen_of(context)
        seen.check(args.path, place.sight())
        place.write(data)
        seen.note(place.sight())
    done = "replaced" if place.exists else "made"
    lines = args.content.count("\n") + (not args.content.endswith("\n") and args.content != "")
    return f"{args.path}: {done}, {lines:,} line{'s' * (lines != 1)}, {len(data):,} bytes"
