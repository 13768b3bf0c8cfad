"""The database is away for longer than a lease: nothing is acknowledged, and all goes on by itself.

The parts lose their leases, end, and wait for the store; none of that counts as a crash, so that
nobody waits a minute for a part that was tried too often.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contracts.postgres_ground import make_schema
from tests.flow.conftest import model, slack_keys
from tests.flow.daemon import write_config
from tests.postgres import Cluster
from tests.process.commands import Command, clawbot
from tests.process.test_troubles import PATIENT, events, until_logged
from tests.process.waiting import eventually
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator

__all__ = ["model"]

PAGE_BYTES = 4096


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(retry_delays_s=PATIENT, ack_timeout_s=1.0) as simulator:
        yield simulator


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A server that may be halted without harm to other tests."""
    cluster = Cluster.start()
    try:
        cluster.template("clawbot_schema", make_schema)
        yield cluster
    finally:
        cluster.stop()


def config_on(cluster: Cluster, folder: Path, slack: SlackSimulator, model: ModelSimulator) -> Path:
    url = cluster.url(cluster.template("clawbot_schema", make_schema))
    return write_config(
        folder,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
        extra=f"database: {url.replace('+psycopg', '')}",
    )


def family(pid: int) -> list[int]:
    """A process and its children."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [pid, *(int(child) for child in listed.split())]


@contextmanager
def full_disk(command: Command) -> Iterator[None]:
    """Let the kernel refuse the daemon's processes, also new ones, any file of more than a page."""
    before = resource.prlimit(command.process.pid, resource.RLIMIT_FSIZE)
    for pid in family(command.process.pid):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (PAGE_BYTES, before[1]))
    try:
        yield
    finally:
        for pid in family(command.process.pid):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


async def until_parts_wait(command: Command) -> None:
    """Wait until both parts have given up their leases and their next processes wait."""

    def both(event: str) -> bool:
        names = {
            entry["process"].rpartition("-")[0]
            for entry in events(command)
            if entry["event"].startswith(event)
        }
        return {"worker-1", "adapter-slack"} <= names

    await eventually(lambda: both("part_lost_its_") and both("store_away"))


async def check(command: Command, slack: SlackSimulator, chat: str, ts: str) -> None:
    """The message that came meanwhile was answered once, and no part was given up."""
    await slack.wait_text("pong", channel=chat, timeout_s=40)
    await slack.wait_settled(timeout_s=30)
    assert [delivery.state for delivery in slack.deliveries(ts)] == ["acked"]
    assert [message.text for message in slack.sent(chat)] == ["pong"]
    ended = [entry for entry in events(command) if entry["event"] == "child_ended"]
    assert ended
    assert not any(entry["degraded"] for entry in ended)
    assert await command.stop() == 0


async def test_a_disk_that_is_full_for_longer_than_a_lease(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    keys = slack_keys(slack, "socket", 0)
    path = write_config(tmp_path, model_url=model.base_url("openai-chat"), slack=keys)
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(text="pong"), when="ping")
    async with clawbot(path, "run", piped=True) as command:
        await slack.wait_connected(timeout_s=30)
        await until_logged(command, "daemon_ready")
        with full_disk(command):
            ts = await slack.user_says(chat, alice, "ping")
            await until_parts_wait(command)
            assert slack.acked() == []
            async with clawbot(path, "status") as status:
                assert await status.ended() == 0
            assert "has written to the database" in status.text()
        await check(command, slack, chat, ts)


async def test_a_database_server_that_is_down_for_longer_than_a_lease(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator, own_cluster: Cluster
) -> None:
    path = config_on(own_cluster, tmp_path, slack, model)
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(text="pong"), when="ping")
    async with clawbot(path, "run") as command:
        await slack.wait_connected(timeout_s=30)
        await until_logged(command, "daemon_ready")
        await asyncio.to_thread(own_cluster.halt)
        ts = await slack.user_says(chat, alice, "ping")
        await until_parts_wait(command)
        assert slack.acked() == []
        await asyncio.to_thread(own_cluster.resume)
        await check(command, slack, chat, ts)


async def test_a_daemon_that_starts_before_its_database_server_waits_for_it(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator, own_cluster: Cluster
) -> None:
    path = config_on(own_cluster, tmp_path, slack, model)
    await asyncio.to_thread(own_cluster.halt)
    async with clawbot(path, "run") as command, clawbot(path, "worker") as worker:
        await until_logged(command, "store_away")
        await until_logged(worker, "store_away")
        await asyncio.to_thread(own_cluster.resume)
        await until_logged(command, "daemon_ready")
        await until_logged(worker, "store_back")
        assert await worker.stop() == 0
        assert await command.stop() == 0
