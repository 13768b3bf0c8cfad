"""Runs one command to its end, and ends it: nothing that it has started goes on, whatever happens.

What it prints is read as it comes and kept in bounded memory: the beginning and the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CHUNK_BYTES = 1 << 16
_DRAIN_S = 1.0
_TOLD_S = 0.005
_SAMPLE_BYTES = 8192


class Output:
    """The first and the last half of at most about `most_bytes` of what a command prints."""

    def __init__(self, most_bytes: int) -> None:
        self.size = 0
        self._half = most_bytes // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def add(self, data: bytes) -> None:
        """Take what comes next."""
        self.size += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_size += len(data)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._half:
            self._tail_size -= len(self._tail.popleft())

    def text(self) -> str:
        """It as text, with a line in the middle that says what is left out."""
        if b"\x00" in self._head[:_SAMPLE_BYTES]:
            return f"(binary output of {self.size:,} bytes)"
        kept = len(self._head) + self._tail_size
        tail = b"".join(self._tail)
        if kept == self.size:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        left_out = f"[… {self.size - kept:,} of {self.size:,} bytes are left out here …]"
        head = self._head.decode("utf-8", "replace")
        return f"{head}\n{left_out}\n{tail.decode('utf-8', 'replace')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a command ended. code: None = it was ended because it took too long; negative = by a
    signal.
    """

    output: Output
    code: int | None


async def start(
    line: Sequence[str], *, cwd: Path | None, env: Mapping[str, str]
) -> asyncio.subprocess.Process:
    """Start a command in a process group of its own; its output is to be read from `stdout`."""
    return await asyncio.create_subprocess_exec(
        *line,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        cwd=cwd,
        env=dict(env),
    )


async def run(
    line: Sequence[str],
    *,
    cwd: Path | None,
    env: Mapping[str, str],
    timeout_s: float,
    most_bytes: int,
) -> Finished:
    """Run a command until it ends or its time is over."""
    output = Output(most_bytes)
    process = await start(line, cwd=cwd, env=env)
    reader = asyncio.create_task(read_into(output, process), name="command output")
    try:
        is_late = False
        try:
            async with asyncio.timeout(timeout_s):
                await exited(process.pid)
        except TimeoutError:
            is_late = True
        # What it left running would keep the pipe open.
        kill_group(process.pid)
        await asyncio.wait([reader], timeout=_DRAIN_S)
    finally:
        kill_group(process.pid)
        reader.cancel()
        code = await code_of(process)
    return Finished(output=output, code=None if is_late else code)


async def exited(pid: int) -> None:
    """Wait until a child ends, whoever holds its output open."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, ended.cancel)
    try:
        await asyncio.wait([ended])
    finally:
        loop.remove_reader(fd)
        os.close(fd)


async def code_of(process: asyncio.subprocess.Process) -> int:
    """Wait until a process has ended and let go of its output, whoever else holds that open.

    `Process.wait` waits for the end of the output too, if it is called before the exit is known:
    for ever, where something that left the process group has it.
    """
    if process.returncode is None:
        await exited(process.pid)
    while process.returncode is None:  # noqa: ASYNC110
        await asyncio.sleep(_TOLD_S)  # until the loop is told, a moment later
    # Nothing public closes the pipe.
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001
    return process.returncode


async def read_into(output: Output, process: asyncio.subprocess.Process) -> None:
    """Read all that a process prints."""
    stream = process.stdout
    while stream is not None and (data := await stream.read(_CHUNK_BYTES)):
        output.add(data)


def kill_group(pid: int) -> None:
    """Kill a process group and what its leader has started outside it; nothing if there is none.

    A sandbox that has just begun does not yet end with its parent. So the group is held still
    first: then nobody is born while those who must die are counted.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGSTOP)
    for one in _descendants(pid):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """The children of a process and theirs; none where the kernel does not tell."""
    found = []
    with suppress(OSError):
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        for child in map(int, listed.split()):
            found += [child, *_descendants(child)]
    return found
