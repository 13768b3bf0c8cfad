"""Small programs that the tests run as children: `python -m tests.process.programs …`.

    part FILE BEHAVIOUR    one part as a process, which notes in FILE what happens to it
    supervisor FILE        a supervisor with two such parts

Behaviours: steady (works until asked to stop), stubborn (never stops), stuck (blocks its event loop
once it works), exit:N (works, then ends its process with code N), broken (refuses its config),
revoked (its account is refused), flaky:N (ends at its first N starts, then is steady).
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clawbot.clock import SystemClock
from clawbot.errors import ChannelBroken, ConfigError
from clawbot.process.child import ChildProcess
from clawbot.process.part import run_part
from clawbot.process.stopping import Stopping, on_signals
from clawbot.supervisor import Child, Hooks, RestartPolicy, Supervisor

DRAIN_S = 0.5
LINGER_S = 1.0


def note(file: Path, *words: object) -> None:
    """Append one line; short appends from several processes do not mix."""
    with file.open("a") as notes:
        notes.write(" ".join(map(str, words)) + "\n")


def block() -> None:
    """Hold the whole event loop, as no part may."""
    time.sleep(600)


async def refuse() -> None:
    """What an adapter does whose token was revoked."""
    raise ChannelBroken("the token was revoked; set a new one")


class BehavedPart:
    """A part that does as it is told."""

    def __init__(self, file: Path, behaviour: str, process_id: str) -> None:
        self.file = file
        self.behaviour, _, self.number = behaviour.partition(":")
        self.process_id = process_id
        self.works = asyncio.Event()

    async def ready(self) -> None:
        await self.works.wait()

    async def run(self, stop: asyncio.Event) -> None:
        await asyncio.to_thread(note, self.file, "began", self.process_id, os.getpid())
        if self.behaviour == "exit":
            os._exit(int(self.number))
        if self.behaviour == "flaky":
            notes = await asyncio.to_thread(self.file.read_text)
            begun = notes.count(f"began {self.process_id.rpartition('-')[0]}-")
            if begun <= int(self.number):
                raise RuntimeError("flaky")
        if self.behaviour == "revoked":
            async with asyncio.TaskGroup() as group:
                group.create_task(refuse())
        self.works.set()
        if self.behaviour == "stuck":
            for _ in range(50):  # Turns of the loop, for word of it to get out.
                await asyncio.sleep(0)
            block()
        await (asyncio.Event() if self.behaviour == "stubborn" else stop).wait()
        await asyncio.to_thread(note, self.file, "drained", self.process_id)


async def part(file: Path, behaviour: str) -> int:
    @asynccontextmanager
    async def open_part(process_id: str) -> AsyncIterator[BehavedPart]:
        if behaviour == "broken":
            raise ConfigError("config x (line 1): missing")
        yield BehavedPart(file, behaviour, process_id)
        note(file, "closed", process_id)

    return await run_part("alone", open_part, os.environ, drain_s=DRAIN_S, linger_s=LINGER_S)


def command(file: Path, behaviour: str) -> tuple[str, ...]:
    return (sys.executable, "-m", __spec__.name, "part", str(file), behaviour)


def child(
    file: Path,
    name: str,
    behaviour: str,
    *,
    kill_after_s: float = 20.0,
    stuck_after_s: float = 60.0,
) -> Child:
    process = ChildProcess(
        command=command(file, behaviour),
        environ=os.environ,
        kill_after_s=kill_after_s,
        stuck_after_s=stuck_after_s,
    )
    return Child(name=name, run=process)


async def supervise(file: Path) -> int:
    async def ended(process_id: str) -> None:
        note(file, "released", process_id)

    stopping = Stopping()
    supervisor = Supervisor(
        [child(file, "one", "steady"), child(file, "two", "stuck")],
        hooks=Hooks(ended=ended, changed=lambda _: None, ready=lambda: note(file, "all-ready")),
        clock=SystemClock(),
        policy=RestartPolicy(first_delay_s=0.01),
    )
    with on_signals(lambda _: stopping.request()):
        return await supervisor.run(stopping)


if __name__ == "__main__":
    path = Path(sys.argv[2])
    main = part(path, sys.argv[3]) if sys.argv[1] == "part" else supervise(path)
    sys.exit(asyncio.run(main))
