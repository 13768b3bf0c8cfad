"""Work that takes long, done beside its conversation: its report comes back once, whatever ends it.

The database is each of the two kinds.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store.deletion import delete_session
from clawbot.store.schema import inbox, messages, sessions, task_runs, turns
from clawbot.store.schema import usage as costs
from clawbot.work_dirs import work_dir_of
from tests.contracts.postgres_ground import make_schema
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.flow.test_approvals import asked
from tests.postgres import Cluster
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SlackSimulator

Start = Callable[..., AbstractAsyncContextManager[Daemon]]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    """The line of the config that names the database."""
    if request.param == "sqlite":
        return ""
    cluster: Cluster = request.getfixturevalue("postgres")
    url = cluster.url(cluster.create_database(cluster.template("clawbot_schema", make_schema)))
    return f"database: {url.replace('postgresql+psycopg://', 'postgresql://')}\n"


@pytest.fixture
def start(tmp_path: Path, slack: SlackSimulator, model: ModelSimulator, database: str) -> Start:
    """Starts the daemon with further keys, of it and of its channel."""
    slack.create_user("alice", user_id="U1")

    @asynccontextmanager
    async def started(extra: str = "", **keys: object) -> AsyncIterator[Daemon]:
        lines = [slack_keys(slack, "socket", 0), *(f"{k}: {v}" for k, v in keys.items())]
        path = write_config(
            tmp_path,
            model_url=model.base_url("openai-chat"),
            slack="\n".join(lines),
            extra=f"owners: ['slack:U1']\n{database}{extra}",
        )
        async with run_daemon(path, "worker", "worker-2", "slack") as running:
            await connect(running, slack, None)
            yield running

    return started


@pytest.fixture
async def daemon(start: Start) -> AsyncIterator[Daemon]:
    async with start() as running:
        yield running


@pytest.fixture
def chat(slack: SlackSimulator, start: Start) -> str:
    return slack.create_dm("U1")


def begins(title: str, instructions: str) -> Reply:
    call = ToolCall(name="start_task", arguments={"title": title, "instructions": instructions})
    return Reply(tool_calls=(call,))


async def begin(slack: SlackSimulator, model: ModelSimulator, chat: str, what: str) -> str:
    """Let the agent begin a task, which is told to dig WHAT; return the task's id."""
    model.expect(begins(f"Dig {what}", f"Dig for {what}."), when=f"please dig {what}")
    model.expect(Reply(text=f"I dig {what}."), when=f"please dig {what}")
    await slack.user_says(chat, "U1", f"please dig {what}")
    await slack.wait_text(f"I dig {what}.", channel=chat)
    told = "\n".join(request.all_text for request in model.requests)
    ids: list[str] = re.findall(r"Task (\w+) has begun", told)
    return ids[-1]


def texts(slack: SlackSimulator, chat: str) -> list[str]:
    return [message.shown for message in slack.sent(chat)]


def running(tx: Transaction) -> list[str]:
    return list(tx.conn.execute(select(task_runs.c.session_key)).scalars())


def reports(tx: Transaction) -> list[str]:
    found = select(inbox.c.text).where(inbox.c.identity.startswith("task_report:"))
    return list(tx.conn.execute(found).scalars())


async def test_a_task_runs_beside_its_conversation_and_its_report_is_answered_there_once(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, chat: str
) -> None:
    gate = model.hold(when="Dig for gold.")
    task = await begin(slack, model, chat, "gold")
    await gate.reached
    await slack.user_says(chat, "U1", "!sessions")
    await slack.wait_text(f"- task {task} (Dig gold): working", channel=chat)
    await slack.user_says(chat, "U1", "!status")
    await slack.wait_text(f"Tasks beside it: `{task}` (Dig gold).", channel=chat)
    model.expect(Reply(text="Two and two is four."), when="two and two")
    await slack.user_says(chat, "U1", "two and two?")  # nobody waits for the task
    await slack.wait_text("is four", channel=chat)
    write = ToolCall(name="write_file", arguments={"path": "gold.txt", "content": "7 g"})
    model.expect(Reply(text="I look.", tool_calls=(write,)), when="Dig for gold.")
    model.expect(Reply(text="REPORT: 7 g of it."), when="Dig for gold.")
    model.expect(Reply(text="There are 7 g."), when="REPORT: 7 g of it.")
    gate.release()
    await slack.wait_text("There are 7 g.", channel=chat)
    await daemon.until_quiet()

    sent = texts(slack, chat)
    assert sum("There are 7 g." in text for text in sent) == 1
    assert not any("REPORT" in text or "I look." in text for text in sent)
    assert await daemon.store.read(reports) == [
        f"[Task {task} (Dig gold) is done. Its report follows.]\n\nREPORT: 7 g of it."
    ]
    key = SessionKey.of_chat("slack", chat)
    assert (work_dir_of(daemon.config.state_dir, key) / "gold.txt").read_text() == "7 g"
    (of_task,) = [r for r in model.requests if r.last_user_text.endswith("Dig for gold.")][:1]
    offered = {tool["function"]["name"] for tool in of_task.body["tools"]}
    assert "write_file" in offered
    assert offered.isdisjoint({"start_task", "schedule", "send_file", "say_nothing"})
    assert "please dig" not in of_task.all_text  # it knows what it was told, and nothing else
    assert await daemon.store.read(running) == []
    await slack.user_says(chat, "U1", "!sessions")
    await slack.wait_text("- main conversation", channel=chat)
    assert f"task {task}" not in texts(slack, chat)[-1]
    paid = select(costs.c.session_key, costs.c.user_key, costs.c.calls)
    bills = await daemon.store.read(lambda tx: [tuple(row) for row in tx.conn.execute(paid)])
    assert {bill[:2] for bill in bills} == {(str(key), "slack:U1")}
    assert sum(bill[2] for bill in bills) == len(model.requests)


@pytest.mark.parametrize("policy", ["collect", "followup", "steer", "interrupt"])
async def test_a_report_waits_behind_the_turn_that_runs(
    start: Start, slack: SlackSimulator, model: ModelSimulator, chat: str, policy: str
) -> None:
    async with start(queue=policy) as daemon:
        digging = model.hold(when="Dig for gold.")
        await begin(slack, model, chat, "gold")
        await digging.reached
        busy = model.hold(when="think hard")
        await slack.user_says(chat, "U1", "think hard")
        await busy.reached
        model.expect(Reply(text="REPORT: gold."), when="Dig for gold.")
        model.expect(Reply(text="Thought."), when="think hard")
        model.expect(Reply(text="Gold it is."), when="REPORT: gold.")
        digging.release()
        await daemon.until(reports, lambda found: len(found) == 1)
        states = select(turns.c.state).join(inbox, inbox.c.turn_id == turns.c.id)
        hard = states.where(inbox.c.text == "think hard")
        found = await daemon.store.read(lambda tx: list(tx.conn.execute(hard).scalars()))
        assert found == ["running"]
        busy.release()
        await slack.wait_text("Gold it is.", channel=chat)
        await daemon.until_quiet()
        assert [t for t in texts(slack, chat) if "gold" not in t] == ["Thought.", "Gold it is."]
        assert "REPORT" not in model.requests[-2].all_text


async def test_a_task_that_fails_is_reported_with_its_error(
    start: Start, slack: SlackSimulator, model: ModelSimulator, chat: str
) -> None:
    async with start("tasks: {max_steps: 2}") as daemon:
        look = ToolCall(name="list_dir", arguments={})
        for _ in range(2):
            model.expect(Reply(tool_calls=(look,)), when="Dig for gold.")
        model.expect(Reply(text="It did not work."), marker="(Dig gold) failed. Its report follows")
        await begin(slack, model, chat, "gold")
        await slack.wait_text("It did not work.", channel=chat)
        await daemon.until_quiet()
        assert await daemon.store.read(running) == []
        assert texts(slack, chat) == ["I dig gold.", "It did not work."]


@pytest.mark.parametrize("command", ["!stop", "!stop all", "!new"])
async def test_g6_g7_what_stops_a_conversation_ends_its_tasks_and_none_of_them_wakes_it(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, chat: str, command: str
) -> None:
    gate = model.hold(when="Dig for gold.")
    task = await begin(slack, model, chat, "gold")
    await gate.reached
    await slack.user_says(chat, "U1", command)
    told = "A new conversation begins." if command == "!new" else "Stopped"
    await slack.wait_text(told, channel=chat)
    await daemon.until(running, lambda keys: not keys)
    gate.release()
    await daemon.until_quiet()
    assert await daemon.store.read(reports) == []
    if command == "!stop all":
        assert f"/task:{task}`: 1 running, 0 waiting" in texts(slack, chat)[-1]
    model.expect(Reply(text="Hello."), when="hello")
    await slack.user_says(chat, "U1", "hello")
    await slack.wait_text("Hello.", channel=chat)
    note = f"[Task {task} (Dig gold) was stopped by a person.]"
    assert (note in model.requests[-1].all_text) == (command != "!new")


async def test_a_task_that_people_close_alone_is_reported_as_stopped(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, chat: str
) -> None:
    gate = model.hold(when="Dig for gold.", after=1)
    model.expect(Reply(text=("So far nothing. ", "But")), when="Dig for gold.")
    task = await begin(slack, model, chat, "gold")
    await gate.reached
    drafts = select(turns.c.draft_text).join(sessions, sessions.c.key == turns.c.session_key)
    of_task = drafts.where(sessions.c.context_id == task)
    await daemon.until(
        lambda tx: list(tx.conn.execute(of_task).scalars()), lambda found: "nothing" in found[0]
    )
    model.expect(Reply(text="They ended it."), marker="was stopped by a person. Its report follows")
    await slack.user_says(chat, "U1", f"!task done {task}")
    await slack.wait_text("They ended it.", channel=chat)
    await daemon.until_quiet()
    assert "So far nothing." in (await daemon.store.read(reports))[0]
    assert len(await daemon.store.read(reports)) == 1


async def test_h5_a_task_asks_people_in_the_chat_of_its_conversation(
    start: Start, slack: SlackSimulator, model: ModelSimulator, chat: str
) -> None:
    rule = "tools: {rules: [{do: ask, tool: write_file, reason: Write it}]}"
    async with start(rule) as daemon:
        write = ToolCall(name="write_file", arguments={"path": "gold.txt", "content": "7 g"})
        model.expect(Reply(tool_calls=(write,)), when="Dig for gold.")
        await begin(slack, model, chat, "gold")
        (approval,) = await asked(slack, chat)
        assert any("[Dig gold] Write it" in text for text in texts(slack, chat))
        model.expect(Reply(text="REPORT: written."), when="Dig for gold.")
        model.expect(Reply(text="It is written."), when="REPORT: written.")
        await slack.user_says(chat, "U1", f"!approve {approval}")
        await slack.wait_text("It is written.", channel=chat)
        await daemon.until_quiet()
        key = SessionKey.of_chat("slack", chat)
        assert (work_dir_of(daemon.config.state_dir, key) / "gold.txt").exists()


async def test_a_conversation_has_only_so_many_tasks_and_a_task_none(
    start: Start, slack: SlackSimulator, model: ModelSimulator, chat: str
) -> None:
    async with start("tasks: {at_once: 2}") as daemon:
        gates = {what: model.hold(when=f"Dig for {what}.") for what in ("gold", "iron")}
        for what, gate in gates.items():
            await begin(slack, model, chat, what)
            await gate.reached
        model.expect(begins("Dig tin", "Dig for tin."), when="and tin")
        model.expect(Reply(text="Not now."), marker="Only 2 tasks may run beside")
        await slack.user_says(chat, "U1", "and tin")
        await slack.wait_text("Not now.", channel=chat)
        told = model.requests[-1].all_text
        assert "(Dig gold)" in told
        assert "(Dig iron)" in told
        for what, gate in gates.items():
            # One that tries to begin another is told that it is itself a task.
            model.expect(begins("Deeper", "Dig deeper."), when=f"Dig for {what}.")
            model.expect(Reply(text=f"REPORT: {what}."), when=f"Dig for {what}.")
            model.expect(Reply(text=f"Got {what}."), when=f"REPORT: {what}.")
            gate.release()
            await slack.wait_text(f"Got {what}.", channel=chat)
        await daemon.until_quiet()
        refused = select(messages.c.text).where(
            messages.c.tool == "start_task", messages.c.is_error, messages.c.kind == "tool_result"
        )
        found = await daemon.store.read(lambda tx: list(tx.conn.execute(refused).scalars()))
        assert len(found) == 3
        assert sum("do it yourself" in text for text in found) == 2


async def test_a_task_whose_session_is_removed_is_reported_and_one_of_a_removed_chat_is_not(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, chat: str
) -> None:
    async def remove(key: SessionKey) -> None:
        await daemon.store.write(lambda tx: delete_session(tx, key, 1))

    key = SessionKey.of_chat("slack", chat)
    gate = model.hold(when="Dig for gold.")
    task = await begin(slack, model, chat, "gold")
    await gate.reached
    model.expect(Reply(text="It is gone."), marker="was deleted by a person")
    await remove(key.with_task(task))
    await slack.wait_text("It is gone.", channel=chat)
    gate.release()
    gate = model.hold(when="Dig for iron.")
    await begin(slack, model, chat, "iron")
    await gate.reached
    await remove(key)
    await daemon.until(running, lambda keys: not keys)
    await daemon.until_quiet()
    gone = select(sessions.c.deleted_ms).where(sessions.c.key == str(key))
    assert await daemon.store.read(lambda tx: tx.conn.execute(gone).scalar_one()) is not None
    assert len(texts(slack, chat)) == 3
