"""H7: plan mode. A plan is made first, done box by box, and gone on with where it stands."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import messages
from clawbot.work_dirs import work_dir_of
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.simulators.model import ModelSimulator, RecordedRequest, Reply, ToolCall
from tests.simulators.slack import SlackSimulator

Start = Callable[..., AbstractAsyncContextManager[Daemon]]
STEPS = ("build", "test", "publish")


def call(name: str, **arguments: object) -> Reply:
    return Reply(tool_calls=(ToolCall(name=name, arguments=arguments),))


def obedient(request: RecordedRequest) -> Reply:
    """A model that does what the request says of the plan, and remembers nothing."""
    if "There is no plan yet" in request.system:
        return call("plan", action="make", goal="Ship it", plan="As usual.", steps=list(STEPS))
    if "is finished" in request.system:
        return Reply(text="All is done.")
    found = re.search(r"The first open one is number (\d+): (\w+)", request.system)
    if found is None:
        return Reply(text="Without a plan.")
    number, step = int(found[1]), found[2]
    results = [result.text for result in request.messages[-1].tool_results]
    if any(f"{step}.txt: " in text for text in results):
        return call("plan", action="tick", box=number)
    return call("write_file", path=f"{step}.txt", content=step)


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator(obedient) as simulator:
        yield simulator
        assert simulator.violations == []


@pytest.fixture
def start(tmp_path: Path, slack: SlackSimulator, model: ModelSimulator) -> Start:
    """Starts the daemon with further keys of it."""
    slack.create_user("alice", user_id="U1")

    @asynccontextmanager
    async def started(extra: str = "", keys: str = "") -> AsyncIterator[Daemon]:
        path = write_config(
            tmp_path,
            model_url=model.base_url("openai-chat"),
            slack=f"{slack_keys(slack, 'socket', 0)}\n{keys}",
            extra=extra,
        )
        async with run_daemon(path, "worker", "slack") as running:
            await connect(running, slack, None)
            yield running

    return started


async def say(slack: SlackSimulator, chat: str, text: str, *, answer: str) -> None:
    count = len(slack.sent(chat))
    await slack.user_says(chat, "U1", text)
    await slack.wait_for(
        lambda: any(answer in one.shown for one in slack.sent(chat)[count:]), what=answer
    )


def states(model: ModelSimulator) -> list[str]:
    """What the requests said of the plan, in their order, repetitions left out."""
    told: list[str] = []
    for request in model.requests:
        found = re.search(
            r"(\d of \d) boxes in \S+ are done|no plan yet|is finished", request.system
        )
        state = "none" if found is None else found[1] or found[0]
        if told[-1:] != [state]:
            told.append(state)
    return told


def written(tx: Transaction) -> list[str]:
    """What write_file said, in the order of its calls."""
    query = select(messages.c.text).where(
        messages.c.kind == "tool_result", messages.c.tool == "write_file"
    )
    return [text.partition(":")[0] for text in tx.conn.execute(query.order_by("seq")).scalars()]


async def test_h7_a_plan_is_made_first_and_worked_off_box_by_box(
    start: Start, slack: SlackSimulator, model: ModelSimulator
) -> None:
    async with start() as daemon:
        chat = slack.create_dm("U1")
        folder = work_dir_of(daemon.config.state_dir, SessionKey.of_chat("slack", chat))
        await say(slack, chat, "!plan", answer="Plan mode is off here")
        await say(slack, chat, "!plan on", answer="Plan mode is on from the next answer on")
        await say(slack, chat, "!plan", answer="Plan mode is on here")
        await say(slack, chat, "please ship", answer="All is done.")
        assert states(model) == ["no plan yet", "0 of 3", "1 of 3", "2 of 3", "is finished"]
        todo = (folder / "TODO.md").read_text()
        assert todo == "# Ship it\n\n- [x] build\n- [x] test\n- [x] publish\n"
        assert [(folder / f"{step}.txt").read_text() for step in STEPS] == list(STEPS)
        # One that is finished is said to be.
        count = len(model.requests)
        await say(slack, chat, "continue", answer="All is done.")
        assert len(model.requests) == count + 1
        await say(slack, chat, "!plan off", answer="Plan mode is off from the next answer on")
        await say(slack, chat, "and now?", answer="Without a plan.")
        offered = {tool["function"]["name"] for tool in model.requests[-1].body["tools"]}
        assert "plan" not in offered
        assert "TODO.md" not in model.requests[-1].system


@pytest.mark.parametrize("words", ["continue", "!new go on"])
async def test_h7_what_ended_half_way_goes_on_at_the_first_open_box(
    start: Start, slack: SlackSimulator, model: ModelSimulator, words: str
) -> None:
    async with start("turns: {max_steps: 5, plan: true}") as daemon:
        chat = slack.create_dm("U1")
        folder = work_dir_of(daemon.config.state_dir, SessionKey.of_chat("slack", chat))
        await say(slack, chat, "please ship", answer="went wrong")
        assert "- [x] test\n- [ ] publish" in (folder / "TODO.md").read_text()
        count = len(model.requests)
        people = (folder / "TODO.md").read_text() + "\nBy hand:\n\n1. [x] celebrate\n"
        (folder / "TODO.md").write_text(people)
        await say(slack, chat, words, answer="All is done.")
        first = model.requests[count]
        assert "3 of 4 boxes in TODO.md are done. The first open one is number 3: publish" in (
            first.system
        )
        assert (folder / "TODO.md").read_text() == people.replace("[ ]", "[x]")
        files = [f"{step}.txt" for step in STEPS]
        assert await daemon.store.read(written) == files  # each once


async def test_h7_without_a_plan_nothing_is_changed_and_threads_have_theirs(
    start: Start, slack: SlackSimulator, model: ModelSimulator
) -> None:
    async with start(keys="turns: {plan: true}") as daemon:
        channel = slack.create_channel("general", ["U1"], channel_id="C1")
        await slack.user_says(channel, "U1", "please ship", mention=True)
        await slack.wait_text("All is done.", channel=channel)
        folder = work_dir_of(daemon.config.state_dir, SessionKey.of_chat("slack", channel))
        assert not (folder / "TODO.md").exists()
        (todo,) = folder.glob("plans/*/TODO.md")
        assert todo.read_text().count("[x]") == 3
        dm = slack.create_dm("U1")
        write = call("write_file", path="x.txt", content="x")
        model.expect(write, when="just write")
        model.expect(Reply(text="I may not."), marker="there is no plan with an open box")
        await say(slack, dm, "just write", answer="I may not.")
        assert not list(daemon.config.state_dir.rglob("x.txt"))
