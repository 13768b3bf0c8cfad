"""The prompt in real turns: made anew for each, counted, the same if nothing changes; B10, C6."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.agent.prompt import SYSTEM_CORE
from clawbot.history import EntryKind
from clawbot.session_key import SessionKey
from clawbot.work_dirs import work_dir_of
from tests.sessions.ground import Chats, chats, turns_of, write_config
from tests.simulators.model import ModelSimulator, Reply, ToolCall

KEY = SessionKey.of_chat("web", "office")
SKILL = "---\nname: release\ndescription: How we release.\n---\nTag it first.\n"


@pytest.fixture
async def chat(tmp_path: Path, model: ModelSimulator) -> AsyncIterator[Chats]:
    async with chats(write_config(tmp_path, model), model) as chat:
        yield chat


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_notes_and_skills_are_those_of_the_turn_and_a_skill_is_read_when_needed(
    chat: Chats, model: ModelSimulator, tmp_path: Path
) -> None:
    work = work_dir_of(tmp_path / "a", KEY)
    for text in ("one", "two", "three"):
        model.expect(Reply(text=f"answer {text}"), when=text)
    await chat.say(KEY, "one")
    await asyncio.to_thread(put, work / "AGENTS.md", "Use tabs.")
    await asyncio.to_thread(put, work / ".claw/skills/release/SKILL.md", SKILL)
    await chat.say(KEY, "two")
    await asyncio.to_thread(put, work / "AGENTS.md", "Use blanks.")
    await chat.say(KEY, "three")
    first, second, third = (request.system for request in turns_of(model))
    assert "<notes" not in first
    assert "Use tabs." in second
    assert "- release: How we release." in second
    assert "Tag it first" not in second
    assert "Use blanks." in third
    assert "Use tabs." not in third
    for system in (first, second, third):
        assert system.startswith(SYSTEM_CORE)
        assert "It is a conversation with one person, on the channel web." in system
        assert system.count("Shell commands have no network.") == 1
    model.expect(
        Reply(tool_calls=(ToolCall(name="read_skill", arguments={"name": "release"}),)),
        when="release it",
    )
    model.expect(Reply(text="Tagged."), when="release it")
    await chat.say(KEY, "release it")
    results = [one for one in await chat.history(KEY) if one.kind is EntryKind.TOOL_RESULT]
    assert results[0].text.endswith("Tag it first.")


async def test_the_prompt_of_a_session_stays_the_same_bytes_while_nothing_changes(
    chat: Chats, model: ModelSimulator, tmp_path: Path
) -> None:
    await asyncio.to_thread(put, work_dir_of(tmp_path / "a", KEY) / "AGENTS.md", "Use tabs.")
    for text in ("one", "two"):
        model.expect(Reply(text=f"answer {text}"), when=text)
        await chat.say(KEY, text)
    requests = turns_of(model)
    assert len({request.system for request in requests}) == 1
    assert len({str(request.body["tools"]) for request in requests}) == 1


async def test_b10_notes_that_fill_the_budget_are_counted(
    tmp_path: Path, model: ModelSimulator
) -> None:
    """They leave less room for the history, or a clear error; nothing too large is sent."""
    extra = (
        "turns: {request_tokens: 12000, max_output_tokens: 1000}\nproject: {agents_bytes: 60000}"
    )
    config = write_config(tmp_path, model, extra, name="small")
    work = work_dir_of(tmp_path / "small", KEY)
    async with chats(config, model) as few:
        for number in range(6):
            model.expect(Reply(text="ok " * 300), when=f"message {number}")
            await few.say(KEY, f"message {number} " + "word " * 500)
        await asyncio.to_thread(put, work / "AGENTS.md", "note number one. " * 1000)
        model.expect(Reply(text="still here"), when="and now")
        assert await few.say(KEY, "and now?") == "still here"
        newest = turns_of(model)[-1]
        assert newest.system.count("note number one.") > 900
        assert "message 0" not in newest.all_text
        sent = len(turns_of(model))  # a summary may be on its way meanwhile
        await asyncio.to_thread(put, work / "AGENTS.md", "note number one. " * 3400)
        answer = await few.say(KEY, "and what now?")
        assert len(turns_of(model)) == sent
        assert "still here" not in answer
