"""Buttons and shortcuts on Slack: as good as typing, no more and no less."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.slack.interactions import ASK_ABOUT
from tests.flow.conftest import connect
from tests.flow.daemon import Daemon, run_daemon
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SlackSimulator
from tests.tools import Deploy

APPROVE, DENY = "clawbot_command:0", "clawbot_command:1"


@pytest.fixture
def deploy() -> Deploy:
    return Deploy()


@pytest.fixture
async def daemon(
    config_path: Path, slack: SlackSimulator, transport: str, deploy: Deploy
) -> AsyncIterator[Daemon]:
    async with run_daemon(config_path, "worker", "slack", tools=[deploy]) as running:
        port = (config_path.parent / "port").read_text() if transport == "http" else None
        await connect(running, slack, port)
        yield running


async def asked(slack: SlackSimulator, model: ModelSimulator, channel: str, alice: str) -> str:
    """Alice's thread waits for an approval; the ts of the question."""
    call = ToolCall(name="deploy", arguments={"text": "shop v2"})
    model.expect(Reply(text="I will.", tool_calls=(call,)), when="ship it")
    await slack.user_says(channel, alice, "ship it", mention=True)
    return (await slack.wait_text("May I do this?", channel=channel)).ts


async def test_a_call_is_approved_by_a_press_and_once(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    question = await asked(slack, model, channel, alice)
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    press = await slack.press_button(channel, question, alice, APPROVE)
    await slack.wait_text("Shipped.", channel=channel)
    await slack.press_button(channel, question, alice, DENY)
    await slack.wait_text("was approved before", channel=channel)
    await slack.redeliver(press)
    await slack.wait_settled()
    await daemon.until_quiet()
    assert deploy.made == ["shop v2"]
    assert len({message.thread_ts for message in slack.sent(channel)}) == 1
    assert slack.unacked() == []


async def test_a_press_of_somebody_else_decides_nothing(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, deploy: Deploy
) -> None:
    alice, mallory = slack.create_user("alice"), slack.create_user("mallory")
    channel = slack.create_channel("general", [alice, mallory])
    question = await asked(slack, model, channel, alice)
    before = len(slack.sent(channel))
    await slack.press_button(channel, question, mallory, APPROVE)
    await slack.wait_sent(before + 1, channel=channel)
    assert deploy.made == []
    model.expect(Reply(text="Then not."), marker="A person refused this call")
    await slack.press_button(channel, question, alice, DENY)
    await slack.wait_text("Then not.", channel=channel)
    await daemon.until_quiet()
    assert deploy.made == []


async def test_a_running_conversation_is_stopped_from_the_root_of_its_channel(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    gates = [model.hold(when=name) for name in ("first job", "second job")]
    model.expect(Reply(text="second done"), when="second job")
    for gate, name in zip(gates, ("first job", "second job"), strict=True):
        await slack.user_says(channel, alice, name, mention=True)
        await gate.reached
    await slack.slash_command(channel, alice, "/clawbot", "stop")
    listed = await slack.wait_text("are running", channel=channel)
    await slack.press_button(channel, listed.ts, alice, "clawbot_command:0")
    await slack.wait_text("Stopped.", channel=channel)
    first = next(one for one in model.requests if "first job" in one.all_text)
    await model.wait_until(lambda: first.outcome == "disconnected", "the call to be closed")
    gates[1].release()
    await slack.wait_text("second done", channel=channel)
    await daemon.until_quiet()
    assert not any("first" in message.text for message in slack.sent(channel))


async def test_a_message_can_be_asked_about(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice, bob = slack.create_user("alice"), slack.create_user("bob")
    channel = slack.create_channel("general", [alice, bob])
    ts = await slack.user_says(channel, bob, f"<@{alice}> what is an `ouroboros` & why?")
    await slack.wait_settled()
    model.expect(Reply(text="A snake."), when="ouroboros")
    await slack.message_shortcut(channel, ts, alice, ASK_ABOUT)
    await slack.wait_text("A snake.", channel=channel)
    await daemon.until_quiet()
    (sent,) = slack.sent(channel)
    assert sent.thread_ts == ts
    assert "> @alice what is an `ouroboros` & why?\n> — @bob" in model.requests[0].all_text
    await slack.message_shortcut(channel, ts, alice, "of_another_time")
    await slack.wait_settled()
    assert slack.unacked() == []
