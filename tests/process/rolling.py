"""People who ask all the time, while the processes that answer them are replaced one by one.

Every third answer takes longer than the grace of a process: what it has begun is handed over.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.process.commands import Command, start
from tests.process.test_troubles import events, until_logged
from tests.simulators.model import Reply
from tests.simulators.slack import SlackSimulator
from tests.simulators.slack.record import SentMessage

GRACE_S = 2
ASK_EVERY_S = 0.5
TAKEN = "message_accepted"
PATIENCE_S = 120
PIECES = 40


def marks(number: int) -> tuple[str, str]:
    """The words with which an answer begins and ends."""
    return f"[{number}.first]", f"[{number}.last]"


def answer(request: Any) -> Reply:
    """The same to the same question; long ones take four seconds, twice the grace."""
    found = re.search(r"question (\d+)\.", request.last_user_text)
    assert found is not None, request.last_user_text
    number = int(found[1])
    first, last = marks(number)
    if number % 3:
        return Reply(text=f"{first} short {last}")
    middle = (f"piece {piece} " for piece in range(PIECES))
    return Reply(text=(f"{first} ", *middle, last), delay_s=2 * GRACE_S / PIECES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question. thread: where its answer stands, outside direct messages."""

    number: int
    chat: str
    thread: str | None


@dataclass(slots=True)
class Crowd:
    """Ever new people who write, directly or in a channel, where a thread begins."""

    slack: SlackSimulator
    asked: list[Asked] = field(default_factory=list)

    async def ask(self) -> None:
        """One more asks."""
        slack, number = self.slack, len(self.asked)
        user, text = slack.create_user(f"user{number}"), f"question {number}."
        if number % 2:
            chat, thread = slack.create_dm(user), None
            await slack.user_says(chat, user, text)
        else:
            chat = slack.create_channel(f"room{number}", [user])
            thread = await slack.user_says(chat, user, text, mention=True)
        self.asked.append(Asked(number=number, chat=chat, thread=thread))

    async def keep_asking(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.ask()
            await asyncio.sleep(ASK_EVERY_S)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """They ask all the time; at the end all are answered."""
        asking = asyncio.create_task(self.keep_asking(), name="crowd")
        try:
            yield
        finally:
            asking.cancel()
            await asyncio.wait([asking])
            assert asking.cancelled(), asking.exception()

    def answers(self, asked: Asked) -> list[SentMessage]:
        """What the bot has said to a question."""
        return self.slack.sent(asked.chat)

    async def until_one_grows(self) -> None:
        """Wait until one who asks after now reads the beginning of an answer."""
        before = len(self.asked)

        def look() -> bool:
            return any(
                first in one.shown and last not in one.shown
                for asked in self.asked[before:]
                for first, last in (marks(asked.number),)
                for one in self.answers(asked)
            )

        await self.slack.wait_for(look, timeout_s=PATIENCE_S, what="a growing answer")

    async def until_answered(self) -> None:
        """Wait until all have whole answers."""

        def look() -> bool:
            return all(
                any(marks(asked.number)[1] in one.shown for one in self.answers(asked))
                for asked in self.asked
            )

        await self.slack.wait_for(look, timeout_s=PATIENCE_S, what="all answers")
        await self.slack.wait_settled(timeout_s=PATIENCE_S)

    def check_each_was_answered_once(self) -> None:
        """One message each, the whole answer, where it belongs, and finished."""
        for asked in self.asked:
            (only,) = self.answers(asked)
            assert [only.shown.count(mark) for mark in marks(asked.number)] == [1, 1], only
            assert only.thread_ts == asked.thread
            assert not only.streaming


class Fleet:
    """The processes of a cluster by name; each can be replaced."""

    def __init__(self, configs: dict[str, Path], arguments: dict[str, tuple[str, ...]]) -> None:
        self._configs = configs
        self._arguments = arguments
        self.running: dict[str, Command] = {}
        self._ended: list[Command] = []

    async def start(self, name: str) -> None:
        """Start one and wait until it works."""
        self.running[name] = await start(self._configs[name], *self._arguments[name])
        await until_logged(self.running[name], "part_ready")

    async def replace(self, name: str) -> None:
        """Stop one as an upgrade does, and start its successor."""
        await self.stop(name)
        await self.start(name)

    async def stop(self, name: str) -> None:
        """It drains by itself: it is not cut off, and nothing of it fails."""
        command = self.running.pop(name)
        self._ended.append(command)
        assert await command.stop() == 0, command.text()[-6000:]
        told = {entry["event"] for entry in events(command)}
        assert not told & {"part_cut_off", "part_failed", "turn_crashed", "reply_crashed"}

    def logged(self) -> list[dict[str, Any]]:
        """What those that were stopped have logged."""
        return [entry for command in self._ended for entry in events(command)]

    async def until_taken_by(self, count: int) -> None:
        """Wait until so many adapters, of now and before, have taken events in."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                commands = [*self._ended, *self.running.values()]
                taken = [e for command in commands for e in events(command) if e["event"] == TAKEN]
                if len({entry["process"] for entry in taken}) >= count:
                    return
                await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Kill what still runs."""
        for command in self.running.values():
            if command.process.returncode is None:
                await command.kill()
