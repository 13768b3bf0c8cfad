"""What an implementation of the store brings along so that the contract can be held against it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Protocol

from clawbot.ports import Store, Transaction

Ending = Callable[[Transaction], None]
"""A unit that fails in a way that ends its whole transaction, not only its own statements."""


class Ground(Protocol):
    """One empty database with an up-to-date schema, and stores opened on it.

    opener: "module:function" by which another process opens the same database; the function is
        given `address` and a process id. patience_s: how long a clause waits for what must happen.
    """

    opener: str
    address: str
    patience_s: float

    async def open(self, process_id: str) -> Store:
        """Open a store as a process of its own would; the ground closes it after the test."""
        ...

    def count_commits(self, store: Store) -> Callable[[], int]:
        """Begin to count the store's commits; the result tells how many there were."""
        ...

    def endings(self) -> Sequence[Ending]:
        """The ways in which a unit of this database can end its transaction."""
        ...

    def unwritable(self) -> AbstractContextManager[None]:
        """A time in which the database takes no write."""
        ...

    def lose_bells(self) -> None:
        """Break the doorbell of everybody, as if each ring were lost."""
        ...


class Child:
    """A real process on the same database; see `tests.contracts.child` for its jobs."""

    def __init__(self, process: asyncio.subprocess.Process, patience_s: float) -> None:
        self._process = process
        self._patience_s = patience_s

    async def line(self) -> str:
        """What it says next; "" at its end."""
        assert self._process.stdout is not None
        async with asyncio.timeout(self._patience_s):
            return (await self._process.stdout.readline()).decode().strip()

    async def lines(self) -> list[str]:
        """All that it says from now to its end."""
        said = []
        while line := await self.line():
            said.append(line)
        return said

    def tell(self) -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def kill(self) -> None:
        """End it as `kill -9` does, and wait until it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def child(job: str, ground: Ground) -> AsyncIterator[Child]:
    """Start a process that does a job and says `ready`; it is killed at the end of the block."""
    command = (
        "-m",
        "tests.contracts.child",
        job,
        ground.opener,
        ground.address,
        f"{ground.patience_s}",
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    started = Child(process, max(ground.patience_s, 30.0))
    try:
        assert await started.line() == "ready"
        yield started
    finally:
        await started.kill()
