"""Commands that run on after their call: a few a session, each for a bounded time.

What there is of them stands in files below the session's own directory, which the agent can read
and not write: the command, the process, how it ended, and its output. Any worker of this machine
can so tell and stop what another one has started. They end with the worker that started them, when
people stop the session, and when it is deleted.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from clawbot.errors import StoreUnavailable, ToolError
from clawbot.ports import Clock, Store, ToolContext
from clawbot.session_key import SessionKey
from clawbot.store import sessions
from clawbot.store.topics import STOPS
from clawbot.tools import commands
from clawbot.tools.sandbox import environment

FOLDER = "background"
MOST_KEPT = 20
MOST_OUTPUT_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 16
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A command that was started. ticks: when its process began, by which a reused pid is known.

    ending: how it ended; "" = it runs, or nobody was there to see its end.
    """

    id: str
    command: str
    pid: int
    ticks: str
    ending: str

    @property
    def is_running(self) -> bool:
        """Whether its process lives. Blocks for a moment."""
        return not self.ending and bool(self.ticks) and _ticks(self.pid) == self.ticks

    @property
    def state(self) -> str:
        """In a few words."""
        return self.ending or ("running" if self.is_running else "ended with its worker")


class Background:
    """The commands that this worker has started; `life_s` is the longest that one may run."""

    def __init__(self, clock: Clock, *, at_once: int, life_s: float) -> None:
        self._clock = clock
        self._at_once = at_once
        self._life_s = life_s
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(
        self, line: Sequence[str], command: str, cwd: Path | None, context: ToolContext
    ) -> str:
        """Start a command; the text for the model."""
        root = context.session_dir / FOLDER
        running = await asyncio.to_thread(running_in, root)
        if len(running) >= self._at_once:
            ids = ", ".join(running)
            raise ToolError(f"{len(running)} commands run in the background already: {ids}")
        stop_seq = await _stop_seq(context.store, context.session)
        folder = root / secrets.token_hex(3)
        file = await asyncio.to_thread(_make, folder)
        try:
            process = await commands.start(line, cwd=cwd, env=environment())
        except BaseException:
            file.close()
            raise
        watched = self._watch(process, file, folder, context.store, context.session, stop_seq)
        task = asyncio.create_task(watched, name=f"background {folder.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.to_thread(_note, folder, command, process.pid)
        return (
            f"{folder.name} runs in the background; its output grows in the file "
            f"{FOLDER}/{folder.name}/output, which read_file shows"
        )

    async def close(self) -> None:
        """End all of them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(
        self,
        process: asyncio.subprocess.Process,
        file: BinaryIO,
        folder: Path,
        store: Store,
        session: SessionKey,
        stop_seq: int,
    ) -> None:
        """Write down what a command prints until it ends, its time is over or people stop it."""
        ending = "ended with its worker"
        stopped = asyncio.create_task(_stopped(store, session, stop_seq), name="stop of background")
        printed = asyncio.create_task(_pump(process, file), name="output of background")
        try:
            done, _ = await asyncio.wait(
                {printed, stopped}, timeout=self._life_s, return_when=asyncio.FIRST_COMPLETED
            )
            if stopped in done:
                ending = "stopped"
            elif not done:
                ending = f"ended after {self._life_s:g} s"
            else:
                commands.kill_group(process.pid)  # it has ended, or its files are deleted
                ending = f"exit code {await commands.code_of(process)}"
        finally:
            commands.kill_group(process.pid)
            for task in (stopped, printed):
                task.cancel()
            await commands.code_of(process)
            file.close()
            await asyncio.to_thread(_end, folder, ending)


async def _pump(process: asyncio.subprocess.Process, file: BinaryIO) -> None:
    """Write output into a file until there is no more, or the file is deleted."""
    written = 0
    stream = process.stdout
    while stream is not None and (data := await stream.read(_CHUNK_BYTES)):
        written += len(data)
        if written <= MOST_OUTPUT_BYTES and not await asyncio.to_thread(_write, file, data):
            return
    if process.returncode is None:
        await commands.exited(process.pid)


async def _stopped(store: Store, session: SessionKey, stop_seq: int) -> None:
    """Return once people stop the session."""
    ear = store.listen([STOPS])
    try:
        while True:
            await ear.wait(_LOOK_S)
            with suppress(StoreUnavailable):
                if await _stop_seq(store, session) > stop_seq:
                    return
    finally:
        ear.close()


async def _stop_seq(store: Store, session: SessionKey) -> int:
    marks = await store.read(partial(sessions.stop_marks, keys=[str(session)]))
    return marks.get(str(session), (0, 0))[0]


# -- files; all of this blocks ---------------------------------------------------------------------


def begun_in(root: Path) -> list[Begun]:
    """The commands of a session, the newest first."""
    try:
        folders = sorted(root.iterdir(), key=lambda one: one.stat().st_ctime_ns, reverse=True)
    except OSError:
        return []
    return [found for folder in folders if (found := _read(folder)) is not None]


def running_in(root: Path) -> list[str]:
    """The ids of a session's commands that run."""
    return [one.id for one in begun_in(root) if one.is_running]


def end_by_force(one: Begun) -> bool:
    """Kill a command, whichever worker has started it; False if it does not run."""
    if not one.is_running:
        return False
    commands.kill_group(one.pid)
    return True


def _read(folder: Path) -> Begun | None:
    try:
        noted = json.loads((folder / "command").read_text(encoding="utf-8"))
        ended = folder / "ending"
        return Begun(
            id=folder.name,
            command=noted["command"],
            pid=noted["pid"],
            ticks=noted["ticks"],
            ending=ended.read_text(encoding="utf-8") if ended.exists() else "",
        )
    except (OSError, ValueError, KeyError):
        return None


def _make(folder: Path) -> BinaryIO:
    folder.mkdir(mode=0o700, parents=True)
    for old in begun_in(folder.parent)[MOST_KEPT:]:
        if not old.is_running:
            shutil.rmtree(folder.parent / old.id, ignore_errors=True)
    return (folder / "output").open("wb", buffering=0)


def _note(folder: Path, command: str, pid: int) -> None:
    noted = {"command": command, "pid": pid, "ticks": _ticks(pid)}
    (folder / "command").write_text(json.dumps(noted), encoding="utf-8")


def _end(folder: Path, ending: str) -> None:
    with suppress(OSError):  # deleted with its session
        (folder / "ending").write_text(ending, encoding="utf-8")


def _write(file: BinaryIO, data: bytes) -> bool:
    if os.fstat(file.fileno()).st_nlink == 0:
        return False
    file.write(data)
    return True


def _ticks(pid: int) -> str:
    """When a process began, in the kernel's ticks; "" if there is none."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]
