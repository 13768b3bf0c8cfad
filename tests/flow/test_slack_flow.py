"""Slack simulator → real SDK → store → worker → model simulator → Slack simulator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator() as simulator:
        yield simulator


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator() as simulator:
        yield simulator


@pytest.fixture
async def daemon(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> AsyncIterator[Daemon]:
    config = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=f"""
            mode: socket
            bot_token: {slack.bot_token}
            app_token: {slack.app_token}
            api_base_url: {slack.api_url}
        """,
    )
    async with run_daemon(config, "worker", "slack") as running:
        await slack.wait_connected()
        yield running
        assert model.violations == []
        assert model.unexpected == []


async def test_a_direct_message_is_answered(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(text="Hello **Alice**"), when="hi there")
    await slack.user_says(chat, alice, "hi there")
    await slack.wait_sent(1, channel=chat)
    await daemon.until_quiet()
    assert [message.text for message in slack.sent(chat)] == ["Hello *Alice*"]
