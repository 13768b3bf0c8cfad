"""grep: the lines of files that match a regular expression.

An expression can take for ever on a harmless line. Each line has little time and the whole search
not much more; what takes longer is an error that says so.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, ClassVar

import regex  # type: ignore[import-untyped]  # ships no types
from pydantic import BaseModel, Field

from clawbot.errors import ToolError
from clawbot.ports import Clock, ToolContext
from clawbot.tools.encodings import binary_kind, decode_slice
from clawbot.tools.files import open_file
from clawbot.tools.threads import in_thread
from clawbot.tools.trees import Tree
from clawbot.tools.wildcards import Wildcard

SEARCH_S = 20.0
LINE_S = 1.0
SHOWN_CHARS = 300
_SAMPLE_BYTES = 8192
_BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 8 << 20


class GrepArgs(BaseModel):
    """What `grep` takes."""

    pattern: str = Field(
        min_length=1, max_length=1000, description="A regular expression, matched within a line."
    )
    path: str = Field(
        default=".",
        min_length=1,
        max_length=4096,
        description="The file or directory to search, relative to the work directory.",
    )
    files: str = Field(
        default="", max_length=500, description="Only in files of this pattern, such as *.py."
    )
    ignore_case: bool = False
    context: int = Field(default=0, ge=0, le=10, description="How many lines around to show.")
    only_names: bool = Field(
        default=False, description="Whether to show only the files that match, not the lines."
    )
    limit: int = Field(default=100, ge=1, le=1000, description="How many matches at most.")


class Grep:
    """The tool; `threads` are those that searches share."""

    name: ClassVar[str] = "grep"
    description: ClassVar[str] = (
        "Search files for a regular expression; shows path:line:text. Binary files, version "
        "control and package directories are left out."
    )
    Args: ClassVar[type[BaseModel]] = GrepArgs

    def __init__(self, threads: Executor, clock: Clock) -> None:
        self._threads = threads
        self._clock = clock

    async def run(self, args: GrepArgs, context: ToolContext) -> str:
        """Search in a thread."""
        return await in_thread(
            lambda abandoned: self._grep(args, context, abandoned), self._threads
        )

    def _grep(self, args: GrepArgs, context: ToolContext, abandoned: threading.Event) -> str:
        try:
            pattern = regex.compile(args.pattern, regex.IGNORECASE if args.ignore_case else 0)
        except (regex.error, ValueError, OverflowError, RecursionError) as error:
            raise ToolError(f"the pattern cannot be read: {error}") from error
        search = _Search(
            args=args,
            pattern=pattern,
            clock=self._clock,
            ends=self._clock.monotonic() + SEARCH_S,
            abandoned=abandoned,
        )
        try:
            search.run(context)
        except TimeoutError as error:
            raise ToolError(
                f"the search took too long, in {search.where or args.path}; take a simpler pattern "
                "or fewer files\n" + search.told()
            ) from error
        return search.told()


@dataclass(slots=True, kw_only=True)
class _Search:
    """One search. matches: how many lines (or files) were found; it ends at the limit."""

    args: GrepArgs
    pattern: Any
    clock: Clock
    ends: float
    abandoned: threading.Event
    lines: list[str] = field(default_factory=list)
    matches: int = 0
    where: str = ""
    is_whole: bool = True

    def run(self, context: ToolContext) -> None:
        if _is_file(context, self.args.path):
            with open_file(context.readable_dirs, self.args.path) as file:
                self._search(self.args.path, file.fileno())
            return
        tree = Tree(roots=context.readable_dirs, path=self.args.path, abandoned=self.abandoned)
        wanted = Wildcard(self.args.files) if self.args.files else None
        prefix = "" if self.args.path in {".", "./"} else self.args.path.rstrip("/") + "/"
        for found in tree.files():
            if wanted is not None and not wanted.matches(found.path):
                continue
            fd = found.open()
            if fd is None:
                continue
            try:
                self._search(prefix + found.path, fd)
            finally:
                os.close(fd)
            if self.matches >= self.args.limit:
                break
        self.is_whole = tree.is_whole

    def told(self) -> str:
        """What was found, as the model reads it."""
        notes = []
        if self.matches >= self.args.limit:
            notes.append(f"[the first {self.matches:,} matches; there may be more]")
        if not self.is_whole:
            notes.append("[there is more than could be searched; name a deeper path]")
        return "\n".join([*self.lines, *notes]) or f"nothing matches {self.args.pattern}"

    def _search(self, path: str, fd: int) -> None:
        self.where = path
        before: deque[tuple[int, str]] = deque(maxlen=self.args.context)
        after = shown_through = 0
        for number, line in _lines(fd):
            if self._is_match(line):
                self.matches += 1
                if self.args.only_names:
                    self.lines.append(path)
                    return
                if self.args.context and self.lines and shown_through < number - len(before) - 1:
                    self.lines.append("--")
                self.lines += [f"{path}-{n}-{self._cut(text)}" for n, text in before]
                before.clear()
                self.lines.append(f"{path}:{number}:{self._cut(line)}")
                shown_through, after = number, self.args.context
            elif after:
                self.lines.append(f"{path}-{number}-{self._cut(line)}")
                shown_through, after = number, after - 1
            else:
                before.append((number, line))
            if self.matches >= self.args.limit and not after:
                return

    def _is_match(self, line: str) -> bool:
        if self.abandoned.is_set():
            raise ToolError("the search was ended before it was done")
        left = self.ends - self.clock.monotonic()
        if left <= 0:
            raise TimeoutError
        return self.pattern.search(line, timeout=min(left, LINE_S)) is not None

    def _cut(self, line: str) -> str:
        """A line, of a long one what is around the match."""
        if len(line) <= SHOWN_CHARS:
            return line
        found = self.pattern.search(line, timeout=LINE_S)
        start = max(0, (found.start() if found else 0) - SHOWN_CHARS // 3)
        end = start + SHOWN_CHARS
        return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")


def _is_file(context: ToolContext, path: str) -> bool:
    try:
        with open_file(context.readable_dirs, path):
            return True
    except ToolError:
        return False  # a directory, or what `Tree` will refuse in its own words


def _lines(fd: int) -> Iterator[tuple[int, str]]:
    """The numbered lines of a text file, none of a binary one."""
    rest, number = b"", 0
    with os.fdopen(fd, "rb", closefd=False) as file:
        block = file.read(_SAMPLE_BYTES)
        if binary_kind(block):
            return
        while block:
            whole, end, rest = (rest + block).rpartition(b"\n")
            if end:
                text = decode_slice(whole)[0]
                for line in text.split("\n"):
                    number += 1
                    yield number, line.removesuffix("\r")
            block = file.read(_BLOCK_BYTES)
            if len(rest) > _LONGEST_LINE:  # a line that is too long is searched in pieces
                text = decode_slice(rest)[0]
                yield number + 1, text
                rest = b""
    if rest:
        text = decode_slice(rest)[0]
        yield number + 1, text.removesuffix("\r")
