"""What working memory makes of a session, on the wire of each provider."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clawbot.agent.memory import MemoryLimits, MemoryModel, Pinned, WorkingMemory
from clawbot.agent.model_sizes import ModelSize
from clawbot.agent.prompt import documents_text, system_prompt
from clawbot.agent.saved import SavedTexts
from clawbot.agent.tokens import TokenCounter, load_encode
from clawbot.history import Entry, ToolSpec
from clawbot.recollection import FOR_ANY_WINDOW, Recollection, Summary
from tests.memory.histories import (
    call,
    chat,
    numbered,
    result,
    said,
    step,
    thought,
    thought_first,
    user,
)
from tests.unit.agent.bodies import DIALECTS, BodyWriter, body_writers

NAMES = [dialect.name for dialect in DIALECTS]
SEED = documents_text([("task 7", "The seed of task seven.")])
SUMMARY = Summary(text="They agreed on heron.", through_seq=20, for_tokens=FOR_ANY_WINDOW)
READ_FILE = ToolSpec(
    name="read_file",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)


@pytest.fixture(scope="module")
def writers() -> Iterator[dict[str, BodyWriter]]:
    with body_writers() as made:
        yield made


@pytest.fixture
def bodies(tmp_path: Path, writers: dict[str, BodyWriter]) -> Bodies:
    return Bodies(tmp_path, writers)


class Bodies:
    """The bodies of requests, checked against the rules of their wire."""

    def __init__(self, root: Path, writers: dict[str, BodyWriter]) -> None:
        self._root = root
        self._writers = writers

    def of(
        self,
        name: str,
        history: list[Entry],
        *,
        window: int = 100_000,
        summary: Summary | None = None,
    ) -> dict[str, Any]:
        dialect = self._writers[name].dialect
        memory = WorkingMemory(
            Recollection(entries=tuple(numbered(history)), summary=summary),
            turn_id="now",
            pinned=Pinned(rules=system_prompt(["Be kind."], ()), documents=SEED),
            tools=(READ_FILE,),
            model=MemoryModel(
                name="my:model",
                size=ModelSize(window_tokens=window, factor=1.0),
                sends_thinking=dialect.thinking != "drop",
            ),
            limits=MemoryLimits(history_messages=0, max_output_tokens=500, result_chars=5000),
            counter=TokenCounter(load_encode()),
            saved=SavedTexts(root=self._root),
        )
        writer = self._writers[name]
        body = writer.body(writer._runner.run(memory.request()))
        assert writer.violations(body) == []
        return body


def system_of(body: dict[str, Any]) -> str:
    """The system text, wherever the wire has it."""
    if "system" in body:
        return str(body["system"])
    first = (body.get("messages") or body["input"])[0]
    return str(body.get("instructions") or first["content"])


@pytest.mark.parametrize("name", NAMES)
def test_C6_the_core_rules_stand_beside_seed_and_summary(bodies: Bodies, name: str) -> None:
    body = bodies.of(name, [*chat(20), user("now")], summary=SUMMARY)
    system = system_of(body)
    assert "You are clawbot" in system
    assert "Be kind." in system
    text = json.dumps(body)
    assert text.count("The seed of task seven.") == 1
    assert text.count("They agreed on heron.") == 1
    assert system.index("You are clawbot") < system.index("The seed") < system.index("heron")


@pytest.mark.parametrize("name", NAMES)
def test_B13_calls_that_a_kill_left_open_are_answered_on_the_wire(
    bodies: Bodies, name: str
) -> None:
    history = [user("go", "old"), call("a", "old"), call("b", "old"), user("still there?")]
    text = json.dumps(bodies.of(name, history))
    assert text.count("was interrupted") == 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("window", [100_000, 4000, 2500, 1800])
def test_W_a_turn_is_legal_at_every_size(bodies: Bodies, name: str, window: int) -> None:
    history = [*chat(3), user("task")]
    for number in range(10):
        history += [
            thought("I wonder. " * 30, step=number),
            said("Let me see.", step=number),
            *step(number, "word " * 120, "", "x" * 300),
        ]
    body = bodies.of(name, history, window=window)
    assert "task" in json.dumps(body)


@pytest.mark.parametrize("name", ["anthropic", "deepseek", "zai"])
def test_B11_thinking_ends_no_request_and_parts_no_call_from_its_result(
    bodies: Bodies, name: str
) -> None:
    history = [user("task"), thought("hm"), call("a"), result("a", "x"), thought("and?", step=1)]
    body = bodies.of(name, history)
    last = body["messages"][-1]
    assert last["role"] in {"user", "tool"}
    assert json.dumps(body).count("hm") <= 1


@pytest.mark.parametrize("name", NAMES)
def test_B11_thoughts_before_acting_stand_once_on_the_user_side(bodies: Bodies, name: str) -> None:
    begun = [user("task"), thought_first("I SHALL LOOK")]
    for history in (begun, [*begun, call("a"), result("a", "x")]):
        body = bodies.of(name, history)
        assert json.dumps(body).count("I SHALL LOOK") == 1
        items = body.get("messages") or body["input"]
        (item,) = [one for one in items if "I SHALL LOOK" in json.dumps(one)]
        assert item["role"] == "user"


@pytest.mark.parametrize("name", NAMES)
def test_W_a_group_message_says_who_wrote_it(bodies: Bodies, name: str) -> None:
    body = bodies.of(name, [replace(user("hello"), sender="Ann")])
    assert "Ann: hello" in json.dumps(body)
