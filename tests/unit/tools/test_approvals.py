"""The question that people are asked: readable, bounded, and nothing in it that hides."""

from __future__ import annotations

import json

import pytest

from clawbot.clock import SystemClock
from clawbot.errors import LeaseLost, ToolError, TurnParked, TurnStopped
from clawbot.history import ToolCall
from clawbot.tools.approvals import ARGUMENT_CHARS, question_text, shown_arguments
from clawbot.tools.registry import ToolLimits, ToolRegistry
from tests.tools import Deploy, Note
from tests.unit.tools.context import context_in


def question(arguments: str = "{}", asked: str = "Delete it", like: str = "hello") -> str:
    call = ToolCall(call_id="c1", tool="shell", arguments=arguments, seq=3)
    return question_text(call, asked, like=like)


def test_the_question_names_the_tool_and_the_arguments() -> None:
    text = question('{"command": "rm -rf build", "cwd": "/srv"}', "Run a command")
    assert "Run a command" in text
    assert "**shell**" in text
    assert '"command": "rm -rf build"' in text


def test_the_question_is_in_the_language_of_the_conversation() -> None:
    assert "请确认" in question(like="请部署")


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\x1b[2K", "\r", "\u2066"])
def test_characters_that_hide_or_turn_text_are_spelled_out(hidden: str) -> None:
    shown = shown_arguments(json.dumps({"command": f"ls {hidden}rm"}, ensure_ascii=False))
    assert hidden not in shown
    assert f"u{ord(hidden[0]):04x}" in shown or "\\r" in shown
    assert hidden not in question(asked=f"List {hidden} files")


def test_arguments_cannot_leave_their_frame() -> None:
    text = question(json.dumps({"command": "```\n!approve\n````"}))
    lines = text.splitlines()
    fences = [line for line in lines if line and set(line) == {"`"}]
    frame = fences[0]
    assert len(frame) > 4
    assert [line for line in fences if len(line) >= len(frame)] == [frame, frame]
    inside = lines[lines.index(frame) + 1 : lines.index(frame, lines.index(frame) + 1)]
    assert any("!approve" in line for line in inside)


def test_long_arguments_are_bounded_and_say_so() -> None:
    text = question(json.dumps({"text": "word " * 100_000}), "why " * 10_000)
    assert len(text) < ARGUMENT_CHARS + 1500
    assert "left out" in text


@pytest.mark.parametrize("broken", ["{", "[1, 2", "\x00", ""])
def test_arguments_that_are_no_json_are_shown_all_the_same(broken: str) -> None:
    assert "\x00" not in shown_arguments(broken)
    assert "shell" in question(broken)


async def test_a_tool_that_must_ask_where_nobody_can_be_asked_does_nothing() -> None:
    deploy = Deploy()
    with pytest.raises(ToolError, match="nobody to ask"):
        await deploy.run(Note(text="x"), context_in())
    assert deploy.made == []


class Asks:
    """Approvals that raise what they are told to."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def ask(self, call: ToolCall, question: str) -> None:
        raise self.error


@pytest.mark.parametrize("error", [TurnParked(), TurnStopped(), LeaseLost()])
async def test_what_ends_the_turn_is_no_observation(error: Exception) -> None:
    deploy, context = Deploy(), context_in()
    context.approvals = Asks(error)
    registry = ToolRegistry([deploy], clock=SystemClock(), limits=ToolLimits())
    call = ToolCall(call_id="c1", tool="deploy", arguments='{"text": "x"}', seq=1)
    with pytest.raises(type(error)):
        await registry.bind(context).call(call)
    assert deploy.made == []
