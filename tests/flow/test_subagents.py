"""H6, G6: sub-agents look, report and end; nothing else of them reaches the conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select

from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import messages, turns
from clawbot.store.schema import usage as costs
from clawbot.work_dirs import work_dir_of
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.model.answer import Usage
from tests.simulators.slack import SlackSimulator

STEPS = 3


@pytest.fixture
async def daemon(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> AsyncIterator[Daemon]:
    slack.create_user("alice", user_id="U1")
    path = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
        extra=f"turns: {{subagent_steps: {STEPS}}}",
    )
    async with run_daemon(path, "worker", "slack") as running:
        await connect(running, slack, None)
        yield running


@pytest.fixture
def chat(slack: SlackSimulator, daemon: Daemon) -> str:
    """A chat in whose directory there are two files."""
    made = slack.create_dm("U1")
    folder = work_dir_of(daemon.config.state_dir, SessionKey.of_chat("slack", made))
    folder.mkdir(parents=True)
    for name in ("north", "south"):
        (folder / f"{name}.txt").write_text(f"the {name} has {len(name)} letters\n")
    return made


def ask(*tasks: str) -> Reply:
    return Reply(
        tool_calls=tuple(ToolCall(name="subagent", arguments={"task": task}) for task in tasks)
    )


def look(name: str) -> Reply:
    return Reply(tool_calls=(ToolCall(name="read_file", arguments={"path": f"{name}.txt"}),))


def history(tx: Transaction) -> list[str]:
    return list(tx.conn.execute(select(messages.c.text).order_by(messages.c.seq)).scalars())


async def test_h6_several_work_side_by_side_and_only_their_reports_return(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, chat: str
) -> None:
    model.expect(ask("Look at the north.", "Look at the south."), when="compare them")
    gates = [model.hold(f"Look at the {name}.") for name in ("north", "south")]
    for name in ("north", "south"):
        model.expect(look(name), when=f"Look at the {name}.")
        model.expect(Reply(text=f"Report: {name} seen."), marker=f"the {name} has 5 letters")
    await slack.user_says(chat, "U1", "compare them")
    for gate in gates:
        await gate.reached  # both at once
    for request in model.requests[1:3]:
        offered = {tool["function"]["name"] for tool in request.body["tools"]}
        assert offered <= {"read_file", "list_dir", "glob", "grep", "read_skill", "web_fetch"}
        assert "compare them" not in str(request.body["messages"])
    model.expect(Reply(text="Both have five."), marker="Report: south seen.")
    for gate in gates:
        gate.release()
    await slack.wait_text("Both have five.", channel=chat)
    await daemon.until_quiet()
    told = await daemon.store.read(history)
    assert told.count("Report: north seen.") == told.count("Report: south seen.") == 1
    assert not any("letters" in text for text in told)
    assert [sent.text for sent in slack.sent(chat)] == ["Both have five."]


async def test_h6_what_they_use_is_paid_by_the_turn(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, chat: str
) -> None:
    cost = Usage(input_tokens=100, output_tokens=10)
    model.expect(
        Reply(tool_calls=ask("Look at the north.").tool_calls, usage=cost), when="look there"
    )
    model.expect(Reply(text="Report.", usage=cost), when="Look at the north.")
    model.expect(Reply(text="Seen.", usage=cost), marker="Report.")
    await slack.user_says(chat, "U1", "look there")
    await slack.wait_text("Seen.", channel=chat)
    await daemon.until_quiet()
    (usage,) = await daemon.store.read(
        lambda tx: list(tx.conn.execute(select(turns.c.usage)).scalars())
    )
    assert (usage["input_tokens"], usage["output_tokens"]) == (300, 30)
    counted = select(costs.c.calls, costs.c.input_tokens)
    assert await daemon.store.read(lambda tx: [tuple(r) for r in tx.conn.execute(counted)]) == [
        (3, 300)
    ]


async def test_h6_one_can_change_nothing_and_gives_up_after_its_steps(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, chat: str
) -> None:
    model.expect(ask("Write something."), when="write")
    write = ToolCall(name="write_file", arguments={"path": "new.txt", "content": "x"})
    for _ in range(STEPS):
        model.expect(Reply(tool_calls=(write,)), when="Write something.")
    model.expect(Reply(text="It could not."), marker="came to no report")
    await slack.user_says(chat, "U1", "write")
    await slack.wait_text("It could not.", channel=chat)
    assert "There is no tool" in str(model.requests[2].body["messages"])
    folder = work_dir_of(daemon.config.state_dir, SessionKey.of_chat("slack", chat))
    assert not (folder / "new.txt").exists()


async def test_g6_one_of_a_stopped_turn_ends_with_it(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, chat: str
) -> None:
    model.expect(ask("Look at the north."), when="compare them")
    gate = model.hold("Look at the north.")
    model.expect(look("north"), when="Look at the north.")
    await slack.user_says(chat, "U1", "compare them")
    await gate.reached
    await slack.user_says(chat, "U1", "!stop")
    await slack.wait_text("Stopped.", channel=chat)
    await daemon.until_quiet()
    gate.release()
    model.expect(Reply(text="Hello."), when="hello")
    await slack.user_says(chat, "U1", "hello")
    await slack.wait_text("Hello.", channel=chat)
    await daemon.until_quiet()
    assert len(model.requests) == 3


async def test_h6_a_budget_counts_what_one_uses_while_it_works(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    path = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
        extra="budgets: {session: {tokens: 200}}",
    )
    cost = Usage(input_tokens=100, output_tokens=10)
    model.expect(Reply(tool_calls=ask("Look around.").tool_calls, usage=cost), when="explore")
    glance = ToolCall(name="list_dir", arguments={"path": "."})
    model.expect(Reply(tool_calls=(glance,), usage=cost), when="Look around.")
    async with run_daemon(path, "worker", "slack") as daemon:
        await connect(daemon, slack, None)
        await slack.user_says(chat, alice, "explore")
        await slack.wait_text("budget", channel=chat)
        await daemon.until_quiet()
        counted = select(costs.c.calls, costs.c.input_tokens)
        paid = await daemon.store.read(lambda tx: [tuple(r) for r in tx.conn.execute(counted)])
    assert paid == [(2, 200)], "each is paid once"
    assert len(model.requests) == 2, "neither asks again when all is spent"
