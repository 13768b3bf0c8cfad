"""H7: a worker killed in the middle of a plan; the next one goes on at the first open box."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.parts import STORE_FILE
from clawbot.session_key import SessionKey
from clawbot.work_dirs import work_dir_of
from tests.adapters.slack_rig import until
from tests.flow.conftest import slack, slack_keys
from tests.flow.daemon import write_config
from tests.flow.test_plan_mode import STEPS, obedient
from tests.process.commands import clawbot
from tests.process.killed_at import order_death
from tests.simulators.model import ModelSimulator
from tests.simulators.slack import SlackSimulator

__all__ = ["slack"]

WAIT_S = 120.0
RESULTS = (
    "SELECT text FROM messages WHERE tool = 'write_file' AND kind = 'tool_result' ORDER BY seq"
)

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator(obedient) as simulator:
        yield simulator
        assert simulator.violations == []


@pytest.mark.parametrize(
    ("target", "moment", "at_box", "tried"),
    [
        # Before and after the plan is there: it is made once.
        ("clawbot.tools.plan:_make", "before", 0, ["build", "test", "publish"]),
        ("clawbot.tools.plan:_make", "after", 0, ["build", "test", "publish"]),
        # While the box is done: whoever goes on looks at that box again, and at no other.
        ("clawbot.tools.write_file:_write", "after", 2, ["build", "?", "test", "publish"]),
        # Before and after its tick is written, which nobody has recorded.
        ("clawbot.tools.plan:_changed", "before", 2, ["build", "test", "test", "publish"]),
        ("clawbot.tools.plan:_run", "after", 2, ["build", "test", "publish"]),
    ],
)
async def test_h7_the_next_worker_goes_on_at_the_first_open_box(
    tmp_path: Path,
    slack: SlackSimulator,
    model: ModelSimulator,
    target: str,
    moment: str,
    at_box: int,
    tried: list[str],
) -> None:
    slack.create_user("alice", user_id="U1")
    chat = slack.create_dm("U1")
    url, keys = model.base_url("openai-chat"), slack_keys(slack, "socket", 0)
    config = write_config(tmp_path, model_url=url, slack=keys, extra="turns: {plan: true}")
    gate = model.hold(when=lambda one: f"open one is number {at_box}:" in one.system or not at_box)
    arguments = (target, moment, str(tmp_path), "--", "worker")
    async with (
        clawbot(config, "adapter", "slack"),
        clawbot(config, *arguments, module="tests.process.killed_at") as victim,
    ):
        await slack.wait_connected(timeout_s=WAIT_S)
        await slack.user_says(chat, "U1", "please ship")
        await until(lambda: gate.is_reached, WAIT_S)
        await asyncio.to_thread(order_death, tmp_path)
        before = len(model.requests)
        gate.release()
        async with asyncio.timeout(WAIT_S):
            assert await victim.process.wait() == -signal.SIGKILL, victim.text()
        async with clawbot(config, "worker"):
            await slack.wait_text("All is done.", channel=chat, timeout_s=WAIT_S)
    assert [sent.text for sent in slack.sent(chat)] == ["All is done."]
    todo = work_dir_of(tmp_path / "state", SessionKey.of_chat("slack", chat)) / "TODO.md"
    assert todo.read_text() == "# Ship it\n\n" + "".join(f"- [x] {step}\n" for step in STEPS)
    with sqlite3.connect(tmp_path / "state" / STORE_FILE) as database:
        results = [str(row[0]) for row in database.execute(RESULTS)]
    steps = ["?" if "Interrupted" in text else text.partition(".")[0] for text in results]
    assert steps == tried
    if at_box:  # what was ticked is never gone back to
        assert not any("number 1:" in one.system for one in model.requests[before:])
