"""A flood: one chat is full of messages that wait, and what that costs people in other chats.

They ask one question after the other, first while nothing else happens and then beside the flood,
which is kept at so many messages in as many threads of its chat for as long as they ask.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import func, select

from clawbot.clock import SystemClock
from clawbot.config_sections import AllowLists
from clawbot.intake import ChannelRules, Intake
from clawbot.messages import ChatType, InboundMessage, Sender
from clawbot.ports import Store, Transaction
from clawbot.store.schema import inbox

PEOPLE = 4
QUESTIONS = 8
WAITING = 150  # messages of the flooded chat that wait, at most; half of it at least
LOOK_S = 0.005
WAIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """What came of it. Times in milliseconds, from acceptance to the end of the turn."""

    store: str
    workers: int
    flood_messages: int
    quiet_median_ms: float
    quiet_p90_ms: float
    median_ms: float
    p90_ms: float


class Crowd:
    """People in chats of their own, and the flooded chat."""

    def __init__(self, store: Store, name: str, rules: ChannelRules, waiting: int) -> None:
        self._store = store
        self._waiting = waiting
        self._name = name
        everybody = AllowLists(groups=("*",), senders=("*",))
        policy = replace(rules.policy, scope="thread", mention="never", allow=everybody)
        self._intake = Intake(store, SystemClock(), replace(rules, policy=policy))
        self.flooded = 0

    async def ask(self, phase: str) -> list[int]:
        """All ask all their questions; how long each took."""
        async with asyncio.TaskGroup() as group:
            for person in range(PEOPLE):
                group.create_task(self._person(f"{self._name}-{phase}-{person}"))
        return await self._store.read(self._took(f"{self._name}-{phase}-"))

    async def flood(self) -> None:
        """Keep so many messages waiting until cancelled; each begins a thread."""
        waits = _count(f"{self._name}-flood-", inbox.c.state != "done")
        for first in itertools.count(step=self._waiting):
            while await self._store.read(waits) > self._waiting // 2:  # noqa: ASYNC110 a store
                await asyncio.sleep(LOOK_S * 10)
            async with asyncio.TaskGroup() as group:
                for number in range(first, first + self._waiting):
                    identity = f"{self._name}-flood-{number}"
                    said = _said(identity, f"{self._name}-flooded", thread=identity)
                    group.create_task(self._take(said))
            self.flooded = first + self._waiting

    async def until_all_done(self) -> None:
        """Wait until the flood has run off."""
        waits = _count(f"{self._name}-", inbox.c.state != "done")
        async with asyncio.timeout(WAIT_S):
            while await self._store.read(waits):  # noqa: ASYNC110 a store
                await asyncio.sleep(LOOK_S * 10)

    async def _take(self, message: InboundMessage) -> None:
        await self._intake.accept(message)

    async def _person(self, who: str) -> None:
        for number in range(QUESTIONS):
            await self._take(_said(f"{who}-{number}", who))
            done = _count(f"{who}-", inbox.c.state == "done")
            async with asyncio.timeout(WAIT_S):
                while await self._store.read(done) <= number:  # noqa: ASYNC110 a store
                    await asyncio.sleep(LOOK_S)

    def _took(self, prefix: str) -> Callable[[Transaction], list[int]]:
        took = select(inbox.c.settled_ms - inbox.c.accepted_ms)
        mine = took.where(inbox.c.identity.startswith(prefix, autoescape=True))
        return lambda tx: sorted(tx.conn.execute(mine).scalars())


def _count(prefix: str, state: Any) -> Callable[[Transaction], int]:
    mine = inbox.c.identity.startswith(prefix, autoescape=True)
    counted = select(func.count()).where(mine, state)
    return lambda tx: int(tx.conn.execute(counted).scalar_one())


def _said(identity: str, chat: str, thread: str | None = None) -> InboundMessage:
    return InboundMessage(
        channel="desk",
        identity=identity,
        chat_id=chat,
        chat_type=ChatType.GROUP,
        sender=Sender(id=chat),
        text=f"message {identity}",
        raw="",
        thread=thread,
        mentioned=True,
    )


async def measure_flood(
    store: Store, name: str, workers: int, rules: ChannelRules, waiting: int = WAITING
) -> Flood:
    """Once without and once with a flood."""
    crowd = Crowd(store, f"flood-{name}{workers}", rules, waiting)
    quiet = await crowd.ask("quiet")
    flood = asyncio.create_task(crowd.flood(), name="flood")
    try:
        while not crowd.flooded:
            await asyncio.sleep(LOOK_S)
            if flood.done():
                flood.result()
        beside = await crowd.ask("beside")
    finally:
        flood.cancel()
        await asyncio.gather(flood, return_exceptions=True)
        await crowd.until_all_done()
    return Flood(
        store=name,
        workers=workers,
        flood_messages=crowd.flooded,
        quiet_median_ms=statistics.median(quiet),
        quiet_p90_ms=quiet[int(len(quiet) * 0.9)],
        median_ms=statistics.median(beside),
        p90_ms=beside[int(len(beside) * 0.9)],
    )
