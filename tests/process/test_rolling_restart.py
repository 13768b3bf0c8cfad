"""Stops and upgrades under load: nobody who asks meanwhile notices more than a longer wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from clawbot import parts
from clawbot.config import load_config
from clawbot.store import inbox, outbox
from tests.flow.conftest import slack_keys
from tests.flow.daemon import write_config
from tests.flow.test_postgres_flow import database, migrated
from tests.process.commands import clawbot
from tests.process.rolling import GRACE_S, Crowd, Fleet, answer
from tests.process.test_troubles import PATIENT, events, until_logged
from tests.simulators.model import ModelSimulator, RecordedRequest, Reply
from tests.simulators.slack import SlackSimulator

__all__ = ["database", "migrated"]

LIMITS = f"heartbeat_s: 1, lease_s: 8, grace_s: {GRACE_S}"


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(retry_delays_s=PATIENT, ack_timeout_s=2.0) as simulator:
        yield simulator


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator(answer) as simulator:
        yield simulator
        assert simulator.violations == []


@pytest.fixture(params=["sqlite", "postgres"])
def store_line(request: pytest.FixtureRequest) -> str:
    """The line of the config that names the store."""
    if request.param == "sqlite":
        return ""
    return f"database: {request.getfixturevalue('database')}"


def configured(folder: Path, slack: SlackSimulator, model: ModelSimulator, extra: str) -> Path:
    url, keys = model.base_url("openai-chat"), slack_keys(slack, "socket", 0)
    path = write_config(folder, model_url=url, slack=keys, extra=extra)
    path.write_text(path.read_text().replace("heartbeat_s: 1, lease_s: 3, grace_s: 5", LIMITS))
    return path


async def states_of(config: Path) -> set[str]:
    """In which states messages and replies are."""
    store = await parts.open_store(await asyncio.to_thread(load_config, config))
    try:
        messages = await store.read(inbox.count_by_state)
        return {*messages, *await store.read(outbox.count_by_state)}
    finally:
        await store.close()


def check_nothing_vanished(crowd: Crowd) -> None:
    """What people have read of an answer stays while it grows, whoever goes on with it."""
    for asked in crowd.asked:
        for message in crowd.answers(asked):
            seen = [len(text.rstrip()) for text in message.revisions]
            assert all(after >= before for before, after in pairwise(seen)), message.revisions


@pytest.mark.timeout(300)
async def test_processes_that_are_replaced_one_by_one_under_load_lose_and_double_nothing(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator, database: str
) -> None:
    config = configured(tmp_path, slack, model, f"database: {database}")
    arguments = {
        "worker-1": ("worker",),
        "adapter-1": ("adapter", "slack"),
        "worker-2": ("worker",),
        "adapter-2": ("adapter", "slack"),
    }
    fleet, crowd = Fleet(dict.fromkeys(arguments, config), arguments), Crowd(slack)
    try:
        await asyncio.gather(*map(fleet.start, arguments))
        async with crowd.at_work():
            await fleet.until_taken_by(2)
            for name in arguments:
                await crowd.until_one_grows()
                await fleet.replace(name)
            await fleet.until_taken_by(4)  # both adapters and both of their successors
        await crowd.until_answered()
        await asyncio.gather(*map(fleet.stop, arguments))
    finally:
        await fleet.close()
    crowd.check_each_was_answered_once()
    check_nothing_vanished(crowd)
    assert await states_of(config) == {"done", "sent"}
    ends = [entry for entry in fleet.logged() if entry["event"] == "turn_finished"]
    assert {entry["outcome"] for entry in ends} == {"done", "given_back"}


@pytest.mark.timeout(300)
async def test_a_daemon_stopped_under_load_answers_everybody_once_when_it_is_back(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator, store_line: str
) -> None:
    config, crowd = configured(tmp_path, slack, model, f"workers: 2\n{store_line}"), Crowd(slack)
    async with crowd.at_work():
        async with clawbot(config, "run") as command:
            await until_logged(command, "daemon_ready")
            await crowd.until_one_grows()
            assert await command.stop() == 0, command.text()[-6000:]
        assert not {entry["event"] for entry in events(command)} & {"part_cut_off"}
    async with clawbot(config, "run") as command:
        await crowd.until_answered()
        assert await command.stop() == 0
    crowd.check_each_was_answered_once()
    check_nothing_vanished(crowd)
    assert await states_of(config) == {"done", "sent"}


@pytest.mark.parametrize("mode", ["processes", "single"])
async def test_what_is_answered_while_the_daemon_ends_is_sent_before_it_has_ended(
    tmp_path: Path, slack: SlackSimulator, mode: str
) -> None:
    is_asked = asyncio.Event()

    async def thoughtful(_request: RecordedRequest) -> Reply:
        is_asked.set()
        return Reply(text="at the last moment", delay_s=GRACE_S / 2)

    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    async with ModelSimulator(thoughtful) as model:
        config = configured(tmp_path, slack, model, "")
        more = ("--single",) if mode == "single" else ()
        async with clawbot(config, "run", *more) as command:
            await until_logged(command, "daemon_ready")
            await slack.user_says(chat, alice, "what do you think?")
            await is_asked.wait()
            assert await command.stop() == 0
    assert [message.shown for message in slack.sent(chat)] == ["at the last moment"]
