"""Wake-ups between the processes of one machine: a datagram socket each.

Ringing sends the topic to every other bell in the folder, and tells this process's own listeners
directly. It only saves waiting: a lost ring (a full socket, a process that is just starting) costs
at most the second after which everybody looks again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import socket
import stat
import tempfile
from collections.abc import Set as AbstractSet
from pathlib import Path

import structlog

from clawbot.errors import StartupError, startup_error_of
from clawbot.store.ears import Ears

log = structlog.get_logger(__name__)

_LONGEST_SOCKET_PATH = 100  # bytes; sun_path holds 108 on Linux, 104 on BSD and macOS


def bell_folder(state_dir: Path) -> Path:
    """Where the bells of a state directory hang: inside it, or, when its path is too long for a
    socket's address, in a private folder below the system's temporary directory.
    """
    inside = state_dir / "bells"
    if len(os.fsencode(inside.resolve())) + 40 < _LONGEST_SOCKET_PATH:
        return inside
    name = hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"clawbot-{os.getuid()}-{name}"


class Doorbell:
    """This process's bell, and the way to ring the others'."""

    def __init__(self, folder: Path, path: Path, sock: socket.socket) -> None:
        self.ears = Ears()
        self._folder = folder
        self._path = path
        self._socket = sock
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.settimeout(0)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._hear)

    @classmethod
    async def open(cls, folder: Path, process_id: str) -> Doorbell:
        """Hang up a bell for this process. Raise StartupError."""

        def bind() -> tuple[Path, socket.socket]:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.stat()
            if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
                raise StartupError(f"directory {folder}: not private to this user; remove it")
            name = hashlib.sha256(process_id.encode()).hexdigest()[:16]
            path = folder / f"{name}.sock"
            path.unlink(missing_ok=True)
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            sock.settimeout(0)
            sock.bind(str(path))
            return path, sock

        try:
            path, sock = await asyncio.to_thread(bind)
        except OSError as error:
            hint = "" if error.strerror else "; set TMPDIR to a shorter path"  # as Python says it
            raise startup_error_of(error)(
                f"doorbell in {folder}: {error.strerror or error}{hint}"
            ) from error
        return cls(folder, path, sock)

    def ring(self, topics: AbstractSet[str]) -> None:
        """Wake all who listen to one of `topics`. Never blocks; may be called from any thread."""
        line = "\n".join(sorted(topics)).encode()
        if not line:
            return
        if not self.ears.topics.isdisjoint(topics):
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.ears.ring, topics)
        try:
            # Not by a glob, which looks at the folder itself too: this runs after every commit.
            for name in os.listdir(self._folder):  # noqa: PTH208
                if name.endswith(".sock") and name != self._path.name:
                    self._send(line, f"{self._folder}/{name}")
        except OSError as error:
            # Such as too many open files: the writer thread, which rings, must go on.
            log.warning("doorbell_failed", error=error.strerror)

    def _send(self, line: bytes, bell: str) -> None:
        try:
            self._sender.sendto(line, bell)
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                Path(bell).unlink(missing_ok=True)  # its process was killed
            elif error.errno not in {errno.EAGAIN, errno.ENOENT, errno.ENOBUFS}:
                log.warning("doorbell_failed", error=error.strerror)

    async def close(self) -> None:
        """Take the bell down."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._sender.close()
        await asyncio.to_thread(self._path.unlink, missing_ok=True)

    def _hear(self) -> None:
        while True:
            try:
                line = self._socket.recv(65536)
            except BlockingIOError:
                return
            topics = set(line.decode("utf-8", "replace").split("\n"))
            self.ears.ring(topics)
