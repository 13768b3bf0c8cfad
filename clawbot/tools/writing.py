"""Writes files under a turn's work directories: whole, at once, and nobody's change gets lost.

A file is written beside the old one and then takes its place, so that no reader ever sees half of
it, a hard link to somewhere else is not written through, and a link that is swapped in meanwhile is
replaced and not followed. Who reads a file to change it holds the lock of its directory from the
reading to the writing: several sessions, in several processes, may work in one.

Blocking; for threads.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from clawbot.errors import ToolError
from clawbot.tools.files import LinkedRoot, OutsideRoot, Walk, candidates, reason_of
from clawbot.tools.seen_files import Sight

LOCK_WAIT_S = 10.0
_POLL_S = 0.01
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a file is or will be: its directory, held open, and its name in it.

    exists: whether there was something of that name when the place was taken.
    """

    path: str
    directory: int
    name: str
    exists: bool

    def read(self, max_bytes: int) -> bytes:
        """All of the file. Raise ToolError if it is larger, or no regular file."""
        with _told(self.path):
            fd = os.open(self.name, _READ, dir_fd=self.directory)
        with os.fdopen(fd, "rb") as file:
            self._check(os.fstat(fd).st_mode)
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise ToolError(f"{self.path}: larger than {max_bytes:,} bytes; it cannot be edited")
        return data

    def sight(self) -> Sight | None:
        """The file as it is now; None if there is none."""
        try:
            status = os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except OSError:
            return None
        return Sight.of(self.directory, status, self.name)

    def write(self, data: bytes) -> None:
        """Put a file there, in the place of what is there. Raise ToolError."""
        fresh = f".{secrets.token_hex(8)}.tmp"
        with _told(self.path):
            mode = self._mode()
            fd = os.open(fresh, _NEW, 0o666, dir_fd=self.directory)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                    if mode is not None:
                        os.fchmod(fd, mode)
                os.replace(fresh, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
            except BaseException:
                with suppress(OSError):
                    os.unlink(fresh, dir_fd=self.directory)
                raise

    def _mode(self) -> int | None:
        """The permissions of the file that is there; None if there is none."""
        try:
            status = os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        self._check(status.st_mode)
        return stat.S_IMODE(status.st_mode) & 0o777

    def _check(self, mode: int) -> None:
        if stat.S_ISDIR(mode):
            raise ToolError(f"{self.path}: a directory, not a file")
        if not stat.S_ISREG(mode):
            raise ToolError(f"{self.path}: not a regular file (a link, pipe, socket or device)")


@contextmanager
def place_of(
    roots: Sequence[Path], path: str, abandoned: threading.Event, *, makes_dirs: bool
) -> Iterator[Place]:
    """The place of a file, while the lock of its directory is held.

    A relative path is looked for in each root in turn; what is nowhere belongs into the first.
    """
    if not roots:
        raise ToolError("this session has no work directory")
    if "\x00" in path:
        raise ToolError("a path cannot hold a NUL character")
    if path.endswith("/"):
        raise ToolError(f"{path}: names a directory, not a file")
    found = list(candidates(roots, path))
    root, relative = next((one for one in found if _is_there(path, *one)), found[0])
    with _told(path), Walk(root) as walk:
        name = walk.go_before(relative, makes_dirs=makes_dirs)
        with _lock(walk.fd, abandoned):
            exists = _exists(name, walk.fd)
            yield Place(path=path, directory=walk.fd, name=name, exists=exists)


def _is_there(path: str, root: Path, relative: str) -> bool:
    with _told(path), Walk(root) as walk:
        try:
            return _exists(walk.go_before(relative, makes_dirs=False), walk.fd)
        except FileNotFoundError:
            return False


def _exists(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _lock(directory: int, abandoned: threading.Event) -> Iterator[None]:
    """Hold a directory's lock, against threads and processes alike; the system frees it however we
    end. It is held for moments; who sees it held for long is told.
    """
    # Of its own: a lock belongs to the opening of a file.
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        for _ in range(round(LOCK_WAIT_S / _POLL_S)):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if abandoned.wait(_POLL_S):
                    raise ToolError("writing was ended before it began") from None
            else:
                break
        else:
            raise ToolError("somebody else is writing in this directory; try again later")
        yield
    finally:
        os.close(fd)


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Failures of the system as a ToolError that names the path as the model gave it."""
    try:
        yield
    except OutsideRoot as error:
        raise ToolError(f"{path}: outside of the work directory", kind="outside") from error
    except FileNotFoundError as error:
        raise ToolError(
            f"{path}: no such file; list_dir shows what there is", kind="missing"
        ) from error
    except OSError as error:
        if error.errno == errno.ELOOP and not isinstance(
            error, LinkedRoot
        ):  # O_NOFOLLOW: it has become a link
            raise ToolError(f"{path}: was changed meanwhile; try again") from error
        raise ToolError(f"{path}: {reason_of(error)}") from error
    except UnicodeEncodeError as error:  # characters that no file name can hold
        raise ToolError(f"{path}: not a usable path") from error
