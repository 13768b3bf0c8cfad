"""list_dir: what is in a directory, one line an entry."""

from __future__ import annotations

import os
import stat
import threading
from typing import ClassVar

from pydantic import BaseModel, Field

from clawbot.errors import ToolError
from clawbot.ports import ToolContext
from clawbot.tools.files import open_directory
from clawbot.tools.threads import in_thread

# A directory with more entries is not sorted as a whole: what is shown are some of them.
_MAX_SCANNED = 20_000


class ListDirArgs(BaseModel):
    """What `list_dir` takes."""

    path: str = Field(
        default=".",
        description="The directory, relative to the work directory.",
        min_length=1,
        max_length=4096,
    )
    limit: int = Field(default=200, ge=1, le=2000, description="How many entries at most.")


class ListDir:
    """The tool."""

    name: ClassVar[str] = "list_dir"
    description: ClassVar[str] = (
        "List a directory of the work directory: directories first, with a slash, then files with "
        "their sizes in bytes."
    )
    Args: ClassVar[type[BaseModel]] = ListDirArgs

    async def run(self, args: ListDirArgs, context: ToolContext) -> str:
        """List it in a thread."""
        return await in_thread(lambda abandoned: _list(args, context, abandoned))


def _list(args: ListDirArgs, context: ToolContext, abandoned: threading.Event) -> str:
    rows: list[tuple[bool, str, str]] = []
    is_whole = True
    with open_directory(context.readable_dirs, args.path) as fd, os.scandir(fd) as found:
        for entry in found:
            if abandoned.is_set():
                raise ToolError("listing was ended before it was done")
            if len(rows) >= _MAX_SCANNED:
                is_whole = False
                break
            rows.append(_row(entry))
    if not rows:
        return f"({args.path} is empty)"
    rows.sort()
    lines = [line for _is_file, _name, line in rows[: args.limit]]
    if len(rows) > args.limit or not is_whole:
        more = "" if is_whole else "more than "
        lines.append(f"[{len(lines):,} of {more}{len(rows):,} entries]")
    return "\n".join(lines)


def _row(entry: os.DirEntry[str]) -> tuple[bool, str, str]:
    """An entry as it is sorted, and its line."""
    # Names need not be UTF-8, and may hold line ends.
    shown = os.fsencode(entry.name).decode("utf-8", "replace").replace("\n", "\\n")
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # gone meanwhile
        return True, shown, f"{shown}  (cannot be read)"
    if stat.S_ISDIR(status.st_mode):
        return False, shown, f"{shown}/"
    if stat.S_ISLNK(status.st_mode):
        return True, shown, f"{shown}  (link)"
    if not stat.S_ISREG(status.st_mode):
        return True, shown, f"{shown}  (pipe, socket or device)"
    return True, shown, f"{shown}  {status.st_size:,}"
