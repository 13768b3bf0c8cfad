"""The state directory: made private at the first start, and held by one `clawbot run` at a time.

What is in it belongs to the parts (the store, the work dirs, the page's token). Nothing here waits.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clawbot.errors import StartupError, startup_error_of
from clawbot.session_key import SessionKey

LOCK_FILE = "run.lock"
PRIVATE_MARK = ".clawbot-private"
"""Tools enter no directory that holds a file of this name, wherever they may start from."""


def transcript_dir(state_dir: Path, session: SessionKey) -> Path:
    """Where a session can be read as text; see `clawbot.transcripts`."""
    return state_dir / "transcripts" / session.digest


def prepare_state_dir(path: Path) -> None:
    """Make the directory (for its owner alone) and prove that it can be written.

    Raise StartupError; StoreAway where the disk is the reason.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / PRIVATE_MARK).touch(mode=0o600)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise startup_error_of(error)(
            f"state_dir {path}: cannot be written: {error.strerror}; "
            "give the directory to clawbot's user or set another state_dir"
        ) from error


@contextmanager
def hold_state_dir(path: Path) -> Iterator[None]:
    """Be the only `clawbot run` on this directory; the system frees it however we end."""
    lock = path / LOCK_FILE
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartupError(f"{lock}: cannot be opened: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StartupError(
                f"state_dir {path}: in use by another clawbot run (pid {holder_of(path)}); "
                "stop it first, or set another state_dir"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def holder_of(path: Path) -> int | None:
    """The pid of the `clawbot run` that holds the directory; None if nobody does."""
    try:
        with (path / LOCK_FILE).open("rb") as lock:
            try:
                # Shared, so that two askers do not take each other for a holder.
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read().strip() or b"0")
    except (FileNotFoundError, NotADirectoryError):
        pass
    return None
