"""Slack simulator → real SDK → store → worker → model simulator → Slack simulator."""

from __future__ import annotations

from typing import Literal

import pytest

from clawbot.session_key import SessionKey
from clawbot.store import inbox, sessions
from clawbot.work_dirs import work_dir_of
from tests.flow.daemon import Daemon
from tests.simulators.model import (
    BreakOff,
    ModelSimulator,
    Refusal,
    Reply,
    ToolCall,
    invalid_key,
)
from tests.simulators.slack import SlackSimulator


async def test_a_direct_message_is_answered_in_its_chat(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(text="Hello **Alice**"), when="hi there")
    await slack.user_says(chat, alice, "hi there")
    await slack.wait_sent(1, channel=chat)
    await daemon.until_quiet()
    (sent,) = slack.sent(chat)
    assert (sent.text, sent.thread_ts) == ("Hello *Alice*", None)
    await slack.wait_settled()
    assert slack.unacked() == []


async def test_I2_an_event_is_acknowledged_while_the_model_still_thinks(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="think hard")
    model.expect(Reply(text="Thought."), when="think hard")
    await slack.user_says(chat, alice, "think hard")
    await gate.reached
    await slack.wait_settled()
    assert (slack.unacked(), slack.sent(chat)) == ([], [])
    assert {delivery.attempts for delivery in slack.acked()} == {1}
    gate.release()
    await slack.wait_text("Thought.", channel=chat)
    await daemon.until_quiet()


async def test_a_root_mention_and_its_thread_are_one_session(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    model.expect(Reply(text="Noted."), when="the code is 4711")
    model.expect(Reply(text="It is 4711."), when="what was the code")
    root = await slack.user_says(channel, alice, "the code is 4711", mention=True)
    await slack.wait_sent(1, channel=channel)
    await slack.user_says(channel, alice, "what was the code?", thread_ts=root)
    await slack.wait_sent(2, channel=channel)
    await daemon.until_quiet()
    assert [message.thread_ts for message in slack.sent(channel)] == [root, root]
    assert "the code is 4711" in model.requests[1].all_text
    found = await daemon.store.read(lambda tx: sessions.recent(tx, 10))
    assert [row["key"] for row in found] == [f"slack:{channel}/thread:{root}"]


async def test_A1_two_chats_at_once_share_nothing(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice, bob = slack.create_user("alice"), slack.create_user("bob")
    front, back = slack.create_dm(alice), slack.create_dm(bob)
    held = [model.hold(marker=marker) for marker in ("token_12345", "other_678")]
    model.expect(Reply(text="front done"), marker="token_12345")
    model.expect(Reply(text="back done"), marker="other_678")
    await slack.user_says(front, alice, "remember token_12345")
    await slack.user_says(back, bob, "remember other_678")
    for gate in held:
        await gate.reached
    for gate in held:
        gate.release()
    await slack.wait_sent(1, channel=front)
    await slack.wait_sent(1, channel=back)
    await daemon.until_quiet()
    assert [message.text for message in slack.sent(front)] == ["front done"]
    assert [message.text for message in slack.sent(back)] == ["back done"]
    assert not any(
        "token_12345" in request.all_text and "other_678" in request.all_text
        for request in model.requests
    )


@pytest.mark.parametrize("order", ["message_first", "mention_first"])
async def test_the_two_events_of_a_mention_make_one_turn(
    daemon: Daemon,
    slack: SlackSimulator,
    model: ModelSimulator,
    order: Literal["message_first", "mention_first"],
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    model.expect(Reply(text="once"), when="ping")
    await slack.user_says(channel, alice, "ping", mention=True, order=order)
    await slack.wait_sent(1, channel=channel)
    await slack.wait_settled()
    await daemon.until_quiet()
    assert [message.text for message in slack.sent(channel)] == ["once"]
    assert len(slack.deliveries()) >= 2


async def test_a_redelivered_event_is_answered_once(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(text="once"), when="ping")
    ts = await slack.user_says(chat, alice, "ping")
    await slack.wait_sent(1, channel=chat)
    await slack.redeliver(ts)
    await slack.redeliver(ts, new_event_id=True)
    await slack.wait_settled()
    await daemon.until_quiet()
    assert [message.text for message in slack.sent(chat)] == ["once"]


async def test_what_was_said_before_a_mention_is_handed_over_once(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice, bob = slack.create_user("alice"), slack.create_user("bob")
    channel = slack.create_channel("general", [alice, bob])
    model.expect(Reply(text="Blue."), when="which colour")
    model.expect(Reply(text="Yes."), when="sure")
    await slack.user_says(channel, bob, "the door is blue")
    root = await slack.user_says(channel, alice, "which colour?", mention=True)
    await slack.wait_sent(1, channel=channel)
    await slack.user_says(channel, alice, "sure?", thread_ts=root)
    await slack.wait_sent(2, channel=channel)
    await daemon.until_quiet()
    first, second = model.requests
    assert first.all_text.count("bob: the door is blue") == 1
    assert second.all_text.count("bob: the door is blue") == 1


async def test_an_unmentioned_message_in_a_channel_is_not_answered(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    await slack.user_says(channel, alice, "just talking")
    await slack.wait_settled()
    await daemon.until(inbox.count_by_state, lambda counts: counts == {"context": 1})
    assert model.requests == []
    assert slack.sent() == []


async def test_the_agent_reads_a_file_of_its_own_chat(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    call = ToolCall(name="read_file", arguments={"path": "README.md"})
    model.expect(Reply(text="Let me look.", tool_calls=(call,)), when="what is here")
    model.expect(Reply(text="It is this chat's directory."), marker="work directory of this chat")
    await slack.user_says(chat, alice, "what is here?")
    await slack.wait_text("this chat's directory", channel=chat)
    await daemon.until_quiet()
    (sent,) = slack.sent(chat)
    assert sent.text == "Let me look.\n\nIt is this chat's directory."


async def test_A2_each_chat_reads_its_own_file_through_the_same_tool(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    names = ("front", "back")
    people = {name: slack.create_user(name) for name in names}
    chats = {name: slack.create_dm(people[name]) for name in names}
    call = ToolCall(name="read_file", arguments={"path": "README.md"})
    for name in names:
        folder = work_dir_of(daemon.config.state_dir, SessionKey.of_chat("slack", chats[name]))
        folder.mkdir(parents=True)
        (folder / "README.md").write_text(f"secret_of_{name}")
        model.expect(Reply(tool_calls=(call,)), when=f"look, {name}")
        model.expect(Reply(text=f"{name} has read it"), marker=f"secret_of_{name}")
    for name in names:
        await slack.user_says(chats[name], people[name], f"look, {name}")
    for name in names:
        await slack.wait_text(f"{name} has read it", channel=chats[name])
    await daemon.until_quiet()
    assert not any(
        "secret_of_front" in request.all_text and "secret_of_back" in request.all_text
        for request in model.requests
    )


async def test_a_growing_reply_is_one_message_that_is_edited(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="tell me", after=2)
    model.expect(Reply(text=("One. ", "Two. ", "Three.")), when="tell me")
    await slack.user_says(chat, alice, "tell me")
    await gate.reached
    await slack.wait_text("One.", channel=chat)
    gate.release()
    await slack.wait_text("Three.", channel=chat)
    await daemon.until_quiet()
    (sent,) = slack.sent(chat)
    assert sent.text == "One. Two. Three."
    assert sent.edits >= 1


async def test_a_stop_reaches_a_turn_in_another_part(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    gate = model.hold(when="long work")
    await slack.user_says(chat, alice, "long work")
    await gate.reached
    await slack.user_says(chat, alice, "!stop")
    await slack.wait_text("Stopped.", channel=chat)
    await model.wait_until(
        lambda: model.requests[0].outcome == "disconnected", "the call to be closed"
    )
    model.expect(Reply(text="back again"), when="hello")
    await slack.user_says(chat, alice, "hello")
    await slack.wait_text("back again", channel=chat)
    await daemon.until_quiet()
    assert [message.text for message in slack.sent(chat)] == ["Stopped.", "back again"]


@pytest.mark.parametrize(
    "answer",
    [
        invalid_key(),
        Reply(text=("half ", "an ans"), break_off=BreakOff(how="end", after=1)),
        Reply(text="no reason", finish="missing"),
        Refusal(status=400, kind="invalid_request", message="secret detail"),
    ],
    ids=["bad key", "stream ends early", "no finish reason", "bad request"],
)
async def test_a_failing_model_ends_in_a_visible_error_with_an_id(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, answer: Reply | Refusal
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(answer, when="ping")
    await slack.user_says(chat, alice, "ping")
    await slack.wait_text("(error ", channel=chat)
    await daemon.until_quiet()
    text = slack.sent(chat)[-1].text
    assert "secret detail" not in text
    assert "API key" not in text
    assert len(slack.sent(chat)) == 1
