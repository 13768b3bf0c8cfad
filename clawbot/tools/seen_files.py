"""In which state a session last saw the files that it works on, so that it does not write over what
somebody else wrote meanwhile.

A file is seen when it is read or written by the tools that do so; what a shell command or a helper
reads is not the session's to remember. What is kept is small, bounded, and beside the session's
other files: without it (on another host, or when the disk refuses) a file counts as never seen, and
writing it is not held up. Blocking; for threads.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from clawbot.errors import ToolError

FOLDER = "_seen"
MOST_FILES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A file at a moment: its real path, and what differs once it was changed."""

    path: str
    stamp: str

    @classmethod
    def of(cls, fd: int, status: os.stat_result, name: str = "") -> Sight | None:
        """That of an open file, or of the file `name` in an open directory."""
        try:
            path = Path(f"/proc/self/fd/{fd}").readlink()
        except OSError:  # a system without it
            return None
        stamp = f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
        return cls(path=str(path / name), stamp=stamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFiles:
    """What one session has seen, a small file each below `folder`."""

    folder: Path
    most: int = MOST_FILES

    def note(self, sight: Sight | None) -> None:
        """The session has seen this."""
        if sight is None:
            return
        with suppress(OSError):
            place = self._place(sight)
            if not place.exists():
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._prune()
            fresh = self.folder / f".{secrets.token_hex(8)}"
            fresh.write_text(sight.stamp, encoding="ascii")
            fresh.replace(place)

    def knows(self, sight: Sight | None) -> bool | None:
        """Whether this is how the session last saw the file; None = it never saw it."""
        if sight is None:
            return None
        try:
            return self._place(sight).read_text(encoding="ascii") == sight.stamp
        except (OSError, ValueError):
            return None

    def check(self, path: str, sight: Sight | None) -> None:
        """Raise ToolError if the file was changed since the session saw it."""
        if self.knows(sight) is False:
            raise ToolError(
                f"{path}: was changed by somebody else, or by a command, since you last read or "
                "wrote it; nothing was written. Read it again, and write what keeps that change."
            )

    def _place(self, sight: Sight) -> Path:
        return self.folder / hashlib.sha256(os.fsencode(sight.path)).hexdigest()[:32]

    def _prune(self) -> None:
        with os.scandir(self.folder) as found:
            files = sorted((entry.stat().st_mtime_ns, entry.path) for entry in found)
        for _, path in files[: max(0, len(files) - self.most + 1)]:
            with suppress(FileNotFoundError):
                Path(path).unlink()


@runtime_checkable
class Seeing(Protocol):
    """A context whose session remembers what it has seen; None = it does not."""

    seen: SeenFiles | None


def seen_of(context: object) -> SeenFiles:
    """What the session of a context has seen; of one that remembers nothing, nothing."""
    seen = context.seen if isinstance(context, Seeing) else None
    return seen or SeenFiles(folder=Path(os.devnull))
