"""A cluster of three hosts: the database on one, clocks that differ, a partition, a power cut.

Every host runs `clawbot run --single`, the second and third with the channel. Each question is
answered exactly once, whatever happens to the host that works on it.
"""

from __future__ import annotations

import asyncio
import sysconfig
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from sqlalchemy import select
from yarl import URL

from clawbot.ports import Store, Transaction
from clawbot.store import inbox, outbox
from clawbot.store.postgres import open_postgres_store
from clawbot.store.schema import processes, sessions
from tests.contracts.postgres_ground import make_schema
from tests.flow.conftest import slack_keys
from tests.flow.daemon import write_config
from tests.postgres import Cluster
from tests.process.commands import Command, clawbot
from tests.process.hosts import Host, open_network
from tests.process.test_troubles import PATIENT, events, slow_echo
from tests.simulators.model import ModelSimulator
from tests.simulators.slack import SlackSimulator

PATIENCE_S = 120
CLOCKS = ("+0s", "+60s", "-60s")
LEASE = "heartbeat_s: 2, lease_s: 8"
SCHEMA = "clawbot_schema"
FAKETIME = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}/faketime/libfaketimeMT.so.1"
"""Where Debian's package `libfaketime` puts it."""


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(retry_delays_s=PATIENT, ack_timeout_s=2.0) as simulator:
        yield simulator


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator(slow_echo) as simulator:
        yield simulator


@pytest.fixture
async def hosts(slack: SlackSimulator, model: ModelSimulator) -> AsyncIterator[list[Host]]:
    ports = [URL(url).port for url in (slack.api_url, model.base_url("openai-chat"))]
    async with open_network(3, [port for port in ports if port]) as made:
        yield made


@pytest.fixture
def database(hosts: list[Host]) -> Iterator[str]:
    """On the first host."""
    cluster = Cluster.start(hosts[0].database, hosts[0].prefix)
    try:
        url = cluster.url(cluster.template(SCHEMA, make_schema))
        yield url.replace("+psycopg", "")
    finally:
        cluster.stop()


class Everybody:
    """People who ask, each in a chat of their own, and what they were answered."""

    def __init__(self, slack: SlackSimulator) -> None:
        self._slack = slack
        self._chats: list[str] = []

    async def ask(self) -> None:
        """One more asks."""
        number = len(self._chats)
        person = self._slack.create_user(f"person{number}")
        self._chats.append(self._slack.create_dm(person))
        await self._slack.user_says(self._chats[-1], person, f"question {number}.")

    async def until_answered(self) -> None:
        """Wait until each has an answer."""
        for number, chat in enumerate(self._chats):
            text = f"echo: question {number}."
            await self._slack.wait_text(text, channel=chat, timeout_s=PATIENCE_S)

    def counts(self) -> set[int]:
        """How many messages people were sent."""
        return {len(self._slack.sent(chat)) for chat in self._chats}


async def until_told(command: Command, event: str) -> None:
    """Wait for a line of a daemon's log; three of them start at once, each with all its parts."""
    async with asyncio.timeout(PATIENCE_S):
        while not any(entry["event"] == event for entry in events(command)):
            assert command.process.returncode is None, command.text()[-6000:]
            await asyncio.sleep(0.1)


async def until(store: Store, look: Callable[[Transaction], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await store.read(look):  # noqa: ASYNC110 a store
            await asyncio.sleep(0.02)


async def ask_until_owned(everybody: Everybody, store: Store, host: str) -> None:
    """Let people ask, one after the other, until a worker of this host runs a turn."""

    def owns(tx: Transaction) -> bool:
        owners = select(processes.c.id).where(processes.c.host == host)
        owned = select(sessions.c.key).where(sessions.c.owner.in_(owners)).limit(1)
        return tx.conn.execute(owned).first() is not None

    async with asyncio.timeout(PATIENCE_S):
        while True:
            await everybody.ask()
            for _ in range(20):
                if await store.read(owns):
                    return
                await asyncio.sleep(0.02)


def workers_of(tx: Transaction, host: str) -> int:
    """How many workers of a host are alive."""
    found = select(processes.c.id).where(processes.c.host == host, processes.c.role == "worker")
    return len(tx.conn.execute(found).all())


def prefix_of(host: Host, clock: str) -> tuple[str, ...]:
    """What runs a command on a host, under its name and by its clock."""
    named = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host.name)
    # Not the command `faketime`: it stays beside the program, and dies in its place.
    clocked = (f"LD_PRELOAD={FAKETIME}", f"FAKETIME={clock}", "FAKETIME_DONT_FAKE_MONOTONIC=1")
    return (*host.prefix, *named, "env", *clocked)


@pytest.mark.hosts
@pytest.mark.timeout(600)
async def test_three_hosts_of_which_one_is_cut_off_and_one_loses_its_power(
    tmp_path: Path, hosts: list[Host], database: str, slack: SlackSimulator, model: ModelSimulator
) -> None:
    everybody, running = Everybody(slack), list[Command]()
    async with AsyncExitStack() as stack:
        for number, (host, clock) in enumerate(zip(hosts, CLOCKS, strict=True)):
            (folder := tmp_path / host.name).mkdir()
            config = write_config(
                folder,
                model_url=model.base_url("openai-chat"),
                slack=slack_keys(slack, "socket", 0) + ("\nenabled: false" if not number else ""),
                extra=f"database: {database}",
            )
            text = config.read_text().replace("heartbeat_s: 1, lease_s: 3", LEASE)
            config.write_text(text)
            opened = clawbot(config, "run", "--single", prefix=prefix_of(host, clock))
            running.append(await stack.enter_async_context(opened))
        store = await open_postgres_store(database)
        stack.push_async_callback(store.close)
        for command in running:
            await until_told(command, "daemon_ready")
        for _ in range(6):
            await everybody.ask()
        await everybody.until_answered()
        second, third = hosts[1], hosts[2]

        # The third host cannot reach the database any more, in the middle of a turn of its own:
        # others take that over, it waits, and what it still does changes nothing.
        await ask_until_owned(everybody, store, third.name)
        third.cut()
        for _ in range(6):
            await everybody.ask()
        await everybody.until_answered()
        await until(store, lambda tx: workers_of(tx, third.name) == 0)
        await until_told(running[2], "store_away")

        # It can again, and takes its share.
        third.heal()
        await until(store, lambda tx: workers_of(tx, third.name) == 1)
        await ask_until_owned(everybody, store, third.name)

        # The second host loses its power, in the middle of a turn of its own.
        await ask_until_owned(everybody, store, second.name)
        await asyncio.to_thread(second.lose_power)
        for _ in range(6):
            await everybody.ask()
        await everybody.until_answered()
        await slack.wait_settled(timeout_s=PATIENCE_S)
        await until(store, lambda tx: inbox.count_by_state(tx).keys() == {"done"})
        await until(store, lambda tx: outbox.count_by_state(tx).keys() == {"sent"})
        assert everybody.counts() == {1}
