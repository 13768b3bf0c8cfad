"""read_file: a slice of a text file, without loading the rest of it."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import BinaryIO, ClassVar

from pydantic import BaseModel, Field

from clawbot.errors import ToolError
from clawbot.ports import ToolContext
from clawbot.tools.encodings import binary_kind, decode_slice
from clawbot.tools.files import open_file
from clawbot.tools.seen_files import Sight, seen_of
from clawbot.tools.threads import in_thread

_SAMPLE_BYTES = 8192
_CHUNK_BYTES = 1 << 20
# Beyond this the lines after the slice are not counted.
_COUNTED_BYTES = 16 << 20


class ReadFileArgs(BaseModel):
    """What `read_file` takes."""

    path: str = Field(
        description="The file, relative to the work directory.", min_length=1, max_length=4096
    )
    offset: int = Field(default=1, ge=1, description="The line to begin with, from 1.")
    limit: int = Field(default=2000, ge=1, le=20_000, description="How many lines at most.")
    column: int = Field(
        default=1, ge=1, description="The byte of that line to begin with, for very long lines."
    )
    line_numbers: bool = Field(default=False, description="Whether to number the lines.")


class ReadFile:
    """The tool; `max_bytes` bounds what one call returns of a file."""

    name: ClassVar[str] = "read_file"
    description: ClassVar[str] = (
        "Read a text file of the work directory. Long files come in slices: the last line of the "
        "result says how to go on."
    )
    Args: ClassVar[type[BaseModel]] = ReadFileArgs

    def __init__(self, *, max_bytes: int = 30_000) -> None:
        self._max_bytes = max_bytes

    async def run(self, args: ReadFileArgs, context: ToolContext) -> str:
        """Read the slice in a thread."""
        return await in_thread(lambda abandoned: self._read(args, context, abandoned))

    def _read(self, args: ReadFileArgs, context: ToolContext, abandoned: threading.Event) -> str:
        with open_file(context.readable_dirs, args.path) as file:
            status = os.fstat(file.fileno())
            size = status.st_size
            seen_of(context).note(Sight.of(file.fileno(), status))
            sample = file.read(_SAMPLE_BYTES)
            if not sample:
                return f"({args.path} is empty)"
            kind = binary_kind(sample)
            if kind:
                raise ToolError(
                    f"{args.path}: {kind} of {size:,} bytes; it cannot be shown as text"
                )
            file.seek(0)
            scan = _Scan(file, abandoned)
            scan.skip_lines(args.offset - 1)
            scan.skip_bytes(args.column - 1)
            cut = scan.take_lines(args.limit, self._max_bytes)
            if not cut.lines:
                lines = f"{scan.line:,} lines" if scan.line != 1 else "1 line"
                raise ToolError(f"{args.path}: has {lines}, none at offset {args.offset:,}")
            is_small = size - file.tell() <= _COUNTED_BYTES
            total = args.offset - 1 + cut.lines + scan.count_lines() if is_small else None
        text, encoding, used = decode_slice(cut.raw)
        if args.line_numbers:
            text = _numbered(text, args.offset)
        return text + _footer(args, cut, total, size, encoding, used)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """A slice of a file: its bytes, how many lines they are, whether the last one goes on."""

    raw: bytes
    lines: int
    is_broken: bool


class _Scan:
    """Goes through a file in pieces, and stops between them when it is abandoned.

    line: how many lines lie behind.
    """

    def __init__(self, file: BinaryIO, abandoned: threading.Event) -> None:
        self._file = file
        self._abandoned = abandoned
        self.line = 0

    def skip_lines(self, count: int) -> None:
        """Go to the beginning of the line after the next `count`, or to the end of the file."""
        last = b"\n"
        while self.line < count:
            chunk = self._chunk()
            if not chunk:
                self.line += last != b"\n"
                return
            last = chunk[-1:]
            found = chunk.count(b"\n")
            if self.line + found < count:
                self.line += found
                continue
            end = -1
            for _ in range(count - self.line):
                end = chunk.index(b"\n", end + 1)
            self._file.seek(end + 1 - len(chunk), os.SEEK_CUR)
            self.line = count

    def skip_bytes(self, count: int) -> None:
        """Go on within a line. Raise ToolError if it is not that long."""
        while count:
            piece = self._file.readline(min(count, _CHUNK_BYTES))
            self._check()
            count -= len(piece)
            if not piece or (piece.endswith(b"\n") and count):
                raise ToolError("the line is not that long: there is nothing at this column")

    def take_lines(self, limit: int, max_bytes: int) -> _Cut:
        """Read whole lines as long as they fit; of a first one that does not, its beginning."""
        lines: list[bytes] = []
        room = max_bytes
        while len(lines) < limit:
            line = self._file.readline(room + 1)
            if len(line) > room and not lines:
                self._skip_rest_of_line(line)
                return _Cut(raw=line[:room], lines=1, is_broken=True)
            if not line or len(line) > room:
                self._file.seek(-len(line), os.SEEK_CUR)
                break
            lines.append(line)
            room -= len(line)
        return _Cut(raw=b"".join(lines), lines=len(lines), is_broken=False)

    def count_lines(self) -> int:
        """How many lines there are from here to the end."""
        count, last = 0, b"\n"
        while chunk := self._chunk():
            count += chunk.count(b"\n")
            last = chunk[-1:]
        return count + (last != b"\n")

    def _skip_rest_of_line(self, line: bytes) -> None:
        while line and not line.endswith(b"\n"):
            line = self._file.readline(_CHUNK_BYTES)
            self._check()

    def _chunk(self) -> bytes:
        self._check()
        return self._file.read(_CHUNK_BYTES)

    def _check(self) -> None:
        if self._abandoned.is_set():
            raise ToolError("reading was ended before it was done")


def _numbered(text: str, first: int) -> str:
    lines = text.removesuffix("\n").split("\n")
    width = len(str(first + len(lines) - 1))
    return "\n".join(f"{number:>{width}}  {line}" for number, line in enumerate(lines, first))


def _footer(
    args: ReadFileArgs, cut: _Cut, total: int | None, size: int, encoding: str, used: int
) -> str:
    """A last line about what is not shown, empty if nothing is."""
    first = args.offset
    last = first + cut.lines - 1
    notes = []
    if cut.is_broken:
        end = args.column - 1 + used
        shown = f"only its bytes {args.column:,}-{end:,} are shown"
        notes.append(f"line {first:,} is too long, {shown}, offset={first} column={end + 1} go on")
    if total is None:
        notes.append(f"lines {first:,}-{last:,} of a file of {size:,} bytes")
    elif first > 1 or last < total:
        notes.append(f"lines {first:,}-{last:,} of {total:,}")
    if total is None or last < total:
        notes.append(f"go on with offset={last + 1}")
    if encoding:
        notes.append(f"decoded as {encoding}")
    return f"\n[{'; '.join(notes)}]" if notes else ""
