"""A task beside its conversation, with its processes killed between the points of its path: it is
begun once, and its report is answered once.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clawbot.parts import STORE_FILE
from tests.adapters.slack_rig import until
from tests.flow.conftest import slack, slack_keys
from tests.flow.daemon import write_config
from tests.process.commands import Command, clawbot
from tests.process.killed_at import order_death
from tests.simulators.model import ModelSimulator, RecordedRequest, Reply, ToolCall
from tests.simulators.slack import SlackSimulator

__all__ = ["slack"]

DIG = ToolCall(name="start_task", arguments={"title": "Dig", "instructions": "Dig for gold."})
STORE = "clawbot.store"
WAIT_S = 120.0

pytestmark = pytest.mark.timeout(400)
OPEN = "SELECT id FROM inbox WHERE settled_ms IS NULL"


def answer(request: RecordedRequest) -> Reply:
    """What the model says, however often it is asked."""
    newest = request.last_user_text
    if "please dig" in newest:
        has_begun = "has begun" in request.all_text
        return Reply(text="I dig.") if has_begun else Reply(tool_calls=(DIG,))
    if "Its report follows" in newest:
        return Reply(text="Gold it is.")
    return Reply(text="REPORT: gold." if "Dig for gold." in newest else "Thought.")


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator(answer) as simulator:
        yield simulator
        assert simulator.violations == []


@pytest.fixture
def config(tmp_path: Path, slack: SlackSimulator, model: ModelSimulator) -> Path:
    slack.create_user("alice", user_id="U1")
    keys = slack_keys(slack, "socket", 0)
    return write_config(tmp_path, model_url=model.base_url("openai-chat"), slack=keys)


def select(config: Path, query: str) -> list[object]:
    """The first column of what a query finds in the daemon's database."""
    with sqlite3.connect(config.parent / "state" / STORE_FILE) as database:
        return [row[0] for row in database.execute(query)]


@asynccontextmanager
async def doomed(config: Path, target: str, moment: str) -> AsyncIterator[Command]:
    """A worker that dies at a point, once that is ordered."""
    arguments = (target, moment, str(config.parent), "--", "worker")
    async with clawbot(config, *arguments, module="tests.process.killed_at") as worker:
        yield worker


async def until_dead(victim: Command) -> None:
    """Wait for the kill."""
    async with asyncio.timeout(WAIT_S):
        assert await victim.process.wait() == -signal.SIGKILL, victim.text()


async def check(config: Path, slack: SlackSimulator, chat: str, *answers: str) -> None:
    """Wait for the end of everything, and count."""
    await slack.wait_text("Gold it is.", channel=chat, timeout_s=WAIT_S)
    await until(lambda: not select(config, OPEN), WAIT_S)
    await slack.wait_settled(timeout_s=WAIT_S)
    assert sorted(message.text for message in slack.sent(chat)) == sorted(answers)
    identities = "SELECT identity FROM inbox WHERE reason <> 'command' ORDER BY id"
    kinds = [str(one).split(":")[0] for one in select(config, identities)]
    assert kinds.count("task") == kinds.count("task_report") == 1
    assert select(config, "SELECT session_key FROM task_runs") == []


async def test_a_worker_killed_while_it_begins_a_task_begins_it_once(
    config: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    chat = slack.create_dm("U1")
    await asyncio.to_thread(order_death, config.parent)
    async with (
        clawbot(config, "adapter", "slack"),
        doomed(config, f"{STORE}.task_runs:start", "after") as victim,
    ):
        await slack.wait_connected(timeout_s=WAIT_S)
        await slack.user_says(chat, "U1", "please dig")
        await until_dead(victim)
        async with clawbot(config, "worker"):
            await check(config, slack, chat, "I dig.", "Gold it is.")
    assert any("Interrupted:" in request.all_text for request in model.requests)


@pytest.mark.parametrize(
    ("target", "moment", "is_busy"),
    [
        (f"{STORE}.task_runs:report", "before", False),
        (f"{STORE}.task_runs:report", "after", False),
        (f"{STORE}.turns:finish", "after", True),
        ("clawbot.turn_run:TurnRun._finish", "before", False),
        ("clawbot.turn_run:TurnRun._finish", "after", False),
        ("clawbot.turn_run:TurnRun._finish", "after", True),
        (f"{STORE}.claims:claim", "after", False),
    ],
)
async def test_a_worker_killed_around_the_end_of_a_task_reports_it_once(
    config: Path,
    slack: SlackSimulator,
    model: ModelSimulator,
    target: str,
    moment: str,
    is_busy: bool,
) -> None:
    chat = slack.create_dm("U1")
    digging = model.hold(when="Dig for gold.")
    async with (
        clawbot(config, "adapter", "slack"),
        doomed(config, target, moment) as victim,
    ):
        await slack.wait_connected(timeout_s=WAIT_S)
        await slack.user_says(chat, "U1", "please dig")
        await slack.wait_text("I dig.", channel=chat, timeout_s=WAIT_S)
        await digging.reached
        if is_busy:
            thinking = model.hold(when="think")
            await slack.user_says(chat, "U1", "think")
            await thinking.reached
        await asyncio.to_thread(order_death, config.parent)
        digging.release()
        await until_dead(victim)
        async with clawbot(config, "worker"):
            thought = ["Thought."] if is_busy else []
            await check(config, slack, chat, "I dig.", *thought, "Gold it is.")


async def test_a_daemon_killed_while_a_task_runs_goes_on_with_it(
    config: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    chat = slack.create_dm("U1")
    digging = model.hold(when="Dig for gold.")
    async with clawbot(config, "run", "--single") as daemon:
        await slack.wait_connected(timeout_s=WAIT_S)
        await slack.user_says(chat, "U1", "please dig")
        await slack.wait_text("I dig.", channel=chat, timeout_s=WAIT_S)
        await digging.reached
        await daemon.kill()
    async with clawbot(config, "run", "--single"):
        await check(config, slack, chat, "I dig.", "Gold it is.")
