"""B11: how much a provider is told to think, and when it must not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clawbot.agent.thinking import BUDGETS, level_within
from clawbot.history import ModelRequest, ToolSpec
from tests.memory.histories import call, numbered, result, said, thought, user
from tests.unit.agent.bodies import BodyWriter, body_writers

LOOK = ToolSpec(name="read_file", description="Read.", parameters={"type": "object"})
ROOM = BUDGETS["high"] + 8192


@pytest.fixture(scope="module")
def writers() -> Iterator[dict[str, BodyWriter]]:
    with body_writers() as made:
        yield made


def asking(level: str | None, **changes: Any) -> ModelRequest:
    values: dict[str, Any] = {
        "system": "Be brief.",
        "entries": tuple(numbered([user("task")])),
        "tools": (LOOK,),
        "max_output_tokens": ROOM,
        "thinking": level,
    }
    return ModelRequest(**values | changes)


@pytest.mark.parametrize("level", ["low", "medium", "high"])
def test_a_level_is_passed_on_in_each_provider_s_words(
    writers: dict[str, BodyWriter], level: str
) -> None:
    bodies = {name: writer.body(asking(level, temperature=0.3)) for name, writer in writers.items()}
    assert bodies["openai-chat"]["reasoning_effort"] == level
    assert bodies["openai"]["reasoning"]["effort"] == level
    assert bodies["anthropic"]["thinking"]["type"] == "adaptive"
    budget = {"type": "enabled", "budget_tokens": BUDGETS[level]}
    assert bodies["anthropic, by budget"]["thinking"] == budget
    assert bodies["zai"]["thinking"] == {"type": "enabled", "clear_thinking": False}
    for name, body in bodies.items():
        assert "temperature" not in body, name
        assert writers[name].violations(body) == []


def test_left_out_nothing_is_said_of_thinking(writers: dict[str, BodyWriter]) -> None:
    for name, writer in writers.items():
        body = writer.body(asking(None))
        assert not {"reasoning_effort", "reasoning"} & body.keys(), name
        assert name == "zai" or "thinking" not in body, name


def test_a_level_leaves_room_for_the_answer() -> None:
    assert level_within("high", ROOM) == "high"
    assert level_within("high", 12_000) == "medium"
    assert level_within("medium", 4096) == "low"
    assert level_within("high", 1024) == "off"
    assert level_within(None, 1024) is None
    assert level_within("off", ROOM) == "off"


def test_a_provider_whose_thinking_cannot_go_back_does_not_think_on(
    writers: dict[str, BodyWriter],
) -> None:
    """Signed thinking is void once what came before it changed: the step goes on without."""
    writer = writers["anthropic, by budget"]
    cut = [user("task"), thought("hm", signature="0:old"), call("a"), result("a", "x")]
    body = writer.body(asking("low", entries=tuple(numbered(cut))))
    assert "thinking" not in body
    assert writer.violations(body) == []
    answered = [*cut, said("yes", step=1), user("and now?")]
    assert writer.body(asking("low", entries=tuple(numbered(answered))))["thinking"]


@pytest.mark.parametrize("has_calls", [False, True])
def test_W_the_thinking_phase_offers_tools_that_may_not_be_used(
    writers: dict[str, BodyWriter], has_calls: bool
) -> None:
    history = [user("task"), *([call("a"), result("a", "x")] if has_calls else [])]
    for name, writer in writers.items():
        body = writer.body(asking(None, entries=tuple(numbered(history)), may_use_tools=False))
        choice = body["tool_choice"]
        assert choice in ("none", {"type": "none"}), name
        assert body["tools"], name
        assert writer.violations(body) == []
