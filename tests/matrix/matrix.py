"""One run of the kill matrix: on one platform and one store, one strike after another.

A strike is a message, a point that it comes to, and who is killed when it is there: the process
that is at the point, another kind, several at once, the database. What was killed is started anew,
and the message must be answered. The people, the platform and the model are simulated and survive.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import psycopg
from sqlalchemy import select

from clawbot import parts
from clawbot.config import load_config
from clawbot.errors import StoreUnavailable
from clawbot.ports import Store, Transaction
from clawbot.store import inbox, outbox, processes
from clawbot.store.schema import outbox as outbox_table
from tests.contracts.postgres_ground import make_schema
from tests.matrix.line import Line
from tests.matrix.nursery import Nursery
from tests.matrix.platforms import PLATFORMS, WAIT_S, Platform
from tests.matrix.points import Act, KillPoint, Order, Role
from tests.matrix.strikes import Figures, Strike, Victim
from tests.matrix.talk import Asked, Asks, Seen, answer
from tests.postgres import Cluster
from tests.process.commands import clawbot
from tests.simulators.model import ModelSimulator

RELEASED = 0.85
MOST_COMMITS = 5
MOST_TRIES = 4
BEATING_MS = 2000
PASSED_S = 3.0  # after an answer is there, so long may it take until that is recorded
OPEN_STATES = {"received", "queued", "claimed", "streaming", "pending", "sending"}
ROLES: tuple[Role, ...] = ("adapter", "worker")


class Matrix:
    """One run. cluster, url: the PostgreSQL that dies too, and the database in it."""

    def __init__(
        self,
        config: Path,
        store: Store,
        platform: Platform,
        nursery: Nursery,
        *,
        seed: int,
        cluster: Cluster | None,
        url: str | None,
    ) -> None:
        self._config = config
        self._store = store
        self._platform = platform
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._cluster = cluster
        self._url = url
        self._asked: list[Asked] = []
        self._orders = 0
        self._figures = Figures()
        self._lines = {role: Line(nursery, config, role, platform.channel) for role in ROLES}

    async def run(self, strikes: Sequence[Strike], until_s: float = float("inf")) -> Figures:
        """Strike once after another, but begin none later than `until_s` of the monotonic clock."""
        began = time.monotonic()
        for line in self._lines.values():
            await line.start()
        await self._platform.reach()
        try:
            for strike in strikes:
                if time.monotonic() > until_s:
                    break
                await self._strike(strike)
            await self._count()
        finally:
            self._figures.took_s = time.monotonic() - began
        return self._figures

    async def _strike(self, strike: Strike) -> None:
        self._platform.hold_back()
        asked = await self._meet(strike)
        for victim in strike.victims:
            self._figures.kills[strike.name, victim] += 1
        await self._replace(strike, strike.recovery)
        if (again := strike.recovery) is not None:
            await self._lines[again.role].until_dead(again.name)
            self._figures.kills[again.name, again.role] += 1
            await self._replace(Strike(point=again, victims=(again.role,)), None)
        self._platform.go_on()
        await self._until_answered(asked, strike)

    async def _meet(self, strike: Strike) -> Asked:
        """Let somebody ask, and kill the victims when the message is at the point."""
        point = strike.point
        if point is None:
            asked = await self._say(self._random.choice(("tool", "grow")))
            await asyncio.sleep(strike.after_s)
            await self._kill(strike.victims)
            return asked
        line = self._lines[point.role]
        kills_itself = strike.victims == (point.role,)
        act: Act = "freeze" if not kills_itself else "die_soon" if point.is_loose else "die"
        for _ in range(MOST_TRIES):
            line.tell(self._order(point, act))
            asked = await self._say(point.asks)
            if await self._is_reached(line, asked):
                break
            await self._restart_ended()
            self._platform.go_on()
            self._platform.hold_back()
        else:
            raise AssertionError(f"{point.name} was never reached:\n{line.text()}")
        if kills_itself:
            await line.until_dead(point.name)
        else:
            assert line.living is not None
            assert line.living.is_frozen, f"{point.name}: ended before\n{line.text()}"
            await self._kill(strike.victims)
            line.living.send(signal.SIGCONT)
        return asked

    async def _is_reached(self, line: Line, asked: Asked) -> bool:
        """Wait until the message is at the point; False if it was answered by another way, as may
        happen on a busy machine: what was quick enough for a response yesterday is late today.
        """
        deadline = time.monotonic() + WAIT_S
        while not line.is_struck:
            if time.monotonic() > deadline or (line.has_ended and not line.is_killed):
                return False
            await asyncio.sleep(0.02)
            if await self._is_answered(asked):
                deadline = min(deadline, time.monotonic() + PASSED_S)
        return True

    def _order(self, point: KillPoint, act: Act) -> Order:
        self._orders += 1
        is_commit = point.name.partition(".")[0].endswith("commit")
        hit = self._random.randint(1, MOST_COMMITS) if is_commit else point.hit
        return Order(number=self._orders, point=point.name, hit=hit, act=act)

    async def _say(self, kind: Asks) -> Asked:
        asked = await self._platform.say(len(self._asked) + 1, kind)
        self._asked.append(asked)
        return asked

    async def _kill(self, victims: Sequence[Victim]) -> None:
        for victim in victims:
            match victim:
                case "server":
                    assert self._cluster is not None
                    await asyncio.to_thread(self._cluster.crash)
                case "backend":
                    await asyncio.to_thread(self._kill_backend)
                case "adapter" | "worker":
                    line = self._lines[victim]
                    assert line.living is not None
                    line.living.send(signal.SIGKILL)
                    await line.until_dead(victim)

    def _kill_backend(self) -> None:
        """Kill one of the server's processes: it ends them all, recovers, and goes on."""
        assert self._url is not None
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        with psycopg.connect(self._url, autocommit=True) as connection:
            pids = [row[0] for row in connection.execute(f"{query} AND pid <> pg_backend_pid()")]
            os.kill(self._random.choice(pids), signal.SIGKILL)
            with suppress(psycopg.OperationalError):  # until then it does not know it yet
                while True:
                    connection.execute("SELECT 1")

    async def _replace(self, strike: Strike, recovery: KillPoint | None) -> None:
        """Start anew what was killed, as a supervisor does; now and then there is none, and a lease
        runs out.
        """
        if "server" in strike.victims:
            assert self._cluster is not None
            self._cluster.resume()  # not in a thread: the server ends with the one that began it
        for role in ROLES:
            line = self._lines[role]
            if role not in strike.victims:
                continue
            if self._random.random() < RELEASED:
                with suppress(StoreUnavailable):
                    await parts.release_process(self._store, line.process_id)
            is_ordered = recovery is not None and recovery.role == role
            await line.start(self._order(recovery, "die") if is_ordered and recovery else None)
        if recovery is None:
            await self._until_beating()
            await self._platform.reach()

    async def _restart_ended(self) -> None:
        """Start anew what has ended by itself: so does a part whose lease ran out while the store
        was away, and its supervisor starts it again.
        """
        for line in self._lines.values():
            if line.has_ended:
                with suppress(StoreUnavailable):
                    await parts.release_process(self._store, line.process_id)
                await line.start()

    async def _until_beating(self) -> None:
        """Wait until all processes work on the store again."""
        deadline = time.monotonic() + WAIT_S
        while True:
            if time.monotonic() > deadline:
                raise AssertionError(f"not all work again\n{self._told()}")
            await self._restart_ended()
            with suppress(StoreUnavailable):
                await self._store.write(lambda _tx: None)
                rows = await self._store.read(processes.live)
                # One that had to wait for the store has a number more.
                beating = {row.id.partition(".")[0] for row in rows if row.age_ms < BEATING_MS}
                if beating >= {line.process_id for line in self._lines.values()}:
                    return
            await asyncio.sleep(0.02)

    async def _until_answered(self, asked: Asked, strike: Strike) -> None:
        deadline = time.monotonic() + WAIT_S
        while not await self._is_answered(asked):
            if time.monotonic() > deadline:
                raise AssertionError(f"no answer to {asked} after {strike}\n{self._told()}")
            await self._restart_ended()
            await asyncio.sleep(0.03)

    def _told(self) -> str:
        """What the processes have printed lately."""
        told = (f"{line.process_id}: {line.text()}" for line in self._lines.values())
        return "\n\n".join(told)

    async def _is_answered(self, asked: Asked) -> bool:
        """Whether the whole answer is there, or nobody can know and that is recorded."""
        if Seen(self._platform.sent()).is_whole(asked):
            return True
        return self._platform.keeps_unknown and bool(await self._unknown_in(asked.chat_id))

    async def _unknown_in(self, chat_id: str) -> int:
        """How many replies of a chat are finally unknown."""
        with suppress(StoreUnavailable):
            return len(await self._store.read(partial(unknown_in, chat_id=chat_id)))
        return 0

    # -- the end -----------------------------------------------------------------------------------

    async def _count(self) -> None:
        """Let come again whatever may, wait for the end, and count."""
        await self._platform.settle()
        await self._platform.repeat_all()
        await self._platform.settle()
        states = await self._final_states()
        figures, seen = self._figures, Seen(self._platform.sent())
        figures.messages = len(self._asked)
        figures.unknown = states["unknown"]
        for asked in self._asked:
            is_whole = await self._is_answered(asked)
            is_doubled = seen.is_doubled(
                asked, self._platform.most_parts if asked.kind == "long" else 1
            )
            figures.lost += not is_whole
            figures.doubled += is_doubled
            if not is_whole or is_doubled or seen.is_astray(asked):
                figures.problems.append(f"{asked}: {self._shown(asked)}")
        figures.problems += [f"nobody asked for {sent}" for sent in seen.strays]
        if self._platform.unfinished():
            figures.problems.append(f"{self._platform.unfinished()} messages still seem to grow")
        may_be = {"done", "sent"} | ({"unknown"} if self._platform.keeps_unknown else set())
        if other := {state: count for state, count in states.items() if state not in may_be}:
            figures.problems.append(f"rows that ended otherwise: {other}")
        await self._check_status(states["unknown"])

    def _shown(self, asked: Asked) -> str:
        """The messages that bear marks of an answer, each by its place and marks."""
        mark = f"[{asked.number}."
        return "; ".join(
            f"{sent.place} {[word for word in sent.text.split() if mark in word]}"
            for sent in self._platform.sent()
            if mark in sent.text
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

    async def _check_status(self, unknown: int) -> None:
        """What nobody knows is shown to the admin."""
        if not unknown:
            return
        async with clawbot(self._config, "status") as command:
            await command.ended()
        if f"{unknown} perhaps sent" not in command.text():
            self._figures.problems.append(f"{unknown} unknown, but status says: {command.text()}")


def unknown_in(tx: Transaction, chat_id: str) -> list[int]:
    """The replies of a chat of which nobody will know whether they were sent."""
    wanted = outbox_table.c.chat_id == chat_id, outbox_table.c.state == "unknown"
    return list(tx.conn.execute(select(outbox_table.c.id).where(*wanted)).scalars())


def channels_unsure(tx: Transaction) -> set[str]:
    """The channels on which replies stay unknown."""
    unknown = select(outbox_table.c.channel).where(outbox_table.c.state == "unknown")
    return set(tx.conn.execute(unknown).scalars())


# -- its ground ------------------------------------------------------------------------------------


def write_config(
    folder: Path, model_url: str, platforms: Sequence[Platform], **more: object
) -> Path:
    """A config with these platforms, on which everybody may talk; more: further sections."""
    everyone = {"dm": ["*"], "groups": ["*"], "senders": ["*"]}
    config = {
        "state_dir": str(folder / "state"),
        "model": "openai-chat:scripted",
        "providers": {"openai-chat": {"base_url": model_url, "api_key": "made-up"}},
        "web": {"enabled": False},
        "limits": {"heartbeat_s": 1, "lease_s": 3, "grace_s": 5},
        "channels": {each.channel: {"allow": everyone, **each.keys} for each in platforms},
        **more,
    }
    path = folder / "clawbot.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    return path


def make_database(cluster: Cluster) -> str:
    """A database with its schema; its address in the form of the config."""
    template = cluster.template("clawbot_schema", make_schema)
    return cluster.url(cluster.create_database(template)).replace("+psycopg", "")


@asynccontextmanager
async def open_matrix(
    folder: Path, platform: str, nursery: Nursery, *, seed: int, cluster: Cluster | None = None
) -> AsyncIterator[Matrix]:
    """A matrix with its simulators; the store is a file in the folder, or a database of the
    cluster, whose processes are killed too.
    """
    url = None if cluster is None else await asyncio.to_thread(make_database, cluster)
    more = {} if url is None else {"database": url}
    async with PLATFORMS[platform]() as people, ModelSimulator(answer) as model:
        config = write_config(folder, model.base_url("openai-chat"), [people], **more)
        store = await parts.open_store(await asyncio.to_thread(load_config, config))
        try:
            async with nursery.used():
                yield Matrix(config, store, people, nursery, seed=seed, cluster=cluster, url=url)
        finally:
            await store.close()
        assert model.violations == []
