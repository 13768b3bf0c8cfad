"""Goes through a directory of a turn's directories and all below it, in order of names.

Directories are entered as `clawbot.tools.files` opens them: relative to the one before, never over
a link, never one of clawbot's own. What tools and packages keep for themselves is left out, unless
the walk begins there. It is bounded: what there is beyond the bounds is said to be missing.

Blocking; for threads.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clawbot.errors import ToolError
from clawbot.tools.files import is_private, open_directory

MAX_ENTRIES = 200_000
MAX_DEPTH = 60
SKIPPED = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache"}
)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A regular file of a tree. path: relative to where the walk began. It is valid only until the
    walk goes on.
    """

    path: str
    directory: int
    name: str

    def open(self) -> int | None:
        """Open it; the caller closes the descriptor. None if it is gone or no file any more."""
        try:
            fd = os.open(self.name, _FILE, dir_fd=self.directory)
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        return None


@dataclass(slots=True, kw_only=True)
class Tree:
    """The files below a directory; `is_whole` becomes False when some are left out for bounds."""

    roots: Sequence[Path]
    path: str
    abandoned: threading.Event
    is_whole: bool = True
    _seen: int = field(default=0)

    def files(self) -> Iterator[Found]:
        """Every regular file. Raise ToolError when the directory cannot be opened."""
        with open_directory(self.roots, self.path) as fd:
            yield from self._below(fd, "", 0)

    def _below(self, fd: int, prefix: str, depth: int) -> Iterator[Found]:
        directories = []
        for name, is_directory in self._entries(fd):
            if is_directory:
                directories.append(name)
            else:
                yield Found(path=prefix + shown(name), directory=fd, name=name)
        for name in directories:
            if name in SKIPPED:
                continue
            if depth >= MAX_DEPTH:
                self.is_whole = False
                continue
            try:
                inner = os.open(name, _DIRECTORY, dir_fd=fd)
            except OSError:  # gone, or not ours to read
                continue
            try:
                if not is_private(inner):
                    yield from self._below(inner, f"{prefix}{shown(name)}/", depth + 1)
            finally:
                os.close(inner)

    def _entries(self, fd: int) -> list[tuple[str, bool]]:
        """The files and directories of a directory, by name."""
        entries = []
        with os.scandir(fd) as found:
            for entry in found:
                if self.abandoned.is_set():
                    raise ToolError("the search was ended before it was done")
                if self._seen >= MAX_ENTRIES:
                    self.is_whole = False
                    break
                self._seen += 1
                is_directory = entry.is_dir(follow_symlinks=False)
                if is_directory or entry.is_file(follow_symlinks=False):
                    entries.append((entry.name, is_directory))
        return sorted(entries)


def shown(name: str) -> str:
    """A name as text: it need not be UTF-8, and may hold line ends."""
    return os.fsencode(name).decode("utf-8", "replace").replace("\n", "\\n")
