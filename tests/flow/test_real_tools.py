"""A3, A8, A9, G1, G5, H5 and H12 in a chat with the real tools: commands under bubblewrap,
sub-agents, files, and questions about them; where another test has one of these alone or by a tool
of the tests, here they meet.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select

from clawbot.agent.interruption import INTERRUPTED
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import messages, turns
from clawbot.work_dirs import work_dir_of
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.flow.test_approvals import asked, parked
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SlackSimulator
from tests.unit.tools.ground import until_processes

NAMES = ("front", "back")


@pytest.fixture
def path(tmp_path: Path, slack: SlackSimulator, model: ModelSimulator) -> Path:
    return write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
    )


@pytest.fixture
async def daemon(path: Path, slack: SlackSimulator) -> AsyncIterator[Daemon]:
    async with run_daemon(path, "worker", "slack") as running:
        await connect(running, slack, None)
        yield running


def folder_of(daemon: Daemon, chat: str) -> Path:
    return work_dir_of(daemon.config.state_dir, SessionKey.of_chat("slack", chat))


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def step(*calls: tuple[str, dict[str, object]]) -> Reply:
    return Reply(
        tool_calls=tuple(ToolCall(name=name, arguments=arguments) for name, arguments in calls)
    )


async def results(daemon: Daemon, chat: str) -> list[tuple[str, str, bool]]:
    """Tool, text and whether it failed, of each call of a chat in the order of the calls."""
    key = str(SessionKey.of_chat("slack", chat))

    def load(tx: Transaction) -> list[tuple[str, str, bool]]:
        rows = tx.conn.execute(
            select(messages).where(messages.c.session_key == key).order_by(messages.c.seq)
        ).mappings()
        found = list(rows)
        calls = [row["call_id"] for row in found if row["kind"] == "tool_call"]
        ended = [row for row in found if row["kind"] == "tool_result"]
        ended.sort(key=lambda row: calls.index(row["call_id"]))
        return [(row["tool"], row["text"], bool(row["is_error"])) for row in ended]

    return await daemon.store.read(load)


async def test_a3_a9_two_chats_use_every_tool_at_once_and_each_works_in_its_own_directory(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    people = {name: slack.create_user(name) for name in NAMES}
    chats = {name: slack.create_dm(people[name]) for name in NAMES}
    gates = []
    for name in NAMES:
        put(folder_of(daemon, chats[name]) / "README.md", f"{name}_999\n")
        model.expect(
            step(
                ("subagent", {"task": f"Look for {name}."}),
                ("read_file", {"path": "README.md"}),
                ("write_file", {"path": "new.txt", "content": f"written by {name}\n"}),
                ("edit_file", {"path": "README.md", "old_text": "999", "new_text": "1000"}),
                ("bash", {"command": f"pwd; cat README.md new.txt; echo {name} > made"}),
            ),
            when=f"work of {name}",
        )
        gates.append(model.hold(f"Look for {name}."))
        model.expect(step(("grep", {"pattern": "_999"})), when=f"Look for {name}.")
        model.expect(Reply(text=f"Report to {name}."), marker=f"README.md:1:{name}_999")
        model.expect(Reply(text=f"{name} is done."), marker=f"Report to {name}.")
        await slack.user_says(chats[name], people[name], f"work of {name}")
    for gate in gates:
        await gate.reached  # both at once
    for gate in gates:
        gate.release()
    for name in NAMES:
        await slack.wait_text(f"{name} is done.", channel=chats[name])
    await daemon.until_quiet()
    for name, other in zip(NAMES, reversed(NAMES), strict=True):
        work = folder_of(daemon, chats[name])
        found = await results(daemon, chats[name])
        assert not any(is_error for _, _, is_error in found), found
        texts = [text for _, text, _ in found]
        assert texts[:2] == [f"Report to {name}.", f"{name}_999\n"]
        assert texts[4] == f"{work}\n{name}_1000\nwritten by {name}\n"
        assert sorted(one.name for one in work.iterdir()) == ["README.md", "made", "new.txt"]
        assert not any(other in text for text in texts)
    for request in model.requests:
        assert not all(f"{name}_999" in request.all_text for name in NAMES)
        assert not all(f"Report to {name}." in request.all_text for name in NAMES)


async def test_a8_no_tool_reaches_another_chat_s_files(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    front, back = slack.create_dm(slack.create_user("front")), slack.create_dm(alice)
    secret, work = folder_of(daemon, front), folder_of(daemon, back)
    put(secret / "README.md", "front's secret\n")
    put(work / "README.md", "back's own\n")
    (work / "link").symlink_to(secret)
    ways = (f"../{secret.name}/README.md", str(secret / "README.md"), "link/README.md")
    model.expect(
        step(
            *(("read_file", {"path": way}) for way in ways),
            *(("grep", {"pattern": "secret", "path": way}) for way in ways),
            *(("send_file", {"path": way}) for way in ways),
            *(("edit_file", {"path": way, "old_text": "s", "new_text": "x"}) for way in ways),
            *(("bash", {"command": f"cat {way} || ls /; exit 1"}) for way in ways),
        ),
        when="reach out",
    )
    model.expect(Reply(text="Nothing found."), when="reach out")
    await slack.user_says(back, alice, "reach out")
    await slack.wait_text("Nothing found.", channel=back)
    await daemon.until_quiet()
    found = await results(daemon, back)
    assert len(found) == 5 * len(ways)
    assert all(is_error for _, _, is_error in found), found
    assert not any("secret\n" in text for _, text, _ in found)
    assert (secret / "README.md").read_text() == "front's secret\n"
    assert [message.text for message in slack.sent(back)] == ["Nothing found."]


async def test_g1_g5_a_stop_amid_five_tools_keeps_three_results_and_ends_the_command(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat, mark = slack.create_dm(alice), uuid.uuid4().hex
    put(folder_of(daemon, chat) / "README.md", "read me\n")
    model.expect(
        step(
            ("read_file", {"path": "README.md"}),
            ("glob", {"pattern": "*.md"}),
            ("bash", {"command": "echo made > made; cat made"}),
            ("bash", {"command": f"setsid bash -c 'sleep 300; : {mark}' & sleep 300; : {mark}"}),
            ("bash", {"command": "echo late > late"}),
        ),
        when="five",
    )
    await slack.user_says(chat, alice, "five")
    await until_processes(mark, run=True)
    await slack.user_says(chat, alice, "!stop")
    await slack.wait_text("Stopped.", channel=chat)
    await until_processes(mark, run=False)
    await daemon.until_quiet()
    found = await results(daemon, chat)
    assert [text for _, text, _ in found[:3]] == ["read me\n", "README.md", "made\n"]
    assert [text for _, text, _ in found[3:]] == [INTERRUPTED, INTERRUPTED]
    assert not (folder_of(daemon, chat) / "late").exists()
    model.expect(Reply(text="Three were done."), when="how many")
    await slack.user_says(chat, alice, "how many?")
    await slack.wait_text("Three were done.", channel=chat)
    assert model.requests[-1].all_text.count("Interrupted:") == 2


async def test_g1_a_stop_takes_back_the_question_about_a_command_and_it_is_never_run(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    put(folder_of(daemon, chat) / "build/x", "x")
    model.expect(step(("bash", {"command": "rm -rf build"})), when="clean up")
    await slack.user_says(chat, alice, "clean up")
    (approval,) = await asked(slack, chat)
    await parked(daemon)
    await slack.user_says(chat, alice, "stop")
    await slack.wait_text("Stopped.", channel=chat)
    await slack.user_says(chat, alice, f"!approve {approval}")
    await slack.wait_text("taken back", channel=chat)
    await daemon.until_quiet()
    states = select(turns.c.state)
    assert await daemon.store.read(lambda tx: list(tx.conn.execute(states).scalars())) == [
        "stopped"
    ]
    assert (folder_of(daemon, chat) / "build/x").exists()


async def test_h5_a_command_waits_through_a_restart_runs_once_and_is_asked_about_again(
    path: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    command = "rm -rf build; echo x >> log; wc -l < log"
    model.expect(step(("bash", {"command": command})), when="clean up")
    async with run_daemon(path, "worker", "slack") as first:
        await connect(first, slack, None)
        await slack.user_says(chat, alice, "clean up")
        (approval,) = await asked(slack, chat)
        await parked(first)
    # The same once more in the same turn: a yes counts once.
    model.expect(step(("bash", {"command": command})), marker="1\n")
    async with run_daemon(path, "worker-2", "slack") as second:
        await connect(second, slack, None)
        log = folder_of(second, chat) / "log"
        assert not log.exists()
        await slack.user_says(chat, alice, f"!approve {approval}")
        _, again = await asked(slack, chat, 2)
        await parked(second)
        assert log.read_text() == "x\n"
        model.expect(Reply(text="Once, then."), marker="A person refused this call")
        await slack.user_says(chat, alice, f"!deny {again}")
        await slack.wait_text("Once, then.", channel=chat)
        await second.until_quiet()
        assert log.read_text() == "x\n"


async def test_h12_calls_that_cannot_be_made_are_answered_and_the_turn_goes_on(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(
        Reply(
            tool_calls=(
                ToolCall(name="red_file", arguments={"path": "README.md"}),
                ToolCall(name="read_file", arguments='{"path": "README'),
                ToolCall(name="read_file", arguments={}),
                ToolCall(name="bash", arguments={"command": 3}),
                ToolCall(name="write_file", arguments='["a list"]'),
            )
        ),
        when="try it",
    )
    model.expect(Reply(text="I see."), when="try it")
    await slack.user_says(chat, alice, "try it")
    await slack.wait_text("I see.", channel=chat)
    await daemon.until_quiet()
    found = await results(daemon, chat)
    assert all(is_error for _, _, is_error in found)
    words = ("Did you mean read_file?", "not valid JSON", "path", "command", "one JSON object")
    for (_, text, _), word in zip(found, words, strict=True):
        assert word in text
    assert all(" takes " in text for _, text, _ in found[1:])
