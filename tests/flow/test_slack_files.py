"""Files that people send with their questions."""

from __future__ import annotations

import re

import pytest

from clawbot.store import outbox
from tests.flow.daemon import Daemon
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SlackSimulator, Upload

PLAN = b"the pump stands in room 4711\n"
STEPS = ("files.getUploadURLExternal", "files.upload", "files.completeUploadExternal")


async def ask_for_a_file(
    slack: SlackSimulator, model: ModelSimulator, channel: str, alice: str
) -> str:
    """Alice gives the agent a file and asks for it back; the ts of her message."""
    gate = model.hold(when="send it back")
    ts = await slack.user_says(
        channel,
        alice,
        "send it back",
        mention=True,
        files=[Upload(name="plan.md", content=PLAN * 1000)],
    )
    await gate.reached
    (path,) = re.findall(r"received/[0-9a-f]{8}-\S*plan\.md", model.requests[-1].all_text)
    call = ToolCall(name="send_file", arguments={"path": path, "name": "your plan.md"})
    model.expect(Reply(tool_calls=(call,)), when="send it back")
    model.expect(Reply(text="Here it is."), marker="on its way to the chat")
    gate.release()
    return ts


async def test_the_agent_reads_a_file_that_came_with_a_question(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    plan = Upload(name="../the plan.md", content=PLAN * 100_000)
    gate = model.hold(when="where is the pump")
    await slack.user_says(chat, alice, "where is the pump?", files=[plan])
    await gate.reached
    shown = model.requests[0].all_text
    (path,) = re.findall(r"received/[0-9a-f]{8}-\S*the plan\.md", shown)
    assert "../" not in path
    call = ToolCall(name="read_file", arguments={"path": path})
    model.expect(Reply(text="Let me look.", tool_calls=(call,)), when="where is the pump")
    model.expect(Reply(text="In room 4711."), marker="the pump stands in room 4711")
    gate.release()
    await slack.wait_text("In room 4711.", channel=chat)
    await daemon.until_quiet()
    (found,) = (daemon.config.state_dir / "work").glob("*/received/*")
    assert found.read_bytes() == PLAN * 100_000


async def test_what_cannot_be_loaded_is_said_and_the_question_answered(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    slack.web_api.scopes.discard("files:read")
    model.expect(Reply(text="I cannot see it."), when="what is this")
    await slack.user_says(
        chat, alice, "what is this?", files=[Upload(name="cat.png", content=b"\x89PNG")]
    )
    await slack.wait_text("I cannot see it.", channel=chat)
    await daemon.until_quiet()
    assert "not available: Slack gives it to nobody without the scope" in model.requests[0].all_text
    assert "<html>" not in model.requests[0].all_text


async def test_files_nobody_asked_about_are_not_loaded(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    await slack.user_says(channel, alice, "holiday", files=[Upload(name="a.png", content=b"1")])
    await slack.wait_settled()
    model.expect(Reply(text="Nice."), when="how is it")
    await slack.user_says(channel, alice, "how is it?", mention=True)
    await slack.wait_text("Nice.", channel=channel)
    await daemon.until_quiet()
    assert slack.calls("files.download") == []


async def test_the_agent_sends_a_file_into_the_thread_that_it_answers_in(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    ts = await ask_for_a_file(slack, model, channel, alice)
    await slack.wait_text("Here it is.", channel=channel)
    await daemon.until_quiet()
    (sent,) = slack.sent_files(channel)
    assert (sent.name, sent.content, sent.thread_ts) == ("your plan.md", PLAN * 1000, ts)
    assert await daemon.store.read(outbox.count_by_state) == {"sent": 2}


@pytest.mark.parametrize("transport", ["socket"])
@pytest.mark.parametrize("fault", ["reset_after", "http:502", "bad_json"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_file_is_there_once_whatever_fails_on_the_way(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, step: str, fault: str
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    slack.fail_next(step, fault)
    await ask_for_a_file(slack, model, channel, alice)
    await slack.wait_text("Here it is.", channel=channel)
    await daemon.until_quiet()
    assert [each.content for each in slack.sent_files(channel)] == [PLAN * 1000]
    assert await daemon.store.read(outbox.count_by_state) == {"sent": 2}


@pytest.mark.parametrize("transport", ["socket"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_channel_that_is_killed_between_the_steps_sends_no_file_twice(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, step: str
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    slack.fail_next(step, "hang_after")
    await ask_for_a_file(slack, model, channel, alice)
    await slack.wait_for(lambda: [call for call in slack.calls(step) if call.processed])
    await daemon.kill("slack")
    await daemon.start("slack")
    await slack.wait_for(lambda: slack.sent_files(channel), timeout_s=20)
    await slack.wait_text("Here it is.", channel=channel, timeout_s=20)
    await daemon.until_quiet()
    assert [each.content for each in slack.sent_files(channel)] == [PLAN * 1000]


@pytest.mark.parametrize("transport", ["socket"])
async def test_a_file_that_slack_does_not_take_is_told_in_its_place(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    slack.web_api.scopes.discard("files:write")
    ts = await ask_for_a_file(slack, model, channel, alice)
    await slack.wait_text("Here it is.", channel=channel)
    told = await slack.wait_text("your plan.md", channel=channel)
    await daemon.until_quiet()
    assert told.thread_ts == ts
    assert slack.sent_files() == []
