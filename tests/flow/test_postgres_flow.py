"""The whole path on PostgreSQL, with two workers on one database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.store import sessions
from tests.contracts.postgres_ground import make_schema
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.postgres import Cluster
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator


@pytest.fixture(scope="session")
def migrated(postgres: Cluster) -> str:
    return postgres.template("clawbot_schema", make_schema)


@pytest.fixture
def database(postgres: Cluster, migrated: str) -> str:
    url = postgres.url(postgres.create_database(migrated))
    return url.replace("postgresql+psycopg://", "postgresql://")


@pytest.fixture
async def cluster(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator, database: str
) -> AsyncIterator[Daemon]:
    config = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
        extra=f"database: {database}",
    )
    async with run_daemon(config, "worker", "worker-2", "slack") as running:
        await connect(running, slack, None)
        yield running


async def test_many_chats_are_answered_once_each_by_two_workers(
    cluster: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    people = [slack.create_user(f"user{number}") for number in range(12)]
    chats = [slack.create_dm(person) for person in people]
    for number in range(12):
        model.expect(Reply(text=f"answer {number}."), when=f"question {number}.")
    for number, (person, chat) in enumerate(zip(people, chats, strict=True)):
        await slack.user_says(chat, person, f"question {number}.")
    for number, chat in enumerate(chats):
        await slack.wait_text(f"answer {number}.", channel=chat)
    await cluster.until_quiet()
    assert [len(slack.sent(chat)) for chat in chats] == [1] * 12


async def test_a_stopped_worker_hands_its_turn_to_the_other(
    cluster: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="ping")
    await slack.user_says(chat, alice, "ping")
    await gate.reached
    model.expect(Reply(text="pong"), when="ping")
    (row,) = await cluster.store.read(lambda tx: sessions.recent(tx, 10))
    await cluster.stop(row["owner"].rpartition("-")[0])
    await slack.wait_text("pong", channel=chat, timeout_s=20)
    await cluster.until_quiet()
    assert [message.text for message in slack.sent(chat)] == ["pong"]
