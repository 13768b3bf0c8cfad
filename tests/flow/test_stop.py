"""G: a stop ends what it names, whatever that is doing, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import select

from clawbot.agent.interruption import INTERRUPTED
from clawbot.ports import Transaction
from clawbot.store import inbox
from clawbot.store.schema import approvals, events, messages, turns
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SlackSimulator
from tests.tools import Echo, Stubborn, Wait

OWNER = "U0OWNER"


@pytest.fixture
def wait() -> Wait:
    return Wait()


@pytest.fixture
def stubborn() -> Stubborn:
    return Stubborn()


@pytest.fixture
async def daemon(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator, wait: Wait, stubborn: Stubborn
) -> AsyncIterator[Daemon]:
    path = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
        extra=f"owners: ['slack:{OWNER}']",
    )
    async with run_daemon(path, "worker", "slack", tools=[Echo(), wait, stubborn]) as running:
        await connect(running, slack, None)
        yield running
        stubborn.may_end.set()


def call(name: str, text: str = "x") -> ToolCall:
    return ToolCall(name=name, arguments={"text": text})


def results(tx: Transaction) -> Sequence[tuple[str, str]]:
    """The results of tools in the history: (tool, text)."""
    found = tx.conn.execute(
        select(messages.c.tool, messages.c.text)
        .where(messages.c.kind == "tool_result")
        .order_by(messages.c.seq)
    )
    return [(row[0], row[1]) for row in found]


async def test_g2_stopping_everything_when_nothing_runs_changes_nothing(
    daemon: Daemon, slack: SlackSimulator
) -> None:
    olga = slack.create_user("olga", user_id=OWNER)
    chat = slack.create_dm(olga)
    await slack.user_says(chat, olga, "!stop all")
    await slack.wait_text("Nothing is running anywhere.", channel=chat)
    await slack.user_says(chat, olga, "全部停止")
    await slack.wait_text("当前没有任何正在运行的任务。", channel=chat)
    counts = await daemon.store.read(inbox.count_by_state)
    assert counts == {"done": 2}


async def test_only_an_owner_stops_everything(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice, bob = slack.create_user("alice"), slack.create_user("bob")
    front, back = slack.create_dm(alice), slack.create_dm(bob)
    gate = model.hold(when="long work")
    model.expect(Reply(text="all done"), when="long work")
    await slack.user_says(front, alice, "long work")
    await gate.reached
    await slack.user_says(back, bob, "!stop all")
    await slack.wait_text("Only an owner may do this", channel=back)
    gate.release()
    await slack.wait_text("all done", channel=front)
    await daemon.until_quiet()


async def test_g3_stopping_one_session_leaves_the_other_running(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, wait: Wait
) -> None:
    alice, bob = slack.create_user("alice"), slack.create_user("bob")
    front, back = slack.create_dm(alice), slack.create_dm(bob)
    model.expect(Reply(tool_calls=(call("wait", "front"),)), when="work for alice")
    gate = model.hold(when="work for bob")
    model.expect(Reply(text="bob's answer"), when="work for bob")
    await slack.user_says(front, alice, "work for alice")
    await slack.user_says(back, bob, "work for bob")
    await wait.until_begun("front")
    await gate.reached
    await slack.user_says(front, alice, "stop")
    await slack.wait_text("Stopped.", channel=front)
    gate.release()
    await slack.wait_text("bob's answer", channel=back)
    await daemon.until_quiet()
    assert wait.ended == ["front"]


async def test_g4_a_message_right_after_the_stop_is_answered(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, wait: Wait
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(tool_calls=(call("wait"),)), when="long work")
    model.expect(Reply(text="here again"), when="and now this")
    await slack.user_says(chat, alice, "long work")
    await wait.until_begun("x")
    await slack.user_says(chat, alice, "!stop")
    await slack.user_says(chat, alice, "and now this")
    await slack.wait_text("here again", channel=chat)
    await daemon.until_quiet()
    assert await daemon.store.read(results) == [("wait", INTERRUPTED)]


async def test_g5_a_stop_amid_five_tools_keeps_the_three_results_there_are(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, wait: Wait
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    calls = (
        *(call("echo", "1"), call("wait", "2"), call("echo", "3")),
        *(call("wait", "4"), call("echo", "5")),
    )
    model.expect(Reply(text="Five at once.", tool_calls=calls), when="five")
    await slack.user_says(chat, alice, "five")
    await wait.until_begun("2", "4")
    await daemon.until(results, lambda found: len(found) == 3)
    await slack.user_says(chat, alice, "!stop")
    await slack.wait_text("Stopped.", channel=chat)
    await daemon.until_quiet()
    found = await daemon.store.read(results)
    assert sorted(found) == [
        ("echo", "echo of 1"),
        ("echo", "echo of 3"),
        ("echo", "echo of 5"),
        ("wait", INTERRUPTED),
        ("wait", INTERRUPTED),
    ]
    # The next request is legal, and tells the model how it was.
    model.expect(Reply(text="Three were done."), when="how many")
    await slack.user_says(chat, alice, "how many?")
    await slack.wait_text("Three were done.", channel=chat)
    await daemon.until_quiet()
    assert model.requests[-1].all_text.count("Interrupted:") == 2
    assert "echo of 3" in model.requests[-1].all_text


async def test_g8_stopping_twice_at_once_ends_the_turn_once(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="long work")
    await slack.user_says(chat, alice, "long work")
    await gate.reached
    await asyncio.gather(
        *(slack.user_says(chat, alice, word) for word in ("!stop", "stop", "停止"))
    )
    await slack.wait_sent(3, channel=chat)
    await daemon.until(
        lambda tx: tx.conn.execute(select(turns.c.state)).scalars().all(),
        lambda states: states == ["stopped"],
    )
    ends = await daemon.store.read(
        lambda tx: tx.conn.execute(select(events.c.kind)).scalars().all().count("turn_ended")
    )
    assert ends == 1


async def test_g9_a_stop_that_arrives_again_does_not_cancel_the_newer_turn(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, wait: Wait
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(tool_calls=(call("wait"),)), when="first")
    await slack.user_says(chat, alice, "first")
    await wait.until_begun("x")
    stop = await slack.user_says(chat, alice, "!stop")
    await slack.wait_text("Stopped.", channel=chat)
    gate = model.hold(when="second")
    model.expect(Reply(text="the second answer"), when="second")
    await slack.user_says(chat, alice, "second")
    await gate.reached
    await slack.redeliver(stop, new_event_id=True)
    await slack.wait_settled()
    gate.release()
    await slack.wait_text("the second answer", channel=chat)
    await daemon.until_quiet()
    assert sum(message.text == "Stopped." for message in slack.sent(chat)) == 1


async def test_g6_what_outlives_a_stopped_turn_neither_holds_it_up_nor_wakes_it(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, stubborn: Stubborn
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(tool_calls=(call("stubborn"),)), when="dig in")
    model.expect(Reply(text="on we go"), when="next please")
    await slack.user_says(chat, alice, "dig in")
    await stubborn.began.wait()
    await slack.user_says(chat, alice, "!stop")
    await slack.user_says(chat, alice, "next please")
    await slack.wait_text("on we go", channel=chat)
    stubborn.may_end.set()
    await daemon.until_quiet()
    await daemon.stop("worker")
    assert await daemon.store.read(results) == [("stubborn", INTERRUPTED)]
    asked = await daemon.store.read(
        lambda tx: tx.conn.execute(select(approvals.c.id)).scalars().all()
    )
    assert asked == []
    assert [message.text for message in slack.sent(chat)] == ["Stopped.", "on we go"]


async def test_words_for_stopping_are_plain_text_while_nothing_runs(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(text="Shall I book or cancel?"), when="flights")
    model.expect(Reply(text="Not booked, then."), when="cancel")
    await slack.user_says(chat, alice, "flights?")
    await slack.wait_text("Shall I book", channel=chat)
    await daemon.until_quiet()
    await slack.user_says(chat, alice, "cancel")
    await slack.wait_text("Not booked, then.", channel=chat)
    await daemon.until_quiet()
