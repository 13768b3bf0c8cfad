"""Whatever a history looks like, each provider is sent a body that keeps its rules."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.agent.wire import GO_ON, NO_OUTPUT, NO_RESULT
from clawbot.history import Entry, EntryKind, ModelRequest, ToolSpec
from tests.unit.agent.bodies import DIALECTS, BodyWriter, body_writers

NAMES = [dialect.name for dialect in DIALECTS]
READ_FILE = ToolSpec(
    name="read_file",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)


@pytest.fixture(scope="module")
def writers() -> Iterator[dict[str, BodyWriter]]:
    with body_writers() as made:
        yield made


def user(text: str) -> Entry:
    return Entry(kind=EntryKind.USER, text=text)


def said(text: str, step: int = 0, turn: str = "t1") -> Entry:
    return Entry(kind=EntryKind.ASSISTANT, text=text, step=step, turn_id=turn)


def call(call_id: str, step: int = 0, turn: str = "t1", arguments: str = '{"path":"a"}') -> Entry:
    return Entry(
        kind=EntryKind.TOOL_CALL,
        call_id=call_id,
        tool="read_file",
        arguments=arguments,
        step=step,
        turn_id=turn,
    )


def result(
    call_id: str, text: str, step: int = 0, turn: str = "t1", *, is_error: bool = False
) -> Entry:
    return Entry(
        kind=EntryKind.TOOL_RESULT,
        call_id=call_id,
        tool="read_file",
        text=text,
        step=step,
        turn_id=turn,
        is_error=is_error,
    )


def request_of(*entries: Entry, tools: tuple[ToolSpec, ...] = (READ_FILE,)) -> ModelRequest:
    return ModelRequest(system="Be brief.", entries=entries, tools=tools)


def outline(body: dict[str, Any]) -> list[tuple[str, str]]:
    """A body as rows of what and text, the same for every wire."""
    rows = []
    for item in body.get("messages") or body["input"]:
        if item.get("type") == "function_call":
            rows.append(("call", item["call_id"]))
        elif item.get("type") == "function_call_output":
            rows.append(("result", item["output"]))
        elif item["role"] == "tool":
            rows.append(("result", item["content"]))
        elif isinstance(item.get("content"), list):
            rows += [_block_row(item["role"], block) for block in item["content"]]
        elif item["role"] != "system":
            if item.get("content"):
                rows.append((item["role"], item["content"]))
            rows += [("call", each["id"]) for each in item.get("tool_calls", ())]
    return rows


def _block_row(role: str, block: dict[str, Any]) -> tuple[str, str]:
    if block["type"] == "tool_use":
        return ("call", block["id"])
    if block["type"] == "tool_result":
        return ("result", "".join(part["text"] for part in block["content"]))
    return (role, block["text"])


# What one history becomes


@pytest.mark.parametrize("name", NAMES)
def test_results_of_one_parallel_step_stand_together_before_the_text(
    writers: dict[str, BodyWriter], name: str
) -> None:
    request = request_of(
        user("read both"),
        said("reading"),
        call("a"),
        call("b"),
        result("b", "text of b"),
        user("hurry"),
        result("a", "text of a"),
    )
    body = writers[name].body(request)
    assert writers[name].violations(body) == []
    assert outline(body) == [
        ("user", "read both"),
        ("assistant", "reading"),
        ("call", "a"),
        ("call", "b"),
        ("result", "text of a"),
        ("result", "text of b"),
        ("user", "hurry"),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_neighbours_of_one_role_are_merged(writers: dict[str, BodyWriter], name: str) -> None:
    request = request_of(
        user("one"),
        Entry(kind=EntryKind.NOTE, text="the file changed"),
        said("first", turn="t1"),
        said("second", turn="t2"),
        user("two"),
        user("three"),
    )
    assert outline(writers[name].body(request)) == [
        ("user", "one\n\n<note>\nthe file changed\n</note>"),
        ("assistant", "first\n\nsecond"),
        ("user", "two\n\nthree"),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_history_that_ends_with_the_agent_ends_with_the_user_on_the_wire(
    writers: dict[str, BodyWriter], name: str
) -> None:
    body = writers[name].body(request_of(user("hi"), said("hello")))
    assert outline(body)[-1] == ("user", GO_ON)


@pytest.mark.parametrize("name", NAMES)
def test_a_call_without_a_result_gets_an_error_and_a_stray_result_is_dropped(
    writers: dict[str, BodyWriter], name: str
) -> None:
    body = writers[name].body(request_of(user("go"), call("a"), result("zz", "stray"), user("so?")))
    rows = outline(body)
    assert not any("stray" in text for _what, text in rows)
    assert [NO_RESULT in text for what, text in rows if what == "result"] == [True]


@pytest.mark.parametrize("name", NAMES)
def test_an_id_that_comes_again_is_replaced_with_its_result(
    writers: dict[str, BodyWriter], name: str
) -> None:
    request = request_of(
        user("go"),
        *(call("x", 0), call("x", 0), call("", 0)),
        *(result("x", "one", 0), result("x", "two", 0), result("", "three", 0)),
        *(call("x", 1), result("x", "four", 1)),
        *(call("y" * 200, 2), result("y" * 200, "five", 2)),
    )
    body = writers[name].body(request)
    assert writers[name].violations(body) == []
    rows = outline(body)
    assert [text for what, text in rows if what == "result"] == [
        "one",
        "two",
        "three",
        "four",
        "five",
    ]
    ids = [text for what, text in rows if what == "call"]
    assert ids[0] == "x"
    assert len(set(ids)) == 5


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "arguments", ["", "{", "[1]", "NaN", '{"a": 1e999}', '{"a":"\\ud800\\u0000"}']
)
def test_arguments_are_a_json_object_whatever_the_model_wrote(
    writers: dict[str, BodyWriter], name: str, arguments: str
) -> None:
    body = writers[name].body(request_of(user("go"), call("a", arguments=arguments)))
    assert writers[name].violations(body) == []
    assert "Infinity" not in json.dumps(body)


@pytest.mark.parametrize("name", NAMES)
def test_a_history_with_calls_names_its_tools_though_none_may_be_used(
    writers: dict[str, BodyWriter], name: str
) -> None:
    request = request_of(user("go"), call("a"), result("a", ""), tools=())
    body = writers[name].body(request)
    assert writers[name].violations(body) == []
    assert len(body["tools"]) == 1
    assert body["tool_choice"] in ("none", {"type": "none"})
    assert ("result", NO_OUTPUT) in outline(body)


def test_a_failed_result_says_so_on_every_wire(writers: dict[str, BodyWriter]) -> None:
    request = request_of(user("go"), call("a"), result("a", "no such file", is_error=True))
    chat = writers["openai-chat"].body(request)
    assert json.loads(chat["messages"][-1]["content"]) == {"error": "no such file"}
    block = writers["anthropic"].body(request)["messages"][-1]["content"][0]
    assert (block["is_error"], block["content"][0]["text"]) == (True, "no such file")


def test_thinking_goes_back_only_where_the_provider_wants_it(
    writers: dict[str, BodyWriter],
) -> None:
    thought = Entry(kind=EntryKind.THINKING, text="hm", turn_id="t1", step=0, signature="0000:sig")
    request = request_of(user("go"), thought, said("ok"), call("a"), result("a", "x"))
    for name in ("openai-chat", "openai", "anthropic"):
        assert "hm" not in json.dumps(writers[name].body(request))
    for name in ("zai", "deepseek"):
        assert writers[name].body(request)["messages"][2]["reasoning_content"] == "hm"


# Any history


def entries() -> st.SearchStrategy[list[Entry]]:
    """Histories as crashes, other providers and people may leave them."""
    texts = st.one_of(
        st.text(max_size=8),
        st.sampled_from(["", " ", "\n", "\x00", "\ud800", "ok \udfff", "中文", "a\n\nb"]),
    )
    ids = st.one_of(
        st.sampled_from(["", "a", "b", "call_1", "x" * 70, "功能", "a b"]), st.text(max_size=3)
    )
    tools = st.sampled_from(["read_file", "list_dir", "", "no such tool!", "名"])
    broken = st.sampled_from(
        ["", "{", "[]", '{"a": "\\u0000"}', '{"a": NaN}', "[" * 5000, '{"a":{}}']
    )
    return st.lists(
        st.builds(
            Entry,
            kind=st.sampled_from(list(EntryKind)),
            text=texts,
            turn_id=st.sampled_from([None, "t1", "t2"]),
            step=st.integers(-1, 2),
            call_id=ids,
            tool=tools,
            arguments=st.one_of(broken, st.text(max_size=6)),
            is_error=st.booleans(),
            signature=st.sampled_from(["", "sig", "0:sig"]),
        ),
        max_size=14,
    )


@settings(max_examples=150)
@given(history=entries(), system=st.text(max_size=4), with_tools=st.booleans())
def test_any_history_becomes_a_legal_body_for_every_provider(
    writers: dict[str, BodyWriter], history: list[Entry], system: str, *, with_tools: bool
) -> None:
    request = ModelRequest(
        system=system, entries=tuple(history), tools=(READ_FILE,) if with_tools else ()
    )
    for writer in writers.values():
        assert writer.violations(writer.body(request)) == []


@settings(max_examples=60)
@given(history=entries(), more=entries())
def test_what_was_sent_is_sent_the_same_again_when_the_history_grows(
    writers: dict[str, BodyWriter], history: list[Entry], more: list[Entry]
) -> None:
    """Providers cache by prefix: a new turn must not change the turns before it."""
    writer = writers["openai-chat"]
    history = [Entry(kind=EntryKind.USER, text="begin"), *history, user("settled")]
    later = [Entry(kind=EntryKind.ASSISTANT, text="answer", turn_id="new", step=0)]
    fresh = [entry for entry in more if entry.kind is EntryKind.USER]
    before = writer.body(request_of(*history))["messages"]
    after = writer.body(request_of(*history, *later, *fresh))["messages"]
    assert after[: len(before)] == before
