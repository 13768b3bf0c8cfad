"""Files that people send with their questions."""

from __future__ import annotations

import re

from tests.flow.daemon import Daemon
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SlackSimulator, Upload

PLAN = b"the pump stands in room 4711\n"


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
