"""Each wire rule of the model simulator accepts a legal body and refuses an illegal one."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulators.model import anthropic_rules, openai_rules, violation
from tests.simulators.model.anthropic_rules import thinking_signature
from tests.simulators.model.conversation import Api
from tests.simulators.model.endpoints import ENDPOINTS
from tests.simulators.model.rules import Strictness, estimated_tokens, prompt_tokens, violations

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    api: Api
    rule: str
    legal: Json
    illegal: Json
    strictness: Strictness

    def __str__(self) -> str:
        return f"{self.api}-{self.rule}"


def case(
    api: Api, rule: str, legal: Json, illegal: Json, strictness: Strictness | None = None
) -> Case:
    strictness = strictness or Strictness()
    return Case(api=api, rule=rule, legal=legal, illegal=illegal, strictness=strictness)


# --- Anthropic ---

A_TOOLS = [{"name": "look", "input_schema": {"type": "object"}}]


def anthropic(*messages: Json, **top: Any) -> Json:
    return {"model": "m", "max_tokens": 10, "messages": list(messages), "tools": A_TOOLS, **top}


def user(*content: Any) -> Json:
    return {"role": "user", "content": [text(c) if isinstance(c, str) else c for c in content]}


def assistant(*content: Any) -> Json:
    return {**user(*content), "role": "assistant"}


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def use(call_id: str, **fields: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {}, **fields}


def result(call_id: str, **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "seen", **fields}


def thinking(thought: str, *before: Json) -> Json:
    signature = thinking_signature(list(before), thought)
    return {"type": "thinking", "thinking": thought, "signature": signature}


ASK = user("look at both")
TURN = (ASK, assistant(use("a"), use("b")), user(result("a"), result("b")))
HELLO = anthropic(user("hello"))
THINKING_ON = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def without(body: Json, key: str) -> Json:
    return {name: value for name, value in body.items() if name != key}


a_case = partial(case, "anthropic")

ANTHROPIC = [
    a_case("no_model", HELLO, without(HELLO, "model")),
    a_case("no_max_tokens", HELLO, without(HELLO, "max_tokens")),
    a_case("bad_max_tokens", HELLO, {**HELLO, "max_tokens": 0}),
    a_case("no_messages", HELLO, anthropic()),
    a_case("shape", HELLO, {**HELLO, "messages": ["hello"]}),
    a_case("shape", HELLO, {**HELLO, "system": 7}),
    a_case("shape", HELLO, anthropic({"role": "user", "content": None})),
    a_case("empty_text", {**HELLO, "system": [text("s")]}, {**HELLO, "system": [text("")]}),
    a_case("empty_text", HELLO, anthropic(user("hello", " \n"))),
    a_case("empty_text", HELLO, anthropic(*TURN[:2], user(result("a", content=[text("")])))),
    a_case("empty_message", HELLO, anthropic({"role": "user", "content": []})),
    a_case(
        "system_inside",
        {**HELLO, "system": "be kind"},
        anthropic({"role": "system", "content": "be kind"}, user("hello")),
    ),
    a_case("bad_role", HELLO, anthropic({"role": "tool", "content": "x"})),
    a_case("neighbours", anthropic(user("a", "b")), anthropic(user("a"), user("b"))),
    a_case("first_not_user", HELLO, anthropic(assistant("hi"), user("hello"))),
    a_case(
        "prefill",
        anthropic(user("hello"), assistant("hi"), user("more")),
        anthropic(user("hello"), assistant("hi")),
    ),
    a_case("misplaced_block", anthropic(*TURN), anthropic(user(use("a")))),
    a_case("misplaced_block", anthropic(*TURN), anthropic(user("x"), assistant(result("a")))),
    a_case("misplaced_block", HELLO, anthropic(user("x", thinking("hm")))),
    a_case(
        "bad_id",
        anthropic(user("x"), assistant(use("toolu_1-b")), user(result("toolu_1-b"))),
        anthropic(user("x"), assistant(use("")), user(result(""))),
    ),
    a_case("bad_name", anthropic(*TURN), anthropic(ASK, assistant(use("a", name="a b")), TURN[2])),
    a_case("arguments", anthropic(*TURN), anthropic(ASK, assistant(use("a", input="{}")), TURN[2])),
    a_case(
        "empty_error",
        anthropic(*TURN[:2], user(result("a", is_error=True), result("b"))),
        anthropic(*TURN[:2], user(result("a", is_error=True, content=""), result("b"))),
    ),
    a_case(
        "duplicate_id",
        anthropic(*TURN, assistant(use("c")), user(result("c"))),
        anthropic(*TURN, assistant(use("a")), user(result("a"))),
    ),
    a_case("unanswered_call", anthropic(*TURN), anthropic(*TURN[:2], user(result("a")))),
    a_case(
        "unanswered_call",  # results of one turn split over two messages
        anthropic(*TURN),
        anthropic(*TURN[:2], user(result("a")), user(result("b"))),
        Strictness(merged_neighbours=False),
    ),
    a_case(
        "unanswered_call",  # a message in between
        anthropic(*TURN),
        anthropic(*TURN[:2], user("wait"), assistant("yes"), TURN[2]),
    ),
    a_case(
        "unknown_result",
        anthropic(*TURN),
        anthropic(*TURN[:2], user(result("a"), result("b"), result("z"))),
    ),
    a_case(
        "duplicate_result",
        anthropic(*TURN),
        anthropic(*TURN[:2], user(result("a"), result("b"), result("b"))),
    ),
    a_case(
        "results_not_first",
        anthropic(*TURN[:2], user(result("a"), result("b"), "and?")),
        anthropic(*TURN[:2], user(result("a"), "and?", result("b"))),
    ),
    a_case("duplicate_tool", HELLO, {**HELLO, "tools": A_TOOLS * 2}),
    a_case(
        "choice_without_tools",
        {**HELLO, "tool_choice": {"type": "none"}},
        {**without(HELLO, "tools"), "tool_choice": {"type": "none"}},
    ),
    a_case("tools_missing", anthropic(*TURN), without(anthropic(*TURN), "tools")),
    a_case(
        "thinking_missing",
        anthropic(ASK, assistant(thinking("hm", ASK), use("a")), user(result("a")), **THINKING_ON),
        anthropic(ASK, assistant(use("a")), user(result("a")), **THINKING_ON),
    ),
    a_case(
        "signature",
        anthropic(ASK, assistant(thinking("hm", ASK), "yes"), user("more")),
        anthropic(user("a summary"), assistant(thinking("hm", ASK), "yes"), user("more")),
    ),
]

# --- OpenAI Chat Completions ---

C_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {}}}]


def chat(*messages: Json, **top: Any) -> Json:
    return {"model": "m", "messages": list(messages), "tools": C_TOOLS, **top}


def says(role: str, content: Any, **fields: Any) -> Json:
    return {"role": role, "content": content, **fields}


def call(call_id: Any, name: str = "look", arguments: Any = "{}") -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*made: Json, content: Any = None, **fields: Any) -> Json:
    return says("assistant", content, tool_calls=list(made), **fields)


def answers(call_id: str, content: Any = "seen") -> Json:
    return says("tool", content, tool_call_id=call_id)


C_ASK = says("user", "look at both")
C_TURN = (C_ASK, calls(call("a"), call("b")), answers("a"), answers("b"))
C_HELLO = chat(says("system", "be kind"), says("user", "hello"))
ZHIPU = Strictness(content_required=True)
DEEPSEEK = Strictness(reasoning_content=True)


c_case = partial(case, "openai-chat")

CHAT = [
    c_case("no_model", C_HELLO, {**C_HELLO, "model": ""}),
    c_case("no_messages", C_HELLO, chat()),
    c_case("shape", C_HELLO, {**C_HELLO, "messages": [1]}),
    c_case("nul", C_HELLO, chat(says("user", "a\x00b"))),
    c_case("surrogate", chat(says("user", "😀")), chat(says("user", "\ud83d"))),
    c_case("bad_role", C_HELLO, chat(says("bot", "x"), C_ASK)),
    c_case("null_content", chat(*C_TURN), chat(says("user", None))),
    c_case(
        "null_content",
        chat(C_ASK, calls(call("a"), content=""), answers("a")),
        chat(C_ASK, calls(call("a")), answers("a")),
        ZHIPU,
    ),
    c_case(
        "null_content", chat(*C_TURN[:3], answers("b", "")), chat(*C_TURN[:3], answers("b", None))
    ),
    c_case("empty_message", C_HELLO, chat(says("user", ""))),
    c_case("empty_message", C_HELLO, chat(C_ASK, says("assistant", ""), C_ASK)),
    c_case("bad_calls", chat(*C_TURN), chat(C_ASK, says("assistant", "x", tool_calls=[]), C_ASK)),
    c_case("bad_id", chat(*C_TURN), chat(C_ASK, calls(call("")), answers(""))),
    c_case(
        "bad_id",
        chat(C_ASK, calls(call("x" * 40)), answers("x" * 40)),
        chat(C_ASK, calls(call("x" * 41)), answers("x" * 41)),
    ),
    c_case("bad_name", chat(*C_TURN), chat(C_ASK, calls(call("a", name="a b")), answers("a"))),
    c_case("bad_name", C_HELLO, chat(C_ASK, tools=[{"type": "function", "function": {}}])),
    c_case("arguments", chat(*C_TURN), chat(C_ASK, calls(call("a", arguments={})), answers("a"))),
    c_case("arguments", chat(*C_TURN), chat(C_ASK, calls(call("a", arguments="{")), answers("a"))),
    c_case(
        "reasoning_content",
        chat(C_ASK, calls(call("a"), reasoning_content=""), answers("a")),
        chat(C_ASK, calls(call("a")), answers("a")),
        DEEPSEEK,
    ),
    c_case("unanswered_call", chat(*C_TURN), chat(*C_TURN[:3])),
    c_case("unanswered_call", chat(*C_TURN), chat(*C_TURN[:3], C_ASK, C_TURN[3])),
    c_case("unknown_result", chat(*C_TURN), chat(C_ASK, answers("a"))),
    c_case("unknown_result", chat(*C_TURN), chat(*C_TURN, says("assistant", "x"), answers("a"))),
    c_case("duplicate_result", chat(*C_TURN), chat(*C_TURN, answers("a"))),
    c_case("duplicate_id", chat(*C_TURN), chat(C_ASK, calls(call("a"), call("a")), answers("a"))),
    c_case(
        "duplicate_id",
        chat(*C_TURN, calls(call("c")), answers("c")),
        chat(*C_TURN, calls(call("a")), answers("a")),
    ),
    c_case("no_user", C_HELLO, chat(says("system", "be kind"))),
    c_case("prefill", C_HELLO, chat(C_ASK, says("assistant", "I will"))),
    c_case("duplicate_tool", C_HELLO, {**C_HELLO, "tools": C_TOOLS * 2}),
    c_case(
        "choice_without_tools",
        {**C_HELLO, "tool_choice": "none"},
        {**without(C_HELLO, "tools"), "tool_choice": "none"},
    ),
    c_case("tools_missing", chat(*C_TURN), without(chat(*C_TURN), "tools")),
]

# --- OpenAI Responses ---

R_TOOLS = [{"type": "function", "name": "look", "parameters": {}}]


def responses(*items: Json, **top: Any) -> Json:
    return {"model": "m", "input": list(items), "tools": R_TOOLS, **top}


def made(call_id: str, **fields: Any) -> Json:
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": "look",
        "arguments": "{}",
        **fields,
    }


def output(call_id: str, value: Any = "seen") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


R_TURN = (C_ASK, made("a"), made("b"), output("a"), output("b"))
R_HELLO = responses(says("user", "hello"))
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


r_case = partial(case, "openai-responses")

RESPONSES = [
    r_case("no_model", R_HELLO, without(R_HELLO, "model")),
    r_case("no_messages", {**R_HELLO, "input": "hello"}, responses()),
    r_case("shape", R_HELLO, {**R_HELLO, "input": [1]}),
    r_case("bad_role", R_HELLO, responses(C_ASK, says("tool", "x"))),
    r_case("null_content", R_HELLO, responses(says("user", None))),
    r_case("null_content", responses(*R_TURN), responses(*R_TURN[:4], output("b", None))),
    r_case("empty_message", R_HELLO, responses(says("user", ""))),
    r_case("bad_id", responses(*R_TURN), responses(C_ASK, made("x" * 65), output("x" * 65))),
    r_case("bad_name", responses(*R_TURN), responses(C_ASK, made("a", name=""), output("a"))),
    r_case(
        "arguments", responses(*R_TURN), responses(C_ASK, made("a", arguments="["), output("a"))
    ),
    r_case("duplicate_id", responses(*R_TURN), responses(C_ASK, made("a"), made("a"), output("a"))),
    r_case("duplicate_id", responses(*R_TURN), responses(*R_TURN, made("a"), output("a"))),
    r_case("duplicate_result", responses(*R_TURN), responses(*R_TURN, output("a"))),
    r_case("unknown_result", responses(*R_TURN), responses(C_ASK, output("a"))),
    r_case("unanswered_call", responses(*R_TURN), responses(*R_TURN[:4])),
    r_case("unanswered_call", responses(*R_TURN), responses(*R_TURN[:4], C_ASK, R_TURN[4])),
    r_case(
        "reasoning_alone",
        responses(C_ASK, REASONING, made("a"), output("a")),
        responses(C_ASK, REASONING, C_ASK),
    ),
    r_case("no_user", R_HELLO, responses(says("system", "be kind"))),
    r_case("prefill", R_HELLO, responses(C_ASK, says("assistant", "I will"))),
    r_case("duplicate_tool", R_HELLO, {**R_HELLO, "tools": R_TOOLS * 2}),
    r_case("tools_missing", responses(*R_TURN), without(responses(*R_TURN), "tools")),
]

CASES = [*ANTHROPIC, *CHAT, *RESPONSES]


@pytest.mark.parametrize("tried", CASES, ids=str)
def test_a_rule_accepts_the_legal_body_and_names_itself_for_the_illegal_one(tried: Case) -> None:
    assert violations(tried.api, tried.legal, tried.strictness) == []
    found = violations(tried.api, tried.illegal, tried.strictness)
    assert tried.rule in {each.rule for each in found}
    assert all(each.message and each.path for each in found)


def test_every_rule_has_a_case() -> None:
    named = {each.rule for each in CASES}
    for module in (anthropic_rules, openai_rules, violation):
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        written = re.findall(r'(?:_broken\(\s*|rule=)"(\w+)"', source)
        assert written
        assert set(written) <= named


def test_rules_that_are_our_own_can_be_switched_off() -> None:
    loose = Strictness(
        merged_neighbours=False,
        allow_prefill=True,
        unique_ids=False,
        json_arguments=False,
        tools_with_history=False,
        bound_thinking=False,
    )
    bodies: list[tuple[Api, Json]] = [
        ("anthropic", anthropic(user("a"), user("b"), assistant("I will"))),
        ("anthropic", without(anthropic(*TURN), "tools")),
        ("anthropic", anthropic(user("s"), assistant(thinking("hm", ASK), "yes"), user("more"))),
        ("openai-chat", chat(*C_TURN, calls(call("a", arguments="{")), answers("a"))),
        ("openai-responses", responses(*R_TURN, made("a"), output("a"))),
    ]
    for api, body in bodies:
        assert violations(api, body, Strictness())
        assert violations(api, body, loose) == []


JSON_VALUES = st.recursive(
    st.sampled_from([None, True, 7, "", "user", "assistant", "tool", "tool_use", "tool_result"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "id", "tool_calls", "function", "name"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
BODIES = st.dictionaries(
    st.sampled_from(["model", "messages", "input", "tools", "system", "max_tokens"]),
    JSON_VALUES,
)


@settings(max_examples=300)
@given(body=BODIES)
def test_no_body_however_malformed_crashes_a_rule_or_a_reader(body: Json) -> None:
    for endpoint in ENDPOINTS.values():
        violations(endpoint.api, body, Strictness(content_required=True, reasoning_content=True))
        assert isinstance(endpoint.wire.read(body).all_text, str)


def test_tokens_are_counted_dearer_for_chinese_and_over_everything_the_model_reads() -> None:
    assert estimated_tokens("文" * 40) > 3 * estimated_tokens("a" * 40)
    assert prompt_tokens({**HELLO, "system": "s" * 400}) - prompt_tokens(HELLO) >= 100
    assert prompt_tokens({**HELLO, "metadata": "m" * 400}) == prompt_tokens(HELLO)
