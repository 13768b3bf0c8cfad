"""The offline model understands plain requests, uses tools for them and says what it is."""

import json
from pathlib import Path

import pytest

from clawbot.agent.offline import OfflineModel, answer, understand
from clawbot.clock import SystemClock
from clawbot.history import Entry, EntryKind, ModelRequest, ToolSpec
from clawbot.tools.list_dir import ListDir
from clawbot.tools.read_file import ReadFile
from clawbot.tools.registry import ToolLimits, ToolRegistry
from tests.unit.tools.context import context_in

TOOLS = tuple(
    ToolSpec(name=name, description="", parameters={}) for name in ("read_file", "list_dir")
)
INTRODUCED = Entry(kind=EntryKind.ASSISTANT, text="I am clawbot's offline model …")


def user(text: str) -> Entry:
    return Entry(kind=EntryKind.USER, text=text)


def request_of(*entries: Entry, tools: tuple[ToolSpec, ...] = TOOLS) -> ModelRequest:
    return ModelRequest(system="", entries=entries, tools=tools)


def result(text: str, *, is_error: bool = False) -> Entry:
    return Entry(kind=EntryKind.TOOL_RESULT, text=text, is_error=is_error)


@pytest.mark.parametrize(
    ("text", "tool", "path"),
    [
        ("read README.md", "read_file", "README.md"),
        ("Please read the file `docs/a b.md`.", "read_file", "docs/a b.md"),
        ("can you show me notes/one.txt?", "read_file", "notes/one.txt"),
        ("cat ./Makefile", "read_file", "./Makefile"),
        ("what is in README.md?", "read_file", "README.md"),
        ("what's in ../front/README.md", "read_file", "../front/README.md"),
        ("what is in notes/", "list_dir", "notes/"),
        ("what's in the notes?", "list_dir", "notes"),
        ("What is in here?", "list_dir", "."),
        ("list files", "list_dir", "."),
        ("List the files in notes/.", "list_dir", "notes/"),
        ("which files are there?", "list_dir", "."),
        ("ls", "list_dir", "."),
        ("ls notes", "list_dir", "notes"),
        ("show me all the files", "list_dir", "."),
        ("读取 README.md", "read_file", "README.md"),
        ("请读一下README.md", "read_file", "README.md"),
        ("查看文件 notes/one.txt", "read_file", "notes/one.txt"),
        ("列出文件", "list_dir", "."),
        ("列出 notes 目录", "list_dir", "notes"),
        ("notes/ 里有什么?", "list_dir", "notes/"),
        ("notes目录下有哪些文件", "list_dir", "notes"),
        ("有哪些文件?", "list_dir", "."),
        ("这里有什么?", "list_dir", "."),
        ("当前目录里有哪些文件", "list_dir", "."),
        ("打开“会议 记录.txt”", "read_file", "会议 记录.txt"),
    ],
)
def test_a_plain_request_becomes_a_tool_call(text: str, tool: str, path: str) -> None:
    intent = understand(text)
    assert intent is not None
    assert (intent.tool, intent.path) == (tool, path)
    reply = answer(request_of(user(text)))
    assert reply.finish_reason == "tool_calls"
    assert [call.tool for call in reply.tool_calls] == [tool]
    assert json.loads(reply.tool_calls[0].arguments) == {"path": path}


@pytest.mark.parametrize("text", ["hello", "你好", "I already did it", "", "thanks for the list"])
def test_anything_else_is_answered_with_what_it_can_do(text: str) -> None:
    reply = answer(request_of(user(text)))
    assert reply.tool_calls == ()
    assert "README.md" in reply.text


def test_it_names_itself_in_the_first_reply_of_a_session_alone() -> None:
    first = answer(request_of(user("hello")))
    second = answer(request_of(user("hello"), INTRODUCED, user("hello again")))
    assert first.text.startswith("I am clawbot's offline model")
    assert "I am clawbot's offline model" not in second.text
    assert answer(request_of(user("你好"))).text.startswith("我是 clawbot 的离线模型")


def test_a_result_is_shown_in_a_fence_that_it_cannot_close() -> None:
    reply = answer(request_of(INTRODUCED, user("read a.md"), result("```\ncode\n```")))
    assert reply.tool_calls == ()
    assert "````\n```\ncode\n```\n````" in reply.text


def test_a_failed_result_is_told_as_such() -> None:
    reply = answer(
        request_of(INTRODUCED, user("read a.md"), result("a.md: no such file", is_error=True))
    )
    assert reply.text == "That did not work: a.md: no such file"


def test_without_tools_it_says_that_it_has_none() -> None:
    reply = answer(request_of(INTRODUCED, user("read a.md"), tools=()))
    assert reply.tool_calls == ()
    assert "no tool" in reply.text


async def test_its_text_arrives_in_words() -> None:
    pieces: list[str] = []
    reply = await OfflineModel(word_delay_s=0).reply(request_of(user("hello")), pieces.append)
    assert "".join(pieces) == reply.text
    assert len(pieces) > 10
    pieces.clear()
    long = result("word " * 5000)
    await OfflineModel(word_delay_s=0).reply(request_of(user("read a"), long), pieces.append)
    assert len(pieces) < 100, "a long text must not take long"


async def test_it_reads_a_file_with_the_real_tool(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("token_12345")
    limits = ToolLimits()
    tools = ToolRegistry([ReadFile(), ListDir()], clock=SystemClock(), limits=limits)
    model = OfflineModel(word_delay_s=0)
    asked = user("read README.md")
    first = await model.reply(request_of(asked, tools=tools.specs), lambda _piece: None)
    observation = await tools.bind(context_in(tmp_path)).call(first.tool_calls[0])
    second = await model.reply(
        request_of(asked, result(observation.text), tools=tools.specs), lambda _piece: None
    )
    assert "token_12345" in second.text
    assert "offline model" in second.text
