"""Several processes for one channel: all of them work, or one does and the others stand by."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flow.conftest import model, slack_keys
from tests.flow.daemon import write_config
from tests.flow.wechat_ground import write_channel
from tests.process.commands import Command, clawbot
from tests.process.test_troubles import events, until_logged
from tests.process.waiting import eventually
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator
from tests.simulators.wechat import AibotSimulator

__all__ = ["model"]


@pytest.fixture
async def aibot() -> AsyncIterator[AibotSimulator]:
    async with AibotSimulator() as simulator:
        yield simulator


def has_logged(command: Command, event: str) -> bool:
    return any(entry["event"] == event for entry in events(command))


async def test_where_a_platform_keeps_one_connection_another_process_takes_over(
    tmp_path: Path, model: ModelSimulator, aibot: AibotSimulator
) -> None:
    keys = {
        "type": "wecom_bot",
        "mode": "socket",
        "bot_id": aibot.bot_id,
        "secret": aibot.secret,
        "socket_url": aibot.socket_url,
    }
    config = write_channel(tmp_path, model.base_url("openai-chat"), keys)
    for number in range(3):
        model.expect(Reply(text=f"answer {number}"), when=f"question {number}")
    adapter = ("adapter", "wecom_bot")
    async with (
        clawbot(config, "worker"),
        clawbot(config, *adapter) as one,
        clawbot(config, *adapter) as two,
    ):
        await aibot.wait_linked(timeout_s=40)
        await eventually(lambda: any(has_logged(each, "channel_stands_by") for each in (one, two)))
        waits, serves = sorted((one, two), key=lambda each: has_logged(each, "channel_up"))
        aibot.user_says("alice", "question 0")
        assert await aibot.wait_finished(1, timeout_s=40) == ["answer 0"]
        # Killed, it is followed when its lease is over, and not while it lives.
        assert aibot.subscriptions == 1
        await serves.kill()
        await until_logged(waits, "channel_taken_over")
        await until_logged(waits, "channel_up")
        aibot.user_says("alice", "question 1")
        assert await aibot.wait_finished(2, timeout_s=40) == ["answer 0", "answer 1"]
        # Stopped, it is followed at once.
        async with clawbot(config, *adapter) as three:
            await until_logged(three, "channel_stands_by")
            assert await waits.stop() == 0
            await until_logged(three, "channel_up")
            aibot.user_says("alice", "question 2")
            assert (await aibot.wait_finished(3, timeout_s=40))[-1] == "answer 2"
            assert aibot.subscriptions == 3


async def test_where_a_platform_spreads_its_events_several_processes_share_a_channel(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with SlackSimulator() as slack:
        path = write_config(
            tmp_path,
            model_url=model.base_url("openai-chat"),
            slack=slack_keys(slack, "socket", 0),
        )
        people = [slack.create_user(f"user{number}") for number in range(10)]
        chats = [slack.create_dm(person) for person in people]
        for number in range(10):
            model.expect(Reply(text=f"answer {number}."), when=f"question {number}.")
        async with (
            clawbot(path, "worker"),
            clawbot(path, "adapter", "slack") as one,
            clawbot(path, "adapter", "slack") as two,
        ):
            for each in (one, two):
                await until_logged(each, "channel_up")
            for number in range(5):
                await slack.user_says(chats[number], people[number], f"question {number}.")
            for number in range(5):
                await slack.wait_text(f"answer {number}.", channel=chats[number], timeout_s=30)
            await two.kill()
            for number in range(5, 10):
                await slack.user_says(chats[number], people[number], f"question {number}.")
            for number in range(5, 10):
                await slack.wait_text(f"answer {number}.", channel=chats[number], timeout_s=30)
            await slack.wait_settled(timeout_s=30)
        assert [len(slack.sent(chat)) for chat in chats] == [1] * 10
