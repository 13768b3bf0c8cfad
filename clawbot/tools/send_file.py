"""send_file: a file of the work directory, as a message of its own in the chat."""

from __future__ import annotations

import asyncio
import mimetypes
import os
from pathlib import PurePath
from typing import ClassVar

from pydantic import BaseModel, Field

from clawbot.errors import ToolError
from clawbot.ports import ToolContext
from clawbot.tools.files import open_file
from clawbot.tools.threads import in_thread


class SendFileArgs(BaseModel):
    """What `send_file` takes."""

    path: str = Field(
        description="The file, relative to the work directory.", min_length=1, max_length=4096
    )
    name: str = Field(
        default="", max_length=120, description="What people see it called; else its own name."
    )


class SendFile:
    """The tool; a file larger than `max_bytes` is not sent."""

    name: ClassVar[str] = "send_file"
    description: ClassVar[str] = (
        "Send a file of the work directory to the people in this chat. It is a message of its own: "
        "do not repeat its content in your answer."
    )
    Args: ClassVar[type[BaseModel]] = SendFileArgs

    writes: ClassVar[bool] = True

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    async def run(self, args: SendFileArgs, context: ToolContext) -> str:
        """Read the file in a thread, and let it go with the call's result."""
        name = PurePath(args.name or args.path).name
        if not name:
            raise ToolError(f"{args.name or args.path}: want the name of a file")
        data = await in_thread(lambda _abandoned: self._read(args.path, context))
        mime = await asyncio.to_thread(_mime_of, name)
        await context.send_file(name, mime, data)
        return f"{name} ({len(data):,} bytes) is on its way to the chat."

    def _read(self, path: str, context: ToolContext) -> bytes:
        with open_file(context.work_dirs, path) as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise ToolError(f"{path}: is empty; there is nothing to send")
            data = file.read(self._max_bytes + 1)
        if len(data) > self._max_bytes:
            raise ToolError(
                f"{path}: {size:,} bytes; files of up to {self._max_bytes:,} bytes can be sent"
            )
        return data


def _mime_of(name: str) -> str:
    """The type that a file's name stands for; the first call reads the system's list."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
