"""Scenario E1: whoever never opens a sub-session notices nothing of them.

The requests of one user are frozen in `golden/base_session.json`, byte for byte but for the texts
that are somebody else's to change (the system prompt, the tools); of these the first is checked
against its source. To freeze them anew: CLAWBOT_WRITE_GOLDEN=1 pytest tests/sessions/test_golden.py
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clawbot.agent.prompt import session_facts, system_prompt
from clawbot.session_key import SessionKey
from clawbot.work_dirs import make_work_dir, work_dir_of
from tests.sessions.ground import GLOBAL, Chats, chats, turns_of, write_config
from tests.simulators.model import ModelSimulator, RecordedRequest, Reply, ToolCall

GOLDEN = Path(__file__).parent / "golden" / "base_session.json"
INSTRUCTIONS = "Answer shortly."
CONTEXT = "The team likes green."
WITH_TASKS = """
tasks: {seed: "Context of {task}."}
channels:
  slack: {mode: http, bot_token: xoxb-made-up, signing_secret: made-up}
"""


async def talk_of_one_user(chat: Chats, others: bool) -> list[str]:
    """What the user says, while others open and use sub-sessions, or nobody does."""
    task = GLOBAL.with_task("7")
    other = SessionKey.of_chat("slack", "C1").with_task("8")
    model, replies = chat.model, []
    for text in ("read it", "and now?", "/new", "hello", "and again"):
        if text == "read it":
            model.expect(
                Reply(
                    text="I read it.",
                    tool_calls=(ToolCall(name="read_file", arguments={"path": "a.md"}, id="c1"),),
                ),
                when="read it",
            )
            model.expect(Reply(text="It says a."), when="read it")
        elif not text.startswith("/"):
            model.expect(Reply(text=f"To {text!r}: yes."), when=text)
        replies.append(await chat.say(GLOBAL, text))
        if others:
            await chat.say(task, "what about you?")
            await chat.say(other, "what about you?")
    return replies


async def requests_of_one_user(
    folder: Path, model: ModelSimulator, *, others: bool
) -> tuple[list[RecordedRequest], list[str]]:
    (folder / "team.md").write_text(CONTEXT)
    extra = f"instructions: {INSTRUCTIONS}\ncontext: [team.md]\n{WITH_TASKS if others else ''}"
    name = "with-others" if others else "alone"
    config = write_config(folder, model, extra, name=name)
    work_dir = work_dir_of(folder / name, GLOBAL)
    await asyncio.to_thread(make_work_dir, folder / name, work_dir)
    (work_dir / "a.md").write_text("a")
    start = len(model.requests)
    async with chats(config, model) as chat:
        replies = await talk_of_one_user(chat, others)
    mine = [
        request
        for request in turns_of(model)
        if request.number > start and "what about you?" not in request.all_text
    ]
    return mine, replies


def frozen(request: RecordedRequest) -> dict[str, Any]:
    """A request's body; what is somebody else's text is checked here and left out."""
    (day,) = re.findall(r"Today is (.*) \(UTC\)", request.system)
    today = datetime.strptime(day, "%A, %Y-%m-%d").replace(tzinfo=UTC)
    facts = session_facts(
        channel="web",
        is_group=False,
        more_dirs=(),
        network=False,
        now_ms=round(today.timestamp() * 1000),
    )
    expected = system_prompt([INSTRUCTIONS], [("team.md", CONTEXT)], [facts])
    assert request.system == expected
    body = json.loads(json.dumps(request.body))
    body["messages"][0]["content"] = "<the system prompt>"
    assert request.tools
    body["tools"] = "<the tools>"
    return dict(body)


async def test_e1_the_requests_of_a_user_without_sub_sessions_are_the_frozen_ones(
    tmp_path: Path, model: ModelSimulator
) -> None:
    requests, replies = await requests_of_one_user(tmp_path, model, others=False)
    found = {"requests": [frozen(request) for request in requests], "replies": replies}
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("CLAWBOT_WRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


async def test_e1_they_are_the_same_bytes_while_others_use_sub_sessions(
    tmp_path: Path, model: ModelSimulator
) -> None:
    alone, alone_replies = await requests_of_one_user(tmp_path, model, others=False)
    among, among_replies = await requests_of_one_user(tmp_path, model, others=True)
    assert len(alone) == 5
    assert [json.dumps(one.body) for one in alone] == [json.dumps(one.body) for one in among]
    assert alone_replies == among_replies


async def test_e1_no_key_an_empty_one_and_global_are_one_session(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with chats(write_config(tmp_path, model), model) as chat:
        for number, name in enumerate((None, "", "global")):
            await chat.say(SessionKey.parse(name), f"message {number}")
        said = [entry.text for entry in await chat.history(GLOBAL) if entry.kind == "user"]
        assert said == ["message 0", "message 1", "message 2"]
