"""The kill matrix: processes that are killed at each point of a message's path, one after another.

Of each kind of process one runs, armed for its point. A message comes, the process dies of it, the
next one takes its place, and the message is answered; then it is the other kind's turn. The people,
Slack and the model are simulated and survive.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import tempfile
import textwrap
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from clawbot import parts
from clawbot.config import load_config
from clawbot.errors import StoreUnavailable
from clawbot.lifeline import PROCESS_ID_VARIABLE
from clawbot.ports import Store
from clawbot.store import inbox, outbox
from tests.flow.conftest import slack_keys
from tests.flow.daemon import write_config
from tests.process.commands import Command, start
from tests.process.kill_points import ARMED, START, Asks, KillPoint, Role
from tests.simulators.model import ModelSimulator, RecordedRequest, Reply, ToolCall
from tests.simulators.slack import SlackSimulator

WAIT_S = 60.0
RELEASED, SERVER_KILLED = 0.85, 0.2
PARAGRAPHS, PIECES = 40, 10
MOST_MESSAGES = {"tool": 1, "grow": 1, "long": 4}
OPEN_STATES = {"received", "queued", "claimed", "streaming", "pending", "sending"}
Chain = Sequence[KillPoint]


# -- what is said ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A message that somebody sent. thread: where its answer stands, outside direct messages."""

    number: int
    kind: Asks
    chat: str
    thread: str | None

    @property
    def markers(self) -> list[str]:
        """Words that a whole answer holds once each."""
        return markers(self.kind, self.number)


def markers(kind: str, number: int) -> list[str]:
    """See `Asked.markers`."""
    names = map(str, range(PARAGRAPHS)) if kind == "long" else ("first", "last")
    return [f"[{number}.{name}]" for name in names]


def answer(request: RecordedRequest) -> Reply:
    """What the model says; the same to the same question, however often it is asked."""
    found = re.search(r"case (\d+) (tool|grow|long)", request.last_user_text)
    assert found is not None, request.last_user_text
    kind, marks = found[2], markers(found[2], int(found[1]))
    if kind == "long":
        return Reply(text="\n\n".join(f"{mark} " + "word " * 140 for mark in marks))
    if kind == "grow":
        middle = (f"piece {number} " for number in range(PIECES))
        return Reply(text=(f"{marks[0]} ", *middle, marks[1]), delay_s=0.12)
    if not any(message.tool_results for message in request.messages):
        return Reply(tool_calls=(ToolCall(name="list_dir", arguments={"path": "."}),))
    return Reply(text=f"{marks[0]} done {marks[1]}")


# -- what came of it -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The outcome. `problems` is empty when the promise was kept."""

    messages: int
    kills: int
    lost: int
    doubled: int
    unknown: int
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.messages} messages, {self.kills} kills, lost {self.lost}, "
            f"doubled {self.doubled}, unknown {self.unknown}"
        )


# -- who dies --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A process that waits with its command until it is told to begin."""

    command: Command
    process_id: str
    folder: Path
    point: KillPoint

    def begin(self) -> None:
        """Let it run its command; one that is to die of a recovery counts from now on."""
        if self.point.is_recovery:
            self.arm()
        (self.folder / START).touch()

    def arm(self) -> None:
        """Let it die at its point."""
        (self.folder / ARMED).touch()

    async def until_dead(self) -> None:
        """Wait for the kill."""
        try:
            async with asyncio.timeout(WAIT_S):
                code = await self.command.process.wait()
        except TimeoutError as error:
            told = self.command.text()[-6000:]
            raise AssertionError(f"{self.point.name} was never reached:\n{told}") from error
        assert code == -signal.SIGKILL, self.command.text()


class Line:
    """The processes of one kind, one after another; the next one is loaded while one runs."""

    def __init__(self, config: Path, role: Role, points: Iterable[KillPoint]) -> None:
        self._config = config
        self._role = role
        self._arguments = ("adapter", "slack") if role == "adapter" else ("worker",)
        self._left = deque(points)
        self._next: Victim | None = None
        self._survivor: Command | None = None
        self._number = 0
        self.living: Victim | None = None

    async def advance(self) -> None:
        """Let the next process begin; after the last point it is one that lives."""
        self.living = self._next or await self._load()
        if self.living is None:
            self._survivor = await start(self._config, *self._arguments)
            return
        self.living.begin()
        self._next = await self._load()

    async def _load(self) -> Victim | None:
        if not self._left:
            return None
        point = self._left.popleft()
        self._number += 1
        process_id = f"{self._role}-{self._number}"
        folder = Path(tempfile.mkdtemp(prefix=f"{process_id}-", dir=self._config.parent))
        command = await start(
            self._config,
            *(point.name, str(point.hit), str(folder), "--", *self._arguments),
            module="tests.process.kill_points",
            environ={PROCESS_ID_VARIABLE: process_id},
        )
        return Victim(command=command, process_id=process_id, folder=folder, point=point)

    def text(self) -> str:
        """What the process that runs has printed."""
        command = self._survivor or (self.living and self.living.command)
        return "" if command is None else command.text()

    async def close(self) -> None:
        """End what still runs."""
        commands = [victim.command for victim in (self.living, self._next) if victim]
        for command in (*commands, *([self._survivor] if self._survivor else [])):
            if command.process.returncode is None:
                await command.kill()


# -- the matrix ------------------------------------------------------------------------------------


class Matrix:
    """One run on one store. url: of its database, whose server's processes are killed too."""

    def __init__(
        self, config: Path, store: Store, slack: SlackSimulator, seed: int, url: str | None
    ) -> None:
        self._config = config
        self._store = store
        self._slack = slack
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._url = url
        self._general = slack.create_channel("general", [slack.create_user("owner")])
        self._asked: list[Asked] = []
        self._kills = 0
        self._lines: dict[Role, Line] = {}

    async def run(self, chains: Sequence[Chain]) -> Figures:
        """Kill at each point; of a chain, the later ones while the first is recovered from."""
        for role in ("adapter", "worker"):
            points = [point for chain in chains for point in chain if point.role == role]
            self._lines[role] = Line(self._config, role, points)
        try:
            for line in self._lines.values():
                await line.advance()
            for chain in chains:
                await self._kill(chain)
            return await self._count()
        finally:
            for line in self._lines.values():
                await line.close()

    async def _kill(self, chain: Chain) -> None:
        await self._slack.wait_connected(timeout_s=WAIT_S)
        line = self._lines[chain[0].role]
        assert line.living is not None
        line.living.arm()
        asked = await self._say(chain[0].asks)
        for point in chain:
            victim = line.living
            assert victim is not None
            assert victim.point == point
            await victim.until_dead()
            self._kills += 1
            # As its supervisor would; now and then there is none, and the lease runs out.
            if self._random.random() < RELEASED:
                with suppress(StoreUnavailable):
                    await parts.release_process(self._store, victim.process_id)
            await line.advance()
        if self._url is not None and self._random.random() < SERVER_KILLED:
            await asyncio.to_thread(self._kill_server_process, self._url)
        await self._until_answered(asked)

    def _kill_server_process(self, url: str) -> None:
        """Kill one of the server's processes: it ends them all, recovers, and goes on."""
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        with psycopg.connect(url, autocommit=True) as connection:
            pids = [row[0] for row in connection.execute(f"{query} AND pid <> pg_backend_pid()")]
        if pids:
            os.kill(self._random.choice(pids), signal.SIGKILL)
            self._kills += 1

    async def _say(self, kind: Asks) -> Asked:
        """Somebody new writes: directly, or in the channel, where a thread begins."""
        number = len(self._asked) + 1
        user, text = self._slack.create_user(f"user{number}"), f"case {number} {kind}"
        if number % 2:
            asked = Asked(number=number, kind=kind, chat=self._slack.create_dm(user), thread=None)
            await self._slack.user_says(asked.chat, user, text)
        else:
            await self._slack.invite(self._general, user)
            ts = await self._slack.user_says(self._general, user, text, mention=True)
            asked = Asked(number=number, kind=kind, chat=self._general, thread=ts)
        self._asked.append(asked)
        return asked

    def _answers(self, asked: Asked) -> list[str]:
        sent = self._slack.sent(asked.chat)
        here = [m for m in sent if asked.thread is None or m.thread_ts == asked.thread]
        return [message.shown for message in here]

    async def _until_answered(self, asked: Asked) -> None:
        def look() -> bool:
            text = "\n".join(self._answers(asked))
            return all(marker in text for marker in asked.markers)

        try:
            await self._slack.wait_for(look, timeout_s=WAIT_S, what=f"an answer to {asked}")
        except TimeoutError as error:
            told = "\n\n".join(line.text()[-6000:] for line in self._lines.values())
            raise AssertionError(f"{error}\n{told}") from error

    async def _count(self) -> Figures:
        """Let all come again that Slack ever sent, wait for the end, and count."""
        await self._slack.wait_settled(timeout_s=WAIT_S)
        for delivery in list(self._slack.deliveries()):
            await self._slack.redeliver(delivery)
        await self._slack.wait_settled(timeout_s=WAIT_S)
        states = await self._final_states()
        lost = doubled = 0
        problems: list[str] = []
        for asked in self._asked:
            texts = self._answers(asked)
            counts = [sum(text.count(mark) for text in texts) for mark in asked.markers]
            is_lost = min(counts) < 1
            is_doubled = max(counts) > 1 or len(texts) > MOST_MESSAGES[asked.kind]
            lost, doubled = lost + is_lost, doubled + is_doubled
            if is_lost or is_doubled:
                problems.append(f"{asked}: {textwrap.shorten(str(texts), 900)}")
        other = {state: count for state, count in states.items() if state not in {"done", "sent"}}
        if other:
            problems.append(f"rows that ended otherwise: {other}")
        return Figures(
            messages=len(self._asked),
            kills=self._kills,
            lost=lost,
            doubled=doubled,
            unknown=states["unknown"],
            problems=tuple(problems),
        )

    async def _final_states(self) -> Counter[str]:
        """The rows of inbox and outbox by state, once all have ended."""
        async with asyncio.timeout(WAIT_S):
            while True:
                with suppress(StoreUnavailable):
                    states = Counter(await self._store.read(inbox.count_by_state))
                    states.update(await self._store.read(outbox.count_by_state))
                    if not OPEN_STATES & states.keys():
                        return states
                await asyncio.sleep(0.05)


@asynccontextmanager
async def open_matrix(
    folder: Path, seed: int, database: str | None = None
) -> AsyncIterator[Matrix]:
    """A matrix with its simulators; the store is a file in the folder, or this database."""
    async with (
        SlackSimulator(ack_timeout_s=10, retry_delays_s=(0.0, 0.2, 0.5, 0.5)) as slack,
        ModelSimulator(answer) as model,
    ):
        config = write_config(
            folder,
            model_url=model.base_url("openai-chat"),
            slack=slack_keys(slack, "socket", 0),
            extra="" if database is None else f"database: {database}",
        )
        store = await parts.open_store(await asyncio.to_thread(load_config, config))
        try:
            yield Matrix(config, store, slack, seed, database)
        finally:
            await store.close()
        assert model.violations == []
