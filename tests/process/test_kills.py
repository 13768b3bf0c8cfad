"""Processes killed at the worst moment: what was acknowledged is answered, and once."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.parts import STORE_FILE
from tests.adapters.slack_rig import until
from tests.flow.conftest import model, slack, slack_keys
from tests.flow.daemon import write_config
from tests.flow.test_slack_files import PLAN, STEPS, ask_for_a_file
from tests.process.commands import clawbot
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator

__all__ = ["model", "slack"]

LONG = "\n\n".join(f"Paragraph {number}: " + "word " * 120 for number in range(12))


@pytest.fixture
def config(tmp_path: Path, slack: SlackSimulator, model: ModelSimulator) -> Path:
    return write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
    )


def states(config: Path, table: str) -> dict[str, int]:
    """The rows of inbox or outbox by state."""
    with sqlite3.connect(config.parent / "state" / STORE_FILE) as database:
        rows = database.execute(f"SELECT state, count(*) FROM {table} GROUP BY state")  # noqa: S608
        return dict(rows.fetchall())


@pytest.fixture
async def adapter(config: Path, slack: SlackSimulator) -> AsyncIterator[None]:
    async with clawbot(config, "adapter", "slack"):
        await slack.wait_connected(timeout_s=30)
        yield


async def test_a_worker_killed_while_the_model_thinks_is_replaced_and_the_message_answered_once(
    config: Path, slack: SlackSimulator, model: ModelSimulator, adapter: None
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="ping")
    async with clawbot(config, "worker") as first:
        await slack.user_says(chat, alice, "ping")
        await gate.reached
        await first.kill()
    model.expect(Reply(text="pong"), when="ping")
    async with clawbot(config, "worker") as second:
        await slack.wait_text("pong", channel=chat, timeout_s=30)
        assert await second.stop() == 0
    assert [message.text for message in slack.sent(chat)] == ["pong"]
    assert states(config, "inbox") == {"done": 1}


async def test_an_adapter_killed_after_the_ack_answers_when_it_is_back(
    config: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    async with clawbot(config, "adapter", "slack") as first:
        await slack.wait_connected(timeout_s=30)
        ts = await slack.user_says(chat, alice, "ping")
        await slack.wait_settled()
        assert slack.deliveries(ts) == slack.acked() != []
        await first.kill()
    model.expect(Reply(text="pong"), when="ping")
    async with clawbot(config, "worker"), clawbot(config, "adapter", "slack"):
        await slack.wait_text("pong", channel=chat, timeout_s=30)
    assert [message.text for message in slack.sent(chat)] == ["pong"]


@pytest.mark.parametrize("how", ["hang_after", "slow:2"])
async def test_an_adapter_killed_between_two_parts_sends_each_part_once(
    config: Path, slack: SlackSimulator, model: ModelSimulator, how: str
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(text=LONG), when="tell me all")
    slack.fail_next("chat.postMessage", how, times=1 if how == "hang_after" else 2)
    async with clawbot(config, "worker"):
        async with clawbot(config, "adapter", "slack") as first:
            await slack.wait_connected(timeout_s=30)
            await slack.user_says(chat, alice, "tell me all")
            await slack.wait_sent(1, channel=chat, timeout_s=30)
            await first.kill()
        async with clawbot(config, "adapter", "slack"):
            await slack.wait_text("Paragraph 11", channel=chat, timeout_s=30)
            await slack.wait_settled()
    texts = [message.shown for message in slack.sent(chat)]
    assert sum(text.count("Paragraph 0:") for text in texts) == 1
    assert sum(text.count("Paragraph 11:") for text in texts) == 1
    assert sum(text.count("Paragraph ") for text in texts) == 12


@pytest.mark.parametrize("step", STEPS)
async def test_an_adapter_killed_between_the_steps_of_an_upload_sends_the_file_once(
    config: Path, slack: SlackSimulator, model: ModelSimulator, step: str
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    slack.fail_next(step, "hang_after")
    async with clawbot(config, "worker"):
        async with clawbot(config, "adapter", "slack") as first:
            await slack.wait_connected(timeout_s=30)
            await ask_for_a_file(slack, model, channel, alice)
            await slack.wait_for(
                lambda: [call for call in slack.calls(step) if call.processed], timeout_s=30
            )
            await first.kill()
        async with clawbot(config, "adapter", "slack"):
            await slack.wait_text("Here it is.", channel=channel, timeout_s=30)
            await slack.wait_for(lambda: slack.sent_files(channel), timeout_s=30)
            await until(lambda: states(config, "outbox") == {"sent": 2}, 30)
    assert [each.content for each in slack.sent_files(channel)] == [PLAN * 1000]
