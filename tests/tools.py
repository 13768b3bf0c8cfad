"""Tools that do what tools can do to a turn: wait, refuse to end, ask people."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import ClassVar

from pydantic import BaseModel

from clawbot.ports import ToolContext

WAIT_S = 20.0


class Note(BaseModel):
    """What all of them take."""

    text: str = ""


class Echo:
    """Returns at once."""

    name: ClassVar[str] = "echo"
    description: ClassVar[str] = "Say it again."
    Args: ClassVar[type[BaseModel]] = Note

    async def run(self, args: Note, context: ToolContext) -> str:
        return f"echo of {args.text}"


class Wait:
    """Waits for ever, unless it is cancelled."""

    name: ClassVar[str] = "wait"
    description: ClassVar[str] = "Wait."
    Args: ClassVar[type[BaseModel]] = Note

    def __init__(self) -> None:
        self.began: list[str] = []
        self.ended: list[str] = []
        self._changed = asyncio.Condition()

    async def until_begun(self, *texts: str) -> None:
        """Wait until it was called with each of these texts."""
        async with asyncio.timeout(WAIT_S), self._changed:
            await self._changed.wait_for(lambda: set(texts) <= set(self.began))

    async def run(self, args: Note, context: ToolContext) -> str:
        async with self._changed:
            self.began.append(args.text)
            self._changed.notify_all()
        try:
            await self.wait()
        finally:
            self.ended.append(args.text)
        return f"waited for {args.text}"

    async def wait(self) -> None:
        """Wait for what does not come."""
        await asyncio.Event().wait()


class Gated(Wait):
    """Waits until the test lets all calls go on."""

    name: ClassVar[str] = "gated"

    def __init__(self) -> None:
        super().__init__()
        self._open = asyncio.Event()

    def release(self) -> None:
        """Let all calls go on."""
        self._open.set()

    async def wait(self) -> None:
        await self._open.wait()


class Stubborn:
    """Does not end when it is cancelled, but only when the test lets it; then it asks people."""

    name: ClassVar[str] = "stubborn"
    description: ClassVar[str] = "Go on whatever happens."
    Args: ClassVar[type[BaseModel]] = Note

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()

    async def run(self, args: Note, context: ToolContext) -> str:
        self.began.set()
        while not self.may_end.is_set():
            with suppress(asyncio.CancelledError):
                await self.may_end.wait()
        await context.ask("Go on after all")
        return "late"


class Deploy:
    """Asks people first; `made` says what it did."""

    name: ClassVar[str] = "deploy"
    description: ClassVar[str] = "Deploy something."
    Args: ClassVar[type[BaseModel]] = Note

    def __init__(self) -> None:
        self.made: list[str] = []

    async def run(self, args: Note, context: ToolContext) -> str:
        await context.ask(f"Deploy {args.text} to production")
        self.made.append(args.text)
        return f"deployed {args.text}"
