"""Buttons and shortcuts on Slack: as good as typing, no more and no less."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import update

from adapters.slack.interactions import ASK_ABOUT
from clawbot.ports import Transaction
from clawbot.store import outbox
from clawbot.store.schema import approvals, sessions
from clawbot.store.topics import TURNS
from tests.flow.conftest import connect
from tests.flow.daemon import Daemon, run_daemon
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SentMessage, SlackSimulator
from tests.tools import Deploy

APPROVE, ALWAYS, FOR_AN_HOUR, DENY = (f"clawbot_command:{number}" for number in range(4))


def expire(tx: Transaction) -> None:
    """Let the time of all questions be over."""
    tx.conn.execute(update(approvals).values(expires_ms=1))
    tx.conn.execute(update(sessions).values(due_ms=1, wait_until_ms=None))
    tx.ring(TURNS)


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
    await slack.wait_text("Approved by alice.", channel=channel)
    with pytest.raises(LookupError):
        await slack.press_button(channel, question, alice, DENY)
    await slack.user_says(
        channel, alice, "!deny", thread_ts=shown(slack, channel, question).thread_ts
    )
    await slack.wait_text("no open question", channel=channel)
    await slack.redeliver(press)
    await slack.wait_settled()
    await daemon.until_quiet()
    assert deploy.made == ["shop v2"]
    assert len({message.thread_ts for message in slack.sent(channel)}) == 1
    assert slack.unacked() == []


@pytest.mark.parametrize(
    ("button", "ending"),
    [
        (ALWAYS, "Approved by alice for this conversation."),
        (FOR_AN_HOUR, "Approved by alice until "),
    ],
)
async def test_a_press_approves_the_same_call_for_longer(
    daemon: Daemon,
    slack: SlackSimulator,
    model: ModelSimulator,
    deploy: Deploy,
    button: str,
    ending: str,
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    question = await asked(slack, model, channel, alice)
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    await slack.press_button(channel, question, alice, button)
    await slack.wait_text("Shipped.", channel=channel)
    changed = await slack.wait_text(ending, channel=channel)
    assert changed.ts == question
    assert not has_buttons(changed)
    call = ToolCall(name="deploy", arguments={"text": "shop v2"})
    model.expect(Reply(tool_calls=(call,)), when="once more")
    model.expect(Reply(text="Shipped twice."), when="once more")
    await slack.user_says(channel, alice, "once more", thread_ts=changed.thread_ts)
    await slack.wait_text("Shipped twice.", channel=channel)
    await daemon.until_quiet()
    assert deploy.made == ["shop v2", "shop v2"]
    assert not any(has_buttons(message) for message in slack.sent(channel))


def shown(slack: SlackSimulator, channel: str, ts: str) -> SentMessage:
    """A message as it stands."""
    return next(message for message in slack.sent(channel) if message.ts == ts)


def has_buttons(message: SentMessage) -> bool:
    """Whether one can press anything below a message."""
    return any(block["type"] == "actions" for block in message.blocks)


@pytest.mark.parametrize("how", ["typed", "expired", "stopped"])
async def test_a_question_that_was_not_pressed_shows_its_end_too(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, how: str
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    question = await asked(slack, model, channel, alice)
    await daemon.until(outbox.count_by_state, lambda counts: counts.get("sent") == 2)
    thread = shown(slack, channel, question).thread_ts
    end = {"typed": "Refused by alice.", "expired": "in time", "stopped": "was stopped"}[how]
    if how != "stopped":
        model.expect(Reply(text="Then not."), marker="it was not made")
    if how == "typed":
        await slack.user_says(channel, alice, "!deny too early", thread_ts=thread)
    elif how == "stopped":
        await slack.user_says(channel, alice, "!stop", thread_ts=thread)
    else:
        await daemon.store.write(expire)
    changed = await slack.wait_text(end, channel=channel)
    assert changed.ts == question
    assert "deploy" in changed.shown, "what was asked still stands there"
    assert not has_buttons(changed)
    await daemon.until_quiet()


async def test_a_question_that_is_decided_while_its_channel_is_down_shows_it_afterwards(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    question = await asked(slack, model, channel, alice)
    await daemon.until(outbox.count_by_state, lambda counts: counts.get("sent") == 2)
    await daemon.stop("slack")
    model.expect(Reply(text="Then not."), marker="it was not made")
    await daemon.store.write(expire)
    await daemon.until(outbox.count_by_state, lambda counts: counts.get("pending") == 2)
    await daemon.start("slack")
    changed = await slack.wait_text("in time", channel=channel)
    assert (changed.ts, has_buttons(changed)) == (question, False)
    await slack.wait_text("Then not.", channel=channel)
    await daemon.until_quiet()


async def test_a_question_that_cannot_be_changed_is_left_and_counts_as_sent(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    question = await asked(slack, model, channel, alice)
    slack.fail_next("chat.update", "error:message_not_found")
    model.expect(Reply(text="Shipped."), marker="deployed shop v2")
    await slack.press_button(channel, question, alice, APPROVE)
    await slack.wait_text("Shipped.", channel=channel)
    await daemon.until_quiet()
    counts = await daemon.store.read(outbox.count_by_state)
    assert set(counts) == {"sent"}
    assert sum("May I do this?" in each.shown for each in slack.sent(channel)) == 1


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
    await slack.user_says(channel, alice, "which is which?", thread_ts=listed.ts)
    await slack.press_button(channel, listed.ts, alice, "clawbot_command:0")
    changed = await slack.wait_text("Stop 1 (alice): Stopped.", channel=channel)
    (actions,) = [block for block in changed.blocks if block["type"] == "actions"]
    assert [one["text"]["text"] for one in actions["elements"]] == ["Stop 2"]
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
