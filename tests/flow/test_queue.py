"""I9, B12: what happens to messages that arrive while their session is busy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import select, update

from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.session_settings import SessionSettings, changed, stored
from clawbot.store import inbox
from clawbot.store.schema import sessions, turns
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SlackSimulator
from tests.tools import Gated

Start = Callable[..., AbstractAsyncContextManager[Daemon]]


@pytest.fixture
def gated() -> Gated:
    return Gated()


@pytest.fixture
def start(tmp_path: Path, slack: SlackSimulator, model: ModelSimulator, gated: Gated) -> Start:
    """Starts the daemon with further keys of its channel."""

    @asynccontextmanager
    async def started(extra: str = "", **keys: object) -> AsyncIterator[Daemon]:
        lines = [slack_keys(slack, "socket", 0), *(f"{k}: {v}" for k, v in keys.items())]
        url = model.base_url("openai-chat")
        path = write_config(tmp_path, model_url=url, slack="\n".join(lines), extra=extra)
        async with run_daemon(path, "worker", "slack", tools=[gated]) as running:
            await connect(running, slack, None)
            yield running

    return started


def turn_states(tx: Transaction) -> list[str]:
    found = tx.conn.execute(select(turns.c.state).order_by(turns.c.started_ms, turns.c.first_seq))
    return list(found.scalars())


def waits(count: int) -> Callable[[dict[str, int]], bool]:
    return lambda counts: counts.get("queued", 0) == count


async def burst(slack: SlackSimulator, chat: str, person: str, *texts: str) -> None:
    for text in texts:
        await slack.user_says(chat, person, text)


async def test_i9_ten_quick_messages_are_collected_into_two_turns(
    start: Start, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="number 0")
    model.expect(Reply(text="the first"), when="number 0")
    model.expect(Reply(text="the rest"), when="number 9")
    async with start() as daemon:
        await burst(slack, chat, alice, "number 0")
        await gate.reached
        await burst(slack, chat, alice, *(f"number {n}" for n in range(1, 10)))
        await daemon.until(inbox.count_by_state, waits(9))
        gate.release()
        await slack.wait_text("the rest", channel=chat)
        await daemon.until_quiet()
        assert [message.text for message in slack.sent(chat)] == ["the first", "the rest"]
        assert all(f"number {n}" in model.requests[1].all_text for n in range(10))


async def test_followup_gives_each_message_its_own_turn(
    start: Start, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="one")
    for text in ("one", "two", "three"):
        model.expect(Reply(text=f"answer to {text}"), when=text)
    async with start(queue="followup") as daemon:
        await burst(slack, chat, alice, "one")
        await gate.reached
        await burst(slack, chat, alice, "two", "three")
        await daemon.until(inbox.count_by_state, waits(2))
        gate.release()
        await slack.wait_text("answer to three", channel=chat)
        await daemon.until_quiet()
        texts = [message.text for message in slack.sent(chat)]
        assert texts == ["answer to one", "answer to two", "answer to three"]


async def test_b12_with_steer_a_message_joins_the_turn_after_the_results_of_its_tools(
    start: Start, slack: SlackSimulator, model: ModelSimulator, gated: Gated
) -> None:
    alice, bob = slack.create_user("alice"), slack.create_user("bob")
    channel = slack.create_channel("general", [alice, bob])
    calls = tuple(ToolCall(name="gated", arguments={"text": text}) for text in ("a", "b"))
    model.expect(Reply(text="Working.", tool_calls=calls), when="do it")
    model.expect(Reply(text="In French, then."), when="in French please")
    model.expect(Reply(text="Hello Bob."), when="hello from bob")
    async with start(queue="steer") as daemon:
        root = await slack.user_says(channel, alice, "do it", mention=True)
        await gated.until_begun("a", "b")
        await slack.user_says(channel, alice, "in French please", thread_ts=root)
        await slack.user_says(channel, bob, "hello from bob", thread_ts=root)
        await daemon.until(inbox.count_by_state, waits(2))
        gated.release()
        await slack.wait_text("Hello Bob.", channel=channel)
        await daemon.until_quiet()
        steered = model.requests[1].conversation.messages
        kinds = [message.role for message in steered[-4:]]
        assert kinds == ["assistant", "tool", "tool", "user"], kinds
        assert "in French please" in steered[-1].text
        assert "hello from bob" not in model.requests[1].all_text
        assert await daemon.store.read(turn_states) == ["done", "done"]
        texts = [message.text for message in slack.sent(channel)]
        assert texts == ["Working.\n\nIn French, then.", "Hello Bob."]


async def test_interrupt_cuts_the_turn_short_and_answers_all_in_one(
    start: Start, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.hold(when="a poem about the sea")
    model.expect(Reply(text="A poem about mountains."), when="no, about mountains")
    async with start(queue="interrupt") as daemon:
        await burst(slack, chat, alice, "a poem about the sea")
        await model.wait_calls(1)
        await burst(slack, chat, alice, "no, about mountains")
        await slack.wait_text("A poem about mountains.", channel=chat)
        await daemon.until_quiet()
        assert model.requests[0].outcome == "disconnected"
        assert model.requests[1].all_text.count("a poem about the sea") == 1
        assert await daemon.store.read(turn_states) == ["stopped", "done"]
        assert await daemon.store.read(inbox.count_by_state) == {"done": 2}
        assert [message.text for message in slack.sent(chat)] == ["A poem about mountains."]


async def test_interrupt_keeps_what_people_saw_and_what_tools_had_done(
    start: Start, slack: SlackSimulator, model: ModelSimulator, gated: Gated
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    call = ToolCall(name="gated", arguments={"text": "a"})
    model.expect(Reply(text="Let me look.", tool_calls=(call,)), when="what is there")
    model.expect(Reply(text="Never mind, then."), when="never mind")
    async with start(queue="interrupt") as daemon:
        await burst(slack, chat, alice, "what is there?")
        await gated.until_begun("a")
        await slack.wait_text("Let me look.", channel=chat)
        await burst(slack, chat, alice, "never mind")
        await slack.wait_text("Never mind, then.", channel=chat)
        await daemon.until_quiet()
        assert gated.ended == ["a"]
        second = model.requests[1].all_text
        assert second.index("what is there?") < second.index("Let me look.")
        assert second.index("Let me look.") < second.index("Interrupted:")
        assert second.index("cut short by a newer message") < second.index("never mind")
        texts = [message.text for message in slack.sent(chat)]
        assert texts == ["Let me look.", "Never mind, then."]


async def test_interrupt_leaves_another_person_s_turn_alone(
    start: Start, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice, bob = slack.create_user("alice"), slack.create_user("bob")
    channel = slack.create_channel("general", [alice, bob])
    gate = model.hold(when="alice's question")
    model.expect(Reply(text="for alice"), when="alice's question")
    model.expect(Reply(text="for bob"), when="bob's question")
    async with start(queue="interrupt") as daemon:
        root = await slack.user_says(channel, alice, "alice's question", mention=True)
        await gate.reached
        await slack.user_says(channel, bob, "bob's question", thread_ts=root)
        await slack.user_says(channel, alice, "hm", thread_ts=root)
        await daemon.until(inbox.count_by_state, waits(2))
        model.expect(Reply(text="for alice again"), when="hm")
        gate.release()
        await slack.wait_text("for alice again", channel=channel)
        await daemon.until_quiet()
        assert await daemon.store.read(turn_states) == ["done", "done", "done"]


async def test_who_sends_too_much_is_told_once_and_nothing_vanishes(
    start: Start, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="number 0")
    model.expect(Reply(text="the first"), when="number 0")
    model.expect(Reply(text="the rest"), when="number 2")
    async with start(queue_limit=2) as daemon:
        await burst(slack, chat, alice, "number 0")
        await gate.reached
        await burst(slack, chat, alice, "number 1", "number 2")
        await daemon.until(inbox.count_by_state, waits(2))
        await burst(slack, chat, alice, "number 3", "number 4")
        await slack.wait_text("too many messages wait", channel=chat)
        await daemon.until(inbox.count_by_state, lambda counts: counts.get("refused") == 2)
        gate.release()
        await slack.wait_text("the rest", channel=chat)
        await daemon.until_quiet()
        texts = [message.text for message in slack.sent(chat)]
        assert sum("too many messages wait" in text for text in texts) == 1
        assert len(texts) == 3


async def test_a_burst_after_a_turn_is_waited_for_and_an_idle_session_is_not(
    start: Start, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="number 0")
    model.expect(Reply(text="the first"), when="number 0")
    model.expect(Reply(text="all of them"), when="number 3")
    async with start(debounce_ms=60_000) as daemon:
        await burst(slack, chat, alice, "number 0")
        await gate.reached
        await burst(slack, chat, alice, "number 1")
        await daemon.until(inbox.count_by_state, waits(1))
        gate.release()
        await slack.wait_text("the first", channel=chat)
        await burst(slack, chat, alice, "number 2", "number 3")
        await daemon.until(inbox.count_by_state, waits(3))
        await slack.user_says(chat, alice, "!status")  # a command waits for no more
        await slack.wait_text("all of them", channel=chat)
        await daemon.until_quiet()
        assert await daemon.store.read(turn_states) == ["done", "done"]


async def test_a_session_may_have_its_own_policy(
    start: Start, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="one")
    for text in ("one", "two", "three"):
        model.expect(Reply(text=f"answer to {text}"), when=text)
    async with start() as daemon:
        await burst(slack, chat, alice, "one")
        await gate.reached
        key = SessionKey.of_chat("slack", chat)
        own = changed(SessionSettings(), {"queue": "followup"})
        await daemon.store.write(
            lambda tx: tx.conn.execute(
                update(sessions).where(sessions.c.key == str(key)).values(settings=stored(own))
            )
        )
        await burst(slack, chat, alice, "two", "three")
        await daemon.until(inbox.count_by_state, waits(2))
        gate.release()
        await slack.wait_text("answer to three", channel=chat)
        await daemon.until_quiet()
        assert len(slack.sent(chat)) == 3


async def test_who_waits_behind_a_turn_that_runs_out_of_time_is_answered(
    start: Start, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    hanging = model.hold(when="for ever")
    model.expect(Reply(text="here I am"), when="still there")
    async with start(extra="turns: {turn_timeout_s: 2}") as daemon:
        await burst(slack, chat, alice, "for ever")
        await hanging.reached
        await burst(slack, chat, alice, "still there?")
        await daemon.until(inbox.count_by_state, waits(1))
        await slack.wait_text("here I am", channel=chat)
        await daemon.until_quiet()
        assert await daemon.store.read(turn_states) == ["failed", "done"]


async def test_a_stop_withdraws_a_burst_that_is_waited_for(
    start: Start, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="number 0")
    model.expect(Reply(text="the first"), when="number 0")
    async with start(debounce_ms=60_000) as daemon:
        await burst(slack, chat, alice, "number 0")
        await gate.reached
        await burst(slack, chat, alice, "number 1", "number 2")
        await daemon.until(inbox.count_by_state, waits(2))
        gate.release()
        await slack.wait_text("the first", channel=chat)
        await slack.user_says(chat, alice, "取消")
        await slack.wait_text("已停止，并撤回了 2 条等待中的消息。", channel=chat)
        await daemon.until_quiet()
        assert await daemon.store.read(turn_states) == ["done"]


async def test_i8_commands_work_while_a_turn_runs(
    start: Start, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="long work")
    async with start():
        await burst(slack, chat, alice, "long work")
        await gate.reached
        for command, expected in (
            ("!help", "begins a new conversation"),
            ("!status", "Working for"),
            ("!sessions", "Conversations here"),
            ("!task new 7", "Task 7 is open"),
            ("!use base", "You are in"),
            ("!unread", "Nothing is unread"),
            ("!stop", "Stopped."),
            ("!new", "A new conversation begins."),
        ):
            await slack.user_says(chat, alice, command)
            await slack.wait_text(expected, channel=chat)
        gate.release()
