"""A turn that ends its worker each time is given up, visibly, and takes nothing else with it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.flow.conftest import model, slack, slack_keys
from tests.flow.daemon import write_config
from tests.process.commands import clawbot
from tests.process.killed_at import order_death
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator

__all__ = ["model", "slack"]

WAIT_S = 120.0
TRIES = 3

pytestmark = pytest.mark.timeout(400)


async def test_a_turn_whose_worker_died_three_times_is_given_up(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    slack.create_user("alice", user_id="U1")
    slack.create_user("bob", user_id="U2")
    deadly, other = slack.create_dm("U1"), slack.create_dm("U2")
    url, keys = model.base_url("openai-chat"), slack_keys(slack, "socket", 0)
    config = write_config(tmp_path, model_url=url, slack=keys)
    model.expect(Reply(text="Good."), when="how are you?")
    arguments = ("clawbot.runner:_prepare", "before", str(tmp_path), "--", "worker")
    async with clawbot(config, "adapter", "slack"):
        await slack.wait_connected(timeout_s=WAIT_S)
        await slack.user_says(deadly, "U1", "be my end")
        for _ in range(TRIES):
            await asyncio.to_thread(order_death, tmp_path)
            async with (
                clawbot(config, *arguments, module="tests.process.killed_at") as victim,
                asyncio.timeout(WAIT_S),
            ):
                assert await victim.process.wait() == -signal.SIGKILL, victim.text()
        async with clawbot(config, "worker"):
            await slack.user_says(other, "U2", "how are you?")
            await slack.wait_text("Good.", channel=other, timeout_s=WAIT_S)
            await slack.wait_for(lambda: len(slack.sent(deadly)) > 0, timeout_s=WAIT_S)
    (told,) = slack.sent(deadly)
    assert "error" in told.text.lower()
    assert not any("be my end" in one.system + str(one.body) for one in model.requests)
