"""H5 with the real tools: rules and approvals of commands in a chat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select, update

from clawbot.config import Config, load_config
from clawbot.session_key import SessionKey
from clawbot.store.schema import approvals, messages
from clawbot.work_dirs import work_dir_of
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.flow.test_approvals import asked
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SlackSimulator

RULES = """
tools:
  rules:
    - {do: deny, tool: bash, arguments: "^shutdown", reason: this machine stays on}
    - {do: ask, tool: write_file, arguments: "^plan", sender: other, reason: Change the plan}
"""


@pytest.fixture
async def daemon(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> AsyncIterator[Daemon]:
    path = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
        extra=f"owners: ['slack:U0OWNER']\n{RULES}",
    )
    async with run_daemon(path, "worker", "slack") as running:
        await connect(running, slack, None)
        yield running


def uses(model: ModelSimulator, when: str, name: str, **arguments: str) -> None:
    model.expect(Reply(tool_calls=(ToolCall(name=name, arguments=arguments),)), when=when)
    model.expect(Reply(text=f"Answer to {when}."), when=when)


async def next_asked(slack: SlackSimulator, chat: str, before: str) -> str:
    """Wait for the question after the one `before`, which may be closed by now."""
    while True:
        ids = [one for one in await asked(slack, chat) if one != before]
        if ids:
            return ids[-1]
        await slack.wait_sent(len(slack.sent(chat)) + 1, channel=chat)


async def results(daemon: Daemon) -> list[str]:
    query = select(messages.c.text).where(messages.c.kind == "tool_result").order_by("seq")
    return list(await daemon.store.read(lambda tx: tx.conn.execute(query).scalars().all()))


async def test_h5_a_dangerous_command_is_made_once_it_is_allowed_and_again_if_that_was_said(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, tmp_path: Path
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    work = work_dir_of(tmp_path / "state", SessionKey.of_chat("slack", chat))
    command = "rm -rf build; echo removed"
    uses(model, "clean up", "bash", command=command)
    await slack.user_says(chat, alice, "clean up")
    (approval,) = await asked(slack, chat)
    (question,) = [one.text for one in slack.sent(chat) if "May I" in one.text]
    assert "May I do this? Delete files\n" in question
    assert "```\nrm -rf build; echo removed\n```" in question
    work.joinpath("build").mkdir()
    await slack.user_says(chat, alice, f"!approve {approval} always")
    await slack.wait_text("Answer to clean up.", channel=chat)
    assert not work.joinpath("build").exists()
    # The same once more: nobody is asked. Another one: somebody is.
    uses(model, "once more", "bash", command=command)
    await slack.user_says(chat, alice, "once more")
    await slack.wait_text("Answer to once more.", channel=chat)
    uses(model, "something else", "bash", command="rm -rf dist")
    await slack.user_says(chat, alice, "something else")
    other = await next_asked(slack, chat, approval)
    await slack.user_says(chat, alice, f"!deny {other} keep it")
    await slack.wait_text("Answer to something else.", channel=chat)
    await daemon.until_quiet()
    found = await results(daemon)
    assert found[:2] == ["removed\n", "removed\n"]
    assert found[2].startswith("A person refused this call; it was not made.")
    assert "keep it" in found[2]


async def test_h5_rules_refuse_and_ask_by_tool_arguments_and_sender(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    owner, alice = slack.create_user("owner", user_id="U0OWNER"), slack.create_user("alice")
    office, chat = slack.create_dm(owner), slack.create_dm(alice)
    uses(model, "switch off", "bash", command="shutdown now")
    await slack.user_says(chat, alice, "switch off")
    await slack.wait_text("Answer to switch off.", channel=chat)
    assert "Not made: this machine stays on." in (await results(daemon))[0]
    uses(model, "owner plans", "write_file", path="plan.md", content="x")
    await slack.user_says(office, owner, "owner plans")
    await slack.wait_text("Answer to owner plans.", channel=office)
    uses(model, "alice plans", "write_file", path="plan.md", content="x")
    await slack.user_says(chat, alice, "alice plans")
    (approval,) = await asked(slack, chat)
    assert any("Change the plan: plan.md" in one.text for one in slack.sent(chat))
    await slack.user_says(chat, alice, f"!approve {approval}")
    await slack.wait_text("Answer to alice plans.", channel=chat)
    await daemon.until_quiet()


async def test_h5_what_is_allowed_until_a_time_is_listed_outlives_new_and_ends_by_the_clock(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    command = "rm -rf build; echo removed"
    uses(model, "clean up", "bash", command=command)
    await slack.user_says(chat, alice, "clean up")
    (approval,) = await asked(slack, chat)
    await slack.user_says(chat, alice, f"!approve {approval} for ever and a day")
    await slack.wait_text("I cannot read for how long", channel=chat)
    await slack.user_says(chat, alice, f"!approve {approval} for 30 minutes")
    await slack.wait_text("the same call again until 2", channel=chat)
    await slack.wait_text("Answer to clean up.", channel=chat)
    await slack.user_says(chat, alice, "!new")
    await slack.wait_text("A new conversation begins.", channel=chat)
    uses(model, "once more", "bash", command=command)
    await slack.user_says(chat, alice, "once more")
    await slack.wait_text("Answer to once more.", channel=chat)
    await slack.user_says(chat, alice, "!approve list")
    listed = await slack.wait_text("Allowed here without asking again", channel=chat)
    assert f"`{approval}` bash, until 2" in listed.text
    assert "Delete files: rm -rf build; echo removed" in listed.text
    await daemon.store.write(lambda tx: tx.conn.execute(update(approvals).values(lasts_until_ms=1)))
    await slack.user_says(chat, alice, "!approve list")
    await slack.wait_text("Nothing is allowed here for longer", channel=chat)
    uses(model, "too late", "bash", command=command)
    await slack.user_says(chat, alice, "too late")
    again = await next_asked(slack, chat, approval)
    await slack.user_says(chat, alice, f"!approve {again} until 2020-01-01 10:00")
    await slack.user_says(chat, alice, f"!approve {again}")
    await slack.wait_text("Answer to too late.", channel=chat)
    await daemon.until_quiet()


def allowing_all(path: Path) -> Config:
    text = path.read_text()
    path.write_text(text.replace("  rules:", "  rules:\n    - {do: allow}"))
    return load_config(path)


async def test_h5_a_refusal_counts_although_the_rules_allow_the_call_by_then(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, tmp_path: Path
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    uses(model, "clean up", "bash", command="rm -rf build; echo removed")
    await slack.user_says(chat, alice, "clean up")
    (approval,) = await asked(slack, chat)
    await daemon.stop("worker")
    daemon.config = await asyncio.to_thread(allowing_all, tmp_path / "clawbot.yaml")
    await daemon.start("worker")
    await slack.user_says(chat, alice, f"!deny {approval}")
    await slack.wait_text("Answer to clean up.", channel=chat)
    await daemon.until_quiet()
    assert (await results(daemon))[-1].startswith("A person refused this call")
