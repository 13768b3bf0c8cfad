"""Stores: `python -m tests.bench.stores [--sessions 1 100 1000 10000] [--workers 1 2 4]`.

First the bare pipeline (`tests.bench.bare`: it receives, calls the model once and posts, in one
process, and keeps nothing), then clawbot, then a flood (`tests.bench.flood`), all in one run.

One run on SQLite and on PostgreSQL, with so many worker processes and so many sessions: messages
are taken in as an adapter does, worker processes answer them with a model that echoes at once, and
the database is asked when each was accepted and answered. No platform is in the way: this is what
the database and the workers carry. In one session a message follows the answer before; of many
sessions each gets one message, and all of them wait at once.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvloop
from rich.console import Console
from rich.table import Table
from sqlalchemy import func, select

from clawbot.clock import SystemClock
from clawbot.config import ChannelPolicy, Models, load_config
from clawbot.config_sections import AllowLists
from clawbot.intake import ChannelRules, Intake
from clawbot.messages import ChatType, InboundMessage, Sender
from clawbot.parts import open_store
from clawbot.ports import Store, Transaction
from clawbot.store.schema import inbox
from tests.bench.flood import WAITING, Flood, measure_flood
from tests.bench.load import Load, open_platform
from tests.bench.subjects import bare, model, process
from tests.contracts.postgres_ground import make_schema
from tests.postgres import Cluster

CHANNEL = "desk"
ONE_BY_ONE = 100
AT_ONCE = 64
WAIT_S = 1800.0
CONFIG = """\
state_dir: {folder}/state
{database}
model: openai-chat:echo
providers:
  openai-chat: {{base_url: "{model_url}", api_key: made-up}}
web: {{enabled: false}}
transcripts: false
log: {{level: error}}
limits: {{heartbeat_s: 5, lease_s: 60, grace_s: 5}}
"""
RULES = ChannelRules(
    policy=ChannelPolicy(scope="chat", allow=AllowLists(dm=("*",))),
    models=Models(usual="openai-chat:echo"),
    can_edit=False,
    can_enrich=False,
    context_rows=0,
    context_age_ms=0,
    enrich_ms=0,
    late_after_ms=3_600_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What came of one level. Times in milliseconds, from acceptance to the end of the turn."""

    store: str
    workers: int
    sessions: int
    messages: int
    accepted_per_s: float
    answered_per_s: float
    median_ms: float
    p90_ms: float


def said(level: str, session: int, number: int, chat: str = "") -> InboundMessage:
    """A direct message; its chat is its session."""
    return InboundMessage(
        channel=CHANNEL,
        identity=f"{level}-{session}-{number}",
        chat_id=chat or f"{level}-{session}",
        chat_type=ChatType.DM,
        sender=Sender(id=f"U{session}"),
        text=f"message {number}",
        raw="",
    )


class Level:
    """One measurement on an open store."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._intake = Intake(store, SystemClock(), RULES)
        self.accepted_s = 0.0

    async def run(self, sessions: int, one_by_one: int = ONE_BY_ONE) -> int:
        """Let all be answered; return how many messages those were."""
        started = time.perf_counter()
        if sessions == 1:
            for number in range(one_by_one):
                await self._intake.accept(said(self._name, 0, number))
                await self._until_done(number + 1)
            self.accepted_s = time.perf_counter() - started
            return one_by_one
        room = asyncio.Semaphore(AT_ONCE)

        async def accept(session: int) -> None:
            async with room:
                await self._intake.accept(said(self._name, session, 0))

        async with asyncio.TaskGroup() as group:
            for session in range(sessions):
                group.create_task(accept(session))
        self.accepted_s = time.perf_counter() - started
        await self._until_done(sessions)
        return sessions

    async def ask(self, number: int, session: str) -> None:
        """Let one question of a chat be answered, the `number`th of this level."""
        await self._intake.accept(said(self._name, 0, number, session))
        await self._until_done(number + 1)

    async def _until_done(self, count: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while await self._store.read(self._done) < count:  # noqa: ASYNC110 a store
                await asyncio.sleep(0.005 if count <= ONE_BY_ONE else 0.1)

    def _done(self, tx: Transaction) -> int:
        mine = inbox.c.identity.startswith(f"{self._name}-", autoescape=True)
        done = select(func.count()).where(mine, inbox.c.state == "done")
        found: int = tx.conn.execute(done).scalar_one()
        return found

    def latencies(self, tx: Transaction) -> list[int]:
        """How long each message took."""
        mine = inbox.c.identity.startswith(f"{self._name}-", autoescape=True)
        took = select(inbox.c.settled_ms - inbox.c.accepted_ms).where(mine)
        return list(tx.conn.execute(took).scalars())


async def measure(
    store: Store, name: str, workers: int, sessions: int, one_by_one: int = ONE_BY_ONE
) -> Figures:
    """One level."""
    level = Level(store, f"{name}{workers}x{sessions}")
    started = time.perf_counter()
    messages = await level.run(sessions, one_by_one)
    wall_s = time.perf_counter() - started
    took = sorted(await store.read(level.latencies))
    return Figures(
        store=name,
        workers=workers,
        sessions=sessions,
        messages=messages,
        accepted_per_s=round(messages / level.accepted_s, 1),
        answered_per_s=round(messages / wall_s, 1),
        median_ms=statistics.median(took),
        p90_ms=took[int(len(took) * 0.9)],
    )


@asynccontextmanager
async def with_workers(
    folder: Path, database: str, model_url: str, count: int
) -> AsyncIterator[Store]:
    """A store and so many worker processes on it."""
    config = folder / f"clawbot-{count}.yaml"
    where = database and f"database: {database}"
    text = CONFIG.format(folder=folder, database=where, model_url=model_url)
    await asyncio.to_thread(config.write_text, text)
    store = await open_store(await asyncio.to_thread(load_config, config))
    try:
        async with AsyncExitStack() as stack:
            command = ("-m", "clawbot", "worker", "--config", str(config))
            for number in range(count):
                log = folder / f"worker-{count}-{number}.log"
                await stack.enter_async_context(process(*command, log=log, reads_line=False))
            await measure(store, "warm-up", count, 2 * count)
            yield store
    finally:
        await store.close()


async def run(
    name: str, database: str, chosen: argparse.Namespace
) -> tuple[list[Figures], list[Flood]]:
    """All levels on one store, and a flood for each number of workers."""
    found, floods = [], []
    with tempfile.TemporaryDirectory(prefix="clawbot-stores-") as folder:
        async with model(Path(folder)) as url:
            for count in chosen.workers:
                async with with_workers(Path(folder), database, url, count) as store:
                    for number in chosen.sessions:
                        found.append(await measure(store, name, count, number, chosen.one_by_one))
                        tell(found[-1])
                    if chosen.flood:
                        floods.append(await measure_flood(store, name, count, RULES, chosen.flood))
                        tell(floods[-1])
    return found, floods


async def run_bare(chosen: argparse.Namespace) -> list[Figures]:
    """All levels on the bare pipeline, with as many people at once as messages are accepted at."""
    found = []
    with tempfile.TemporaryDirectory(prefix="clawbot-bare-") as folder:
        async with (
            model(Path(folder)) as model_url,
            open_platform() as platform,
            bare(Path(folder), model_url, platform.url, tuned=True) as subject,
        ):
            await platform.measure(subject.target, Load(people=1, messages=20))
            for count in chosen.sessions:
                people = min(count, AT_ONCE)
                messages = chosen.one_by_one if count == 1 else count // people * people
                load = Load(people=people, messages=messages)
                measured = await platform.measure(subject.target, load)
                took = sorted(round(one * 1000, 1) for one in measured.answered_s)
                figures = Figures(
                    store="bare",
                    workers=0,
                    sessions=count,
                    messages=messages,
                    accepted_per_s=round(messages / measured.wall_s, 1),
                    answered_per_s=round(messages / measured.wall_s, 1),
                    median_ms=statistics.median(took),
                    p90_ms=took[int(len(took) * 0.9)],
                )
                found.append(figures)
                tell(figures)
    return found


def show(found: Sequence[Figures]) -> None:
    """Print a table."""
    columns = ("store", "workers", "sessions", "accepted/s", "answered/s", "median ms", "p90 ms")
    table = Table(*columns, title="What the store and the workers carry")
    for one in found:
        cells = (one.workers, one.sessions, one.accepted_per_s, one.answered_per_s)
        row = ["" if cell == 0 else str(cell) for cell in cells]
        table.add_row(one.store, *row, f"{one.median_ms:.0f}", f"{one.p90_ms:.0f}")
    Console(width=100).print(table)


def show_floods(floods: Sequence[Flood]) -> None:
    """Print a table."""
    columns = ("store", "workers", "flood", "median ms", "p90 ms", "without", "p90", "times")
    table = Table(*columns, title="What people wait beside a flood of another chat")
    for one in floods:
        beside, quiet = (one.median_ms, one.p90_ms), (one.quiet_median_ms, one.quiet_p90_ms)
        cells = (one.store, one.workers, one.flood_messages)
        times = f"{one.median_ms / one.quiet_median_ms:.1f}"
        table.add_row(*map(str, cells), *(f"{ms:.0f}" for ms in (*beside, *quiet)), times)
    Console(width=100).print(table)


def tell(one: Figures | Flood) -> None:
    """Print a level as soon as it is measured, for whoever waits."""
    sys.stderr.write(f"{one}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stores")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 100, 1_000, 10_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--one-by-one", type=int, default=ONE_BY_ONE, help="of one session")
    parser.add_argument("--flood", type=int, default=WAITING, help="messages that wait; 0 = none")
    parser.add_argument("--store", choices=["both", "sqlite", "postgres"], default="both")
    chosen = parser.parse_args(arguments)
    quiet = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(wrapper_class=quiet)
    found: list[Figures] = uvloop.run(run_bare(chosen))
    floods: list[Flood] = []
    if chosen.store != "postgres":
        more, flooded = uvloop.run(run("SQLite", "", chosen))
        found, floods = found + more, floods + flooded
    if chosen.store != "sqlite":
        cluster = Cluster.start()
        try:
            template = cluster.template("clawbot_schema", make_schema)
            url = cluster.url(cluster.create_database(template)).replace("+psycopg", "")
            more, flooded = uvloop.run(run("PostgreSQL", url, chosen))
            found, floods = found + more, floods + flooded
        finally:
            cluster.stop()
    show(found)
    show_floods(floods)
    return 0


if __name__ == "__main__":
    sys.exit(main())
