"""Opens files and directories under a turn's directories, and nothing else.

A path is walked one component at a time, each opened relative to the directory before it and
without following links (`openat` with O_NOFOLLOW), so that nothing that is renamed or replaced by a
link meanwhile leads outside. Links are resolved here, by the same walk: they may point anywhere
inside of their root, never out of it and never to an absolute path. `..` goes back to the directory
the walk came from. A hard link is the file itself and cannot be told from one.

Blocking; for threads. Everything is refused as a ToolError that names the path as the model gave
it, never a path of the host.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from clawbot.errors import ToolError
from clawbot.state_dir import PRIVATE_MARK

MAX_LINKS = 40
# Each directory on the way is held open.
MAX_DEPTH = 100
_PASSED = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# A pipe or device must not hold up the opening, nor become our terminal.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def open_file(roots: Sequence[Path], path: str) -> Iterator[BinaryIO]:
    """A regular file, for reading."""
    fd = _open(roots, path, _FILE)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise ToolError(f"{path}: a directory, not a file; list_dir shows what is in it")
        if not stat.S_ISREG(mode):
            raise ToolError(f"{path}: not a regular file (a pipe, socket or device)")
        with os.fdopen(fd, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(fd)


@contextmanager
def open_directory(roots: Sequence[Path], path: str) -> Iterator[int]:
    """A directory, as a file descriptor for `os.scandir`."""
    fd = _open(roots, path, _DIRECTORY | os.O_NOFOLLOW)
    try:
        yield fd
    finally:
        os.close(fd)


def is_private(fd: int) -> bool:
    """Whether a directory is clawbot's own: it may lie in one that people work in."""
    try:
        os.stat(PRIVATE_MARK, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return False
    return True


def _open(roots: Sequence[Path], path: str, flags: int) -> int:
    """Open a path under the first root that has it.

    A relative path is looked for in each root in turn; an absolute one must begin with a root.
    """
    if not roots:
        raise ToolError("this session has no work directory")
    if "\x00" in path:
        raise ToolError("a path cannot hold a NUL character")
    missing = ToolError(
        f"{path}: no such file or directory; list_dir shows what there is", kind="missing"
    )
    for root, relative in candidates(roots, path):
        try:
            with Walk(root) as walk:
                return walk.open(relative, flags)
        except FileNotFoundError:
            continue
        except OutsideRoot as error:
            raise ToolError(f"{path}: outside of the work directory", kind="outside") from error
        except OSError as error:
            raise ToolError(f"{path}: {reason_of(error)}") from error
        except ValueError as error:  # characters that no file name can hold
            raise ToolError(f"{path}: not a usable path") from error
    raise missing


def candidates(roots: Sequence[Path], path: str) -> Iterator[tuple[Path, str]]:
    """The roots that a path may lie under, each with the path relative to it. Raise ToolError."""
    if not path.startswith("/"):
        yield from ((root, path) for root in roots)
        return
    inside = False
    for root in roots:
        prefix = str(root).rstrip("/")
        if path == prefix or path.startswith(prefix + "/"):
            inside = True
            yield root, path[len(prefix) :].lstrip("/")
    if not inside:
        raise ToolError(
            f"{path}: outside of the work directory; give a path relative to it", kind="outside"
        )


class OutsideRoot(Exception):
    """A path leads out of its root."""


class LinkedRoot(OSError):
    """A root is, or lies behind, a link."""


def open_root(root: Path) -> int:
    """Open a root; raise LinkedRoot if its path leads through a link, other OSErrors as they come.

    Links that were there when people named the root are resolved since (`load_config`,
    `work_dirs.checked_dirs`). One that is there now was put there by somebody who may write in a
    directory above it, a session of another chat perhaps, and may lead anywhere.
    """
    fd = os.open("/", _PASSED)
    try:
        for part in Path(os.path.normpath(root)).parts[1:]:
            try:
                inner = os.open(part, _PASSED | os.O_NOFOLLOW, dir_fd=fd)
            except NotADirectoryError as error:
                if _is_link(part, fd):
                    raise LinkedRoot(errno.ELOOP, os.strerror(errno.ELOOP)) from error
                raise
            os.close(fd)
            fd = inner
        return os.open(".", _DIRECTORY, dir_fd=fd)
    finally:
        os.close(fd)


def _is_link(name: str, directory: int) -> bool:
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    return stat.S_ISLNK(status.st_mode)


class Walk:
    """The directories from a root to where the walk stands, each held open."""

    def __init__(self, root: Path) -> None:
        self._held = [open_root(root)]
        self._links = 0
        if is_private(self.fd):
            os.close(self._held.pop())
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    @property
    def fd(self) -> int:
        """The directory where the walk stands; it is the walk's to close."""
        return self._held[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._held:
            os.close(fd)

    def open(self, path: str, flags: int) -> int:
        """Open what a relative path names; the caller closes the descriptor."""
        todo = _steps(path)
        must_be_directory = path.endswith("/") and not flags & os.O_DIRECTORY
        while todo:
            part = todo.pop(0)
            if part == "..":
                self._go_back()
                continue
            target = self._link_target(part)
            if target is not None:
                todo[:0] = _steps(target)
            elif todo:
                self.enter(part)
            else:
                return self._open_last(part, flags | (os.O_DIRECTORY if must_be_directory else 0))
        return os.open(".", _DIRECTORY, dir_fd=self.fd)

    def go_before(self, path: str, *, makes_dirs: bool) -> str:
        """Go to the directory that a file is or will be in, and return its name there.

        Missing directories on the way are made if `makes_dirs`.
        """
        todo = _steps(path)
        while todo:
            part = todo.pop(0)
            if part == "..":
                self._go_back()
                continue
            try:
                target = self._link_target(part)
            except FileNotFoundError:
                if not todo:
                    return part
                if not makes_dirs or ".." in todo:
                    raise
                os.mkdir(part, dir_fd=self.fd)
                target = None
            if target is not None:
                todo[:0] = _steps(target)
            elif todo:
                self.enter(part)
            else:
                return part
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))

    def _open_last(self, part: str, flags: int) -> int:
        fd = os.open(part, flags, dir_fd=self.fd)
        try:
            if flags & os.O_DIRECTORY:
                self._refuse_private(fd)
        except PermissionError:
            os.close(fd)
            raise
        return fd

    def enter(self, part: str) -> None:
        """Go into a directory of the one where the walk stands."""
        if len(self._held) > MAX_DEPTH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        self._held.append(os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd))
        self._refuse_private(self.fd)

    def _refuse_private(self, fd: int) -> None:
        if is_private(fd):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _go_back(self) -> None:
        if len(self._held) == 1:
            raise OutsideRoot
        os.close(self._held.pop())

    def _link_target(self, part: str) -> str | None:
        """Where a link points to; None for anything else.

        If a link takes the place of a file after this, O_NOFOLLOW refuses it.
        """
        try:
            target = os.readlink(part, dir_fd=self.fd)
        except OSError as error:
            if error.errno == errno.EINVAL:  # not a link
                return None
            raise
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.startswith("/"):
            raise OutsideRoot
        return target


def _steps(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


_REASONS = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ELOOP: "too many links",
    errno.ENOTDIR: "not a directory",
    errno.EISDIR: "a directory, not a file",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full",
    errno.EROFS: "it can only be read",
    errno.ENAMETOOLONG: "the path is too long",
    errno.ENXIO: "not a regular file (a pipe, socket or device)",
}


LINKED_ROOT = (
    "the work directory has become a link, which may lead anywhere; an admin must name it anew"
)


def reason_of(error: OSError) -> str:
    """In words of ours: the system's would name paths of the host."""
    if isinstance(error, LinkedRoot):
        return LINKED_ROOT
    return _REASONS.get(error.errno or 0, "it cannot be opened")
