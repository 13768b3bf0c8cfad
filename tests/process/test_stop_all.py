"""G1, G7, G10: stopping everything, and being stopped, with several real processes at work and the
real tools: commands under bubblewrap, a sub-agent, a question for approval.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from clawbot.parts import STORE_FILE
from tests.flow.conftest import model, slack, slack_keys
from tests.flow.daemon import write_config
from tests.process.commands import Command, clawbot
from tests.process.waiting import eventually
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SlackSimulator
from tests.unit.tools.ground import processes_with

__all__ = ["model", "slack"]

OWNER = "U0OWNER"
STOPS_WITHIN_MS = 2000


@pytest.fixture
def config(tmp_path: Path, slack: SlackSimulator, model: ModelSimulator) -> Path:
    return write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
        extra=f"owners: ['slack:{OWNER}']\nturns: {{per_worker: 2}}",
    )


@pytest.fixture
async def workers(config: Path, slack: SlackSimulator) -> AsyncIterator[list[Command]]:
    """Two workers, of two turns each, beside the adapter."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(clawbot(config, "adapter", "slack"))
        yield [await stack.enter_async_context(clawbot(config, "worker")) for _ in range(2)]


def select(config: Path, query: str) -> list[Any]:
    """Rows of the daemon's database; single columns as plain values."""
    with sqlite3.connect(config.parent / "state" / STORE_FILE) as database:
        rows = database.execute(query).fetchall()
    return [row[0] if len(row) == 1 else row for row in rows]


def runs(mark: str) -> bool:
    """Whether a command with this mark runs, or anything that it has started."""
    return bool(processes_with(mark))


def children(mark: str) -> ToolCall:
    """A command that waits for others of its own, in several process groups."""
    command = f"bash -c 'sleep 300; : {mark}' & setsid bash -c 'sleep 300; : {mark}' & wait"
    return ToolCall(name="bash", arguments={"command": command})


async def test_g1_g7_stopping_everything_reaches_every_session_in_every_process(
    config: Path, slack: SlackSimulator, model: ModelSimulator, workers: list[Command]
) -> None:
    await slack.wait_connected(timeout_s=30)
    olga = slack.create_user("olga", user_id=OWNER)
    names = ("asking", "calling", "streaming", "children", "tasked", "waiting")
    people = {name: slack.create_user(name) for name in names}
    chats = {name: slack.create_dm(person) for name, person in people.items()}

    async def says(name: str, text: str) -> None:
        await slack.user_says(chats[name], people[name], text)

    mark = uuid.uuid4().hex
    delete = ToolCall(name="bash", arguments={"command": "rm -rf build"})
    model.expect(Reply(tool_calls=(delete,)), when="asking")
    await says("asking", "asking")
    await slack.wait_text("May I do this?", channel=chats["asking"], timeout_s=30)
    await eventually(lambda: select(config, "SELECT state FROM turns") == ["parked"])
    calling = model.hold(when="calling")
    streaming = model.hold(when="streaming", after=2)
    model.expect(Reply(text=("One. ", "Two. ", "Three.")), when="streaming")
    model.expect(Reply(tool_calls=(children(mark),)), when="children")
    helper = ToolCall(name="subagent", arguments={"task": "look around"})
    model.expect(Reply(tool_calls=(helper,)), when="tasked")
    tasked = model.hold(when="look around")
    await says("tasked", "!task new 7")
    for name in ("calling", "streaming", "children", "tasked"):
        await says(name, name)
    for gate in (calling, streaming, tasked):
        await gate.reached
    await slack.wait_text("One. Two.", channel=chats["streaming"], timeout_s=30)
    await eventually(lambda: runs(mark))
    await says("waiting", "waiting")
    in_wait = "SELECT state FROM inbox WHERE state = 'queued'"
    await eventually(lambda: select(config, in_wait) == ["queued"])

    desk = slack.create_dm(olga)
    await slack.user_says(desk, olga, "!stop all")
    await slack.wait_text("Stopped in 6 conversation(s)", channel=desk, timeout_s=30)
    await eventually(lambda: not select(config, "SELECT id FROM turns WHERE ended_ms IS NULL"))

    answer = next(message.text for message in slack.sent(desk))
    assert all(chat in answer for chat in chats.values())
    assert "/task:7`: 1 running" in answer
    assert "0 running, 1 waiting" in answer
    assert set(select(config, "SELECT state FROM turns")) == {"stopped"}
    assert select(config, "SELECT id FROM inbox WHERE settled_ms IS NULL") == []
    assert select(config, "SELECT state FROM approvals") == ["cancelled"]
    calls = select(config, "SELECT call_id FROM messages WHERE kind = 'tool_call'")
    results = select(config, "SELECT call_id FROM messages WHERE kind = 'tool_result'")
    assert sorted(calls) == sorted(results)
    assert len(calls) == 3
    await eventually(lambda: not runs(mark))
    ends = select(
        config,
        "SELECT e.at_ms - s.at_ms FROM events e JOIN events s ON s.session_key = e.session_key"
        " WHERE e.kind = 'turn_ended' AND s.kind = 'stopped'",
    )
    assert len(ends) == 5
    assert max(ends) <= STOPS_WITHIN_MS
    # All of them go on as usual.
    for name in names:
        model.expect(Reply(text=f"{name} again"), when=f"hello from {name}")
        await says(name, f"hello from {name}")
        await slack.wait_text(f"{name} again", channel=chats[name], timeout_s=30)


async def test_g10_a_worker_that_is_told_to_end_leaves_no_children_and_its_turn_to_the_next(
    config: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    async with clawbot(config, "adapter", "slack"):
        await slack.wait_connected(timeout_s=30)
        alice = slack.create_user("alice")
        chat = slack.create_dm(alice)
        mark = uuid.uuid4().hex
        model.expect(Reply(text="At once.", tool_calls=(children(mark),)), when="long work")
        async with clawbot(config, "worker") as first:
            await slack.user_says(chat, alice, "long work")
            await eventually(lambda: runs(mark))
            assert await first.stop() == 0
        await eventually(lambda: not runs(mark))
        assert select(config, "SELECT state, attempt FROM turns") == [("running", 0)]
        assert select(config, "SELECT owner FROM sessions") == [None]
        model.expect(Reply(text="It was cut off."), marker="Interrupted:")
        async with clawbot(config, "worker"):
            await slack.wait_text("It was cut off.", channel=chat, timeout_s=30)
    (sent,) = slack.sent(chat)
    assert sent.text == "At once.\n\nIt was cut off."
