"""A session whose shell commands run for real, beside another chat's files and clawbot's own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from clawbot.clock import SystemClock
from clawbot.errors import ToolError
from clawbot.ports import Store
from clawbot.tools.background import Background
from clawbot.tools.bash import Bash, BashArgs
from clawbot.tools.process import Process, ProcessArgs
from clawbot.tools.sandbox import Bubblewrap, Sandbox, SandboxRules, Unconfined, find_sandbox
from tests.unit.tools.context import context_in

T = TypeVar("T")

WAIT_S = 20.0


class Marks:
    """A store that knows of a session only how often it was stopped."""

    def __init__(self) -> None:
        self.stop_seq = 0
        self.rung = asyncio.Event()

    async def read(self, _unit: object) -> dict[str, tuple[int, int]]:
        return {"global": (self.stop_seq, 1)}

    def listen(self, _topics: object) -> Marks:
        return self

    async def wait(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                return await self.rung.wait()
        except TimeoutError:
            return False

    def close(self) -> None: ...

    def stop(self) -> None:
        """People stop the session."""
        self.stop_seq += 1
        self.rung.set()


@dataclass(slots=True)
class Shell:
    """What a session's commands can do. state: clawbot's directory, with work/back in it."""

    folder: Path
    sandbox: Sandbox
    background: Background
    marks: Marks
    is_owner: bool = False

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def work(self) -> Path:
        return self.state / "work" / "back"

    @property
    def session_dir(self) -> Path:
        return self.state / "saved" / "back"

    def with_rules(self, **rules: Any) -> Shell:
        assert isinstance(self.sandbox, Bubblewrap)
        rules = {"hidden": self.sandbox.rules.hidden, **rules}
        sandbox = replace(self.sandbox, rules=SandboxRules(**rules))
        return replace(self, sandbox=sandbox)

    def unconfined(self, *, is_owner: bool) -> Shell:
        sandbox = Unconfined(rules=SandboxRules())
        return replace(self, sandbox=sandbox, is_owner=is_owner)

    def context(self, *work_dirs: Path) -> Any:
        return context_in(
            *(work_dirs or (self.work,)),
            is_owner=self.is_owner,
            session_dir=self.session_dir,
            store=cast("Store", self.marks),
        )

    async def run(
        self, command: str, *work_dirs: Path, most_s: float = 60, **args: Any
    ) -> tuple[str, bool]:
        """What the model is told, and whether it is an error."""
        tool = Bash(self.sandbox, self.background, most_s=most_s)
        made = BashArgs(command=command, **args)
        try:
            return await tool.run(made, self.context(*work_dirs)), False
        except ToolError as error:
            return str(error), True

    async def process(self, action: str, id_: str = "") -> str:
        made = ProcessArgs.model_validate({"action": action, "id": id_})
        return await Process().run(made, self.context())


@asynccontextmanager
async def shell_in(folder: Path, **background: float) -> AsyncIterator[Shell]:
    (folder / "state" / "work" / "back").mkdir(parents=True)
    (folder / "state" / "work" / "front").mkdir()
    (folder / "state" / "work" / "front" / "README.md").write_text("front's secret")
    (folder / "state" / "clawbot.db").write_text("the store's secret")
    (folder / "clawbot.yaml").write_text("api_key: the config's secret")
    hidden = (folder / "state", folder / "clawbot.yaml")
    sandbox = await find_sandbox(SandboxRules(hidden=hidden))
    assert isinstance(sandbox, Bubblewrap), sandbox
    limits: dict[str, Any] = {"at_once": 2, "life_s": 60, **background}
    marks = Marks()
    running = Background(SystemClock(), **limits)
    try:
        yield Shell(folder=folder, sandbox=sandbox, background=running, marks=marks)
    finally:
        await running.close()


def processes_with(mark: str) -> list[int]:
    """The processes of this machine whose command line holds a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or entry.name == str(os.getpid()):
            continue
        try:
            line = (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if mark.encode() in line and state not in {"Z", "X"}:
            found.append(int(entry.name))
    return found


async def until(look: Callable[[], Awaitable[T]], is_right: Callable[[T], bool]) -> T:
    """Look until what is seen is right."""
    async with asyncio.timeout(WAIT_S):
        while True:
            seen = await look()
            if is_right(seen):
                return seen
            await asyncio.sleep(0.02)


async def until_processes(mark: str, *, run: bool) -> None:
    """Wait until processes with a text in their command line run, or none does."""
    await until(lambda: asyncio.to_thread(processes_with, mark), lambda found: bool(found) is run)
