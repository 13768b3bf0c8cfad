"""The real tools in real turns: A3, A8, A10, B9, H15."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.history import EntryKind
from clawbot.session_key import SessionKey
from clawbot.work_dirs import work_dir_of
from tests.sessions.ground import GLOBAL, Chats, chats, turns_of, write_config
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.unit.tools.ground import until_processes

FRONT, BACK = GLOBAL.with_task("front"), SessionKey.of_chat("web", "back")


@pytest.fixture
async def chat(tmp_path: Path, model: ModelSimulator) -> AsyncIterator[Chats]:
    async with chats(write_config(tmp_path, model), model) as chat:
        yield chat


def folder(tmp_path: Path, key: SessionKey) -> Path:
    return work_dir_of(tmp_path / "a", key)


def uses(model: ModelSimulator, when: str, *calls: tuple[str, dict[str, object]]) -> None:
    made = tuple(ToolCall(name=name, arguments=arguments) for name, arguments in calls)
    model.expect(Reply(tool_calls=made), when=when)
    model.expect(Reply(text=f"done: {when}"), when=when)


async def results(chat: Chats, key: SessionKey) -> list[tuple[str, bool]]:
    """The results in the order of their calls, as models are shown them; the history has them as
    they came.
    """
    entries = await chat.history(key)
    calls = [one.call_id for one in entries if one.kind is EntryKind.TOOL_CALL]
    found = [one for one in entries if one.kind is EntryKind.TOOL_RESULT]
    found.sort(key=lambda one: calls.index(one.call_id))
    return [(one.text, one.is_error) for one in found]


async def test_a3_each_session_writes_into_its_own_directory(
    chat: Chats, model: ModelSimulator, tmp_path: Path
) -> None:
    for name in ("front", "back"):
        uses(
            model,
            f"work of {name}",
            ("write_file", {"path": "README.md", "content": f"{name}_token\n"}),
            ("edit_file", {"path": "README.md", "old_text": "token", "new_text": "999"}),
            ("grep", {"pattern": "_999"}),
            ("glob", {"pattern": "*.md"}),
            ("read_file", {"path": "README.md"}),
        )
    await asyncio.gather(chat.say(FRONT, "work of front"), chat.say(BACK, "work of back"))
    assert (folder(tmp_path, FRONT) / "README.md").read_text() == "front_999\n"
    assert (folder(tmp_path, BACK) / "README.md").read_text() == "back_999\n"
    found = [text for text, _ in await results(chat, BACK)]
    assert found[2:] == ["README.md:1:back_999", "README.md", "back_999\n"]


async def test_h15_two_writes_of_one_step_are_made_in_their_order(
    chat: Chats, model: ModelSimulator, tmp_path: Path
) -> None:
    uses(
        model,
        "write it",
        *(("write_file", {"path": "a.txt", "content": f"version {number}"}) for number in range(8)),
    )
    await chat.say(BACK, "write it")
    assert (folder(tmp_path, BACK) / "a.txt").read_text() == "version 7"


async def test_a10_two_chats_in_one_directory_do_not_write_over_each_other(
    chat: Chats, model: ModelSimulator, tmp_path: Path
) -> None:
    """One directory, two sessions (the chat and a task of it) and the real tools."""
    task = BACK.with_task("7")
    uses(model, "begin", ("write_file", {"path": "plan.md", "content": "one\n"}))
    await chat.say(BACK, "begin")
    uses(
        model,
        "go on",
        ("subagent", {"task": "look at plan.md"}),
        ("read_file", {"path": "plan.md"}),
        ("write_file", {"path": "plan.md", "content": "one\ntwo\n"}),
    )
    uses(model, "look at plan.md", ("read_file", {"path": "plan.md"}))
    await chat.say(task, "go on")
    # A helper's look is not the session's own.
    uses(model, "see plan.md", ("read_file", {"path": "plan.md"}))
    uses(
        model,
        "finish",
        ("subagent", {"task": "see plan.md"}),
        ("write_file", {"path": "plan.md", "content": "one\nthree\n"}),
        ("edit_file", {"path": "plan.md", "old_text": "one\n", "new_text": "one\nthree\n"}),
    )
    await chat.say(BACK, "finish")
    found = await results(chat, BACK)
    assert [is_error for _, is_error in found] == [False, False, True, False]
    assert "was changed by somebody else" in found[2][0]
    assert (folder(tmp_path, BACK) / "plan.md").read_text() == "one\nthree\ntwo\n"


async def test_a8_another_sessions_saved_results_and_files_stay_out_of_reach(
    chat: Chats, model: ModelSimulator, tmp_path: Path
) -> None:
    secret = folder(tmp_path, FRONT)
    paths = [f"../{secret.name}/README.md", f"{secret}/x", "_saved/x.txt", "/etc/passwd"]
    uses(
        model,
        "reach out",
        *(("write_file", {"path": path, "content": "was here"}) for path in paths),
    )
    await chat.say(BACK, "reach out")
    found = await results(chat, BACK)
    assert [is_error for _, is_error in found] == [True, True, False, True]
    # What looks like a saved result is an ordinary file of the session's own directory.
    assert (folder(tmp_path, BACK) / "_saved/x.txt").read_text() == "was here"
    assert not secret.exists() or "was here" not in (secret / "README.md").read_text()


async def test_b9_a_json_of_5_mb_on_one_line_is_capped_and_all_of_it_within_reach(
    chat: Chats, model: ModelSimulator, tmp_path: Path
) -> None:
    work = folder(tmp_path, BACK)
    await asyncio.to_thread(work.mkdir, parents=True)
    data = json.dumps([f"{number:07}" for number in range(500_000)])
    await asyncio.to_thread((work / "big.json").write_text, data)
    uses(model, "read big", ("read_file", {"path": "big.json", "column": 5_000_001}))
    await chat.say(BACK, "read big")
    ((text, is_error),) = await results(chat, BACK)
    assert not is_error
    assert len(text) < 50_000
    assert data[5_000_000:5_010_000] in text
    assert "column=" in text


async def test_a3_commands_of_two_sessions_run_in_their_own_directories(
    chat: Chats, model: ModelSimulator, tmp_path: Path
) -> None:
    for name in ("front", "back"):
        uses(model, f"where is {name}", ("bash", {"command": f"echo {name} > here; pwd"}))
    await asyncio.gather(chat.say(FRONT, "where is front"), chat.say(BACK, "where is back"))
    for key, name in ((FRONT, "front"), (BACK, "back")):
        assert await results(chat, key) == [(f"{folder(tmp_path, key)}\n", False)]
        assert (folder(tmp_path, key) / "here").read_text() == f"{name}\n"


async def test_b9_5_mb_of_output_with_exit_1_and_with_a_time_out_stay_within_reach(
    chat: Chats, model: ModelSimulator
) -> None:
    print_5_mb = "yes 0123456789 | head -c 5000000"
    uses(model, "fail big", ("bash", {"command": f"{print_5_mb}; exit 1"}))
    uses(model, "hang big", ("bash", {"command": f"{print_5_mb}; sleep 300", "timeout_s": 2}))
    await chat.say(BACK, "fail big")
    await chat.say(BACK, "hang big")
    found = await results(chat, BACK)
    assert [is_error for _, is_error in found] == [True, True]
    for (text, _), end in zip(found, ("[exit code 1]", "run in the background.]"), strict=True):
        assert len(text) < 51_000
        assert text.endswith(end)
        assert "characters left out" in text
    path = found[0][0].partition('path="')[2].partition('"')[0]
    uses(model, "show the middle", ("read_file", {"path": path, "offset": 300_000, "limit": 2}))
    await chat.say(BACK, "show the middle")
    assert (await results(chat, BACK))[-1][0].startswith("0123456789\n0123456789\n")


async def test_g1_a_stop_ends_a_command_and_all_that_it_has_started(
    chat: Chats, model: ModelSimulator
) -> None:
    marks = [uuid.uuid4().hex for _ in range(2)]
    calls = (
        ("bash", {"command": f"sleep 300; : {marks[0]}", "background": True}),
        ("bash", {"command": f"setsid bash -c 'sleep 300; : {marks[1]}'; sleep 300"}),
    )
    made = tuple(ToolCall(name=name, arguments=arguments) for name, arguments in calls)
    model.expect(Reply(tool_calls=made), when="work")
    accepted = await chat.send(BACK, "work")
    for mark in marks:
        await until_processes(mark, run=True)
    await chat.say(BACK, "/stop")
    await chat.answered(BACK, accepted)
    for mark in marks:
        await until_processes(mark, run=False)
    found = await results(chat, BACK)
    assert "runs in the background" in found[0][0]
    assert found[1][0].startswith("Interrupted")


async def test_a_channels_tools_are_those_it_is_given(
    tmp_path: Path, model: ModelSimulator
) -> None:
    extra = """
    tools: {offered: ["read_file", "l*", "glob"]}
    channels:
      slack: {mode: http, bot_token: xoxb-made-up, signing_secret: made-up, tools: [glob]}
    """
    async with chats(write_config(tmp_path, model, extra, name="few"), model) as few:
        slack = SessionKey.of_chat("slack", "C1")
        uses(model, "here", ("bash", {"command": "echo x"}))
        uses(model, "there", ("list_dir", {}))
        await few.say(BACK, "here")
        await few.say(slack, "there")
        names = [set(request.tools) for request in turns_of(model)]
        assert names[0] == {"read_file", "list_dir", "glob"}
        assert names[-1] == {"glob"}
        assert "There is no tool 'bash'" in (await results(few, BACK))[0][0]
        assert "There is no tool 'list_dir'" in (await results(few, slack))[0][0]


async def test_h4_a9_a_call_that_fails_again_and_again_is_reminded_of_in_its_session_alone(
    chat: Chats, model: ModelSimulator
) -> None:
    for number in range(3):
        uses(model, f"read it, {number}", ("read_file", {"path": "none.txt"}))
        await chat.say(FRONT, f"read it, {number}")
    uses(model, "read it there", ("read_file", {"path": "none.txt"}))
    await chat.say(BACK, "read it there")
    front = [text for text, _ in await results(chat, FRONT)]
    assert ["times in a row" in text for text in front] == [False, False, True]
    ((back, _),) = await results(chat, BACK)
    assert "times in a row" not in back
    assert "glob finds a file by its name" in back


async def test_h3_a_command_without_network_is_told_so(chat: Chats, model: ModelSimulator) -> None:
    uses(model, "download", ("bash", {"command": "echo x > /dev/tcp/192.0.2.1/80"}))
    uses(model, "misspell", ("bash", {"command": "no-such-program"}))
    await chat.say(BACK, "download")
    await chat.say(BACK, "misspell")
    first, second = [text for text, _ in await results(chat, BACK)]
    assert first.endswith("[Shell commands have no network here; web_fetch loads pages.]")
    assert "It may not be installed" in second


async def test_h13_a_turn_ends_after_its_steps_with_a_visible_error(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(tmp_path, model, "turns: {max_steps: 3}", name="few")
    async with chats(config, model) as few:
        for _ in range(3):
            model.expect(
                Reply(tool_calls=(ToolCall(name="list_dir", arguments={}),)), when="for ever"
            )
        answer = await few.say(BACK, "for ever")
        assert "error" in answer
        assert len(turns_of(model)) == 3
        assert len(await results(few, BACK)) == 3
        model.expect(Reply(text="on we go"), when="and now")
        assert await few.say(BACK, "and now") == "on we go"
