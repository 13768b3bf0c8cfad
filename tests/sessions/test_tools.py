"""The real tools in real turns: A3, A8, A10, B9, H15."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.history import EntryKind
from clawbot.session_key import SessionKey
from clawbot.work_dirs import work_dir_of
from tests.sessions.ground import GLOBAL, Chats, chats, write_config
from tests.simulators.model import ModelSimulator, Reply, ToolCall

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
    entries = await chat.history(key)
    return [(one.text, one.is_error) for one in entries if one.kind is EntryKind.TOOL_RESULT]


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
