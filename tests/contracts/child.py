"""A process of its own for clauses that one process cannot show: `python -m tests.contracts.child`.

It is given a job, an opener ("module:function"), the address that the opener takes and how long it
may wait. It says `ready` when its store is open and waits for a line before it goes on.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module

import structlog

from clawbot.ports import Store
from tests.contracts.store import scenes


def say(line: object) -> None:
    """Tell the parent."""
    print(line, flush=True)  # noqa: T201 - how the parent is told


async def told() -> None:
    """Wait for the parent."""
    await asyncio.to_thread(sys.stdin.readline)


async def write(store: Store, _patience_s: float) -> None:
    """Say each identity that the store says is kept, until killed."""
    for number in range(1_000_000):
        await scenes.accept(store, scenes.said(f"child-{number}"))
        say(f"child-{number}")


async def accept(store: Store, _patience_s: float) -> None:
    """Take in the messages that the parent takes in at the same time."""
    for message in scenes.shared_messages():
        accepted = await scenes.accept(store, message)
        say(f"{accepted.inbox_id} {accepted.is_duplicate}")


async def listen(store: Store, patience_s: float) -> None:
    """Say whether the doorbell rang."""
    ear = store.listen(["door"])
    say("listening")
    say("rung" if await ear.wait(patience_s) else "nothing")
    ear.close()


async def choose(store: Store, _patience_s: float) -> None:
    """Choose a session each time the parent says so, and say what was answered."""
    while await asyncio.to_thread(sys.stdin.readline):
        say(json.dumps(await scenes.use(store, "42")))


JOBS: dict[str, Callable[[Store, float], Awaitable[None]]] = {
    "write": write,
    "accept": accept,
    "listen": listen,
    "choose": choose,
}


async def main(job: str, opener: str, address: str, patience_s: str) -> None:
    """Do one job on the store."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    module, _, name = opener.partition(":")
    store: Store = await getattr(import_module(module), name)(address, f"child-{job}")
    say("ready")
    await told()
    await JOBS[job](store, float(patience_s))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
