"""glob: the files whose paths match a pattern."""

from __future__ import annotations

import threading
from concurrent.futures import Executor
from typing import ClassVar

from pydantic import BaseModel, Field

from clawbot.ports import ToolContext
from clawbot.tools.threads import in_thread
from clawbot.tools.trees import Tree
from clawbot.tools.wildcards import Wildcard


class GlobArgs(BaseModel):
    """What `glob` takes."""

    pattern: str = Field(
        min_length=1,
        max_length=500,
        description="Such as **/*.py, src/{a,b}/*.md; a name alone is looked for everywhere.",
    )
    path: str = Field(
        default=".",
        min_length=1,
        max_length=4096,
        description="The directory to look in, relative to the work directory.",
    )
    limit: int = Field(default=200, ge=1, le=2000, description="How many files at most.")


class Glob:
    """The tool; `threads` are those that searches share."""

    name: ClassVar[str] = "glob"
    description: ClassVar[str] = (
        "Find files by a pattern of their paths. Version control and package directories are left "
        "out unless path is one of them."
    )
    Args: ClassVar[type[BaseModel]] = GlobArgs

    def __init__(self, threads: Executor) -> None:
        self._threads = threads

    async def run(self, args: GlobArgs, context: ToolContext) -> str:
        """Look in a thread."""
        return await in_thread(lambda abandoned: _glob(args, context, abandoned), self._threads)


def _glob(args: GlobArgs, context: ToolContext, abandoned: threading.Event) -> str:
    wildcard = Wildcard(args.pattern)
    tree = Tree(roots=context.readable_dirs, path=args.path, abandoned=abandoned)
    prefix = "" if args.path in {".", "./"} else args.path.rstrip("/") + "/"
    lines, count = [], 0
    for file in tree.files():
        if wildcard.matches(file.path):
            count += 1
            if count <= args.limit:
                lines.append(prefix + file.path)
    if count > args.limit:
        lines.append(f"[{args.limit:,} of {count:,} files]")
    if not tree.is_whole:
        lines.append("[there is more than could be looked at; name a deeper path]")
    return "\n".join(lines) or f"no file matches {args.pattern}"
