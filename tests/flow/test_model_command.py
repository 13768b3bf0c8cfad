"""`/model`: people choose for their conversation among the models that the admin offers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator


@pytest.fixture
async def daemon(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> AsyncIterator[Daemon]:
    path = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
        extra="models: ['openai-chat:clever']",
    )
    async with run_daemon(path, "worker", "slack") as running:
        await connect(running, slack, None)
        yield running


async def test_a_conversation_has_the_model_that_was_chosen_in_it(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    front, back = (slack.create_dm(slack.create_user(name)) for name in ("alice", "bob"))

    async def say(chat: str, text: str, told: str) -> None:
        person = {front: "alice", back: "bob"}[chat]
        await slack.user_says(chat, person, text)
        await slack.wait_text(told, channel=chat)

    async def answered_by(chat: str, number: int) -> str:
        model.expect(Reply(text=f"answer {number}"), when=f"question {number}")
        await say(chat, f"question {number}", f"answer {number}")
        await daemon.until_quiet()
        return str(model.requests[-1].body["model"])

    await say(front, "!model", "`!model NAME` chooses another one: `openai-chat:clever`")
    await say(front, "!model openai-chat:nothing", "No model `openai-chat:nothing` is offered")
    assert await answered_by(front, 1) == "scripted"
    await say(front, "!model openai-chat:clever", "From the next answer on: `openai-chat:clever`")
    assert await answered_by(front, 2) == "clever"
    assert await answered_by(back, 3) == "scripted"
    await say(front, "!status", "Idle. Model: openai-chat:clever.")
    await say(front, "！模型 默认", "从下一次回答起使用 `openai-chat:scripted`")
    assert await answered_by(front, 4) == "scripted"


async def test_where_no_other_is_offered_it_says_so(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    path = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
    )
    chat = slack.create_dm(slack.create_user("alice"))
    async with run_daemon(path, "worker", "slack") as daemon:
        await connect(daemon, slack, None)
        await slack.user_says(chat, "alice", "!model")
        await slack.wait_text("no other is offered", channel=chat)
