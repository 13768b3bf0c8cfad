"""clawbot's commands as real processes that begin at once: forks of one that has loaded all.

The matrix needs hundreds of them, and loading takes some seconds of processor time each. What is
forked has not begun anything: no event loop, no thread, no open store.

    python -m tests.matrix.nursery [MODULE:NAME]

reads one order a line from standard input and says one line when a process has begun and one when
it has ended. With its input it ends, and all that it has begun. The function MODULE:NAME does
nothing in them: so it is tried whether the matrix notices a fault.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import random
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from select import select
from typing import Any, Self

from clawbot.agent import tokens
from tests.matrix.points import Executioner, all_points, install

LOADED = (
    *("clawbot.cli", "clawbot.daemon", "clawbot.parts.worker", "clawbot.parts.adapter"),
    *("clawbot.agent.openai_models", "openai.resources.chat", "openai.resources.responses"),
)
PR_SET_PDEATHSIG = 1
LOOK_S = 0.01


# -- the side of the tests -------------------------------------------------------------------------


class Born:
    """One running command, its output in a file. `code` is its exit code, negative = a signal."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid = pid
        self.log = log
        self.code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return not self.code.done()

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still at its point."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rpartition(")")[2].split()[0] == "T"

    def send(self, number: int) -> None:
        """Send it a signal, if it lives."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def text(self) -> str:
        """What it printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


class Nursery:
    """The process that forks. Use it as `with Nursery() as nursery`, and then, in any event loop,
    one after another, as `async with nursery.used()`. broken: see the module.
    """

    def __init__(self, broken: str = "") -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-m", "tests.matrix.nursery", *([broken] if broken else [])),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._births: deque[asyncio.Future[Born]] = deque()
        self._logs: deque[Path] = deque()
        self._living: dict[int, Born] = {}
        self._heard = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    @asynccontextmanager
    async def used(self) -> AsyncIterator[Self]:
        """Hear it in this loop; at the end everything that was begun here is killed."""
        assert self._process.stdout is not None
        loop = asyncio.get_running_loop()
        loop.add_reader(self._process.stdout, self._hear)
        try:
            yield self
        finally:
            living = list(self._living.values())
            for born in living:
                born.send(signal.SIGKILL)
            await asyncio.gather(*(born.code for born in living))
            loop.remove_reader(self._process.stdout)

    async def bear(
        self, arguments: tuple[str, ...], log: Path, folder: Path, environ: Mapping[str, str]
    ) -> Born:
        """Begin a command; it looks for its orders in the folder."""
        assert self._process.stdin is not None
        birth: asyncio.Future[Born] = asyncio.get_running_loop().create_future()
        self._births.append(birth)
        self._logs.append(log)
        order = {"arguments": arguments, "log": str(log), "folder": str(folder)}
        line = json.dumps({**order, "environ": dict(environ)}).encode() + b"\n"
        self._process.stdin.write(line)
        return await birth

    def _hear(self) -> None:
        assert self._process.stdout is not None
        data = os.read(self._process.stdout.fileno(), 65536)
        if not data:
            asyncio.get_running_loop().remove_reader(self._process.stdout)
            for birth in self._births:
                birth.set_exception(RuntimeError("the nursery has ended"))
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "born" in said:
                born = self._living[said["born"]] = Born(said["born"], self._logs.popleft())
                self._births.popleft().set_result(born)
            else:
                self._living.pop(said["ended"]).code.set_result(said["code"])


# -- the process -----------------------------------------------------------------------------------


def main(broken: str = "") -> None:
    """Load, then fork as told."""
    executioner = Executioner()
    for name in LOADED:
        import_module(name)
    if broken:
        _break(broken)
    install(all_points(), executioner)
    vocabulary = tokens.load_encode()
    tokens.load_encode = lambda: vocabulary  # the longest part of a worker's start
    gc.collect()
    gc.freeze()
    living: set[int] = set()
    buffer = b""
    while True:
        for pid in list(living):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                living.discard(pid)
                _say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})
        if not select([0], [], [], LOOK_S if living else None)[0]:
            continue
        data = os.read(0, 65536)
        if not data:
            break
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            living.add(_fork(json.loads(line), executioner))
    for pid in living:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _break(target: str) -> None:
    async def nothing(*_args: object, **_keywords: object) -> None:
        pass

    module, _, path = target.partition(":")
    owner, _, name = path.rpartition(".")
    setattr(getattr(import_module(module), owner), name, nothing)


def _fork(order: Mapping[str, Any], executioner: Executioner) -> int:
    pid = os.fork()
    if pid:
        _say({"born": pid})
        return pid
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.environ.update(order["environ"])
        random.seed()
        executioner.folder = Path(order["folder"])
        sys.argv = ["clawbot", *order["arguments"]]
        import_module("clawbot.cli").main()
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:  # noqa: BLE001 - whatever it is, no fork may go on as the nursery
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def _say(what: Mapping[str, int]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
