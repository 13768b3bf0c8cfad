"""H12: whatever a model calls, it is told what happened; only cancellation ends the turn."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
import structlog
from pydantic import BaseModel, Field

from clawbot.clock import SystemClock
from clawbot.errors import ToolError
from clawbot.history import ToolCall
from clawbot.observation import Observation
from clawbot.ports import Tool
from clawbot.tools.list_dir import ListDir
from clawbot.tools.read_file import ReadFile
from clawbot.tools.registry import ToolLimits, ToolRegistry
from tests.unit.tools.context import context_in


class PokeArgs(BaseModel):
    how: str = Field(description="The way.")
    times: int = Field(default=1, le=9)
    title: str | None = None


class Poke:
    """A tool that does as the test says."""

    name: ClassVar[str] = "poke"
    description: ClassVar[str] = "Poke."
    Args: ClassVar[type[BaseModel]] = PokeArgs

    def __init__(self, act: Callable[[PokeArgs], str] | None = None) -> None:
        self._act = act or (lambda args: f"poked {args.how}")
        self.started = asyncio.Event()
        self.ended = asyncio.Event()

    async def run(self, args: PokeArgs, context: object) -> str:
        if args.how == "for ever":
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()
        return self._act(args)


def registry(*tools: Tool, limits: ToolLimits | None = None) -> ToolRegistry:
    return ToolRegistry(tools or (Poke(),), clock=SystemClock(), limits=limits or ToolLimits())


async def call(tools: ToolRegistry, arguments: str, name: str = "poke") -> Observation:
    made = ToolCall(call_id="1", tool=name, arguments=arguments)
    return await tools.bind(context_in()).call(made)


def fail(error: Exception) -> Callable[[PokeArgs], str]:
    def act(_args: PokeArgs) -> str:
        raise error

    return act


async def test_a_call_returns_what_the_tool_says() -> None:
    assert await call(registry(), '{"how": "gently"}') == Observation(
        "poked gently", is_error=False
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"how": ', "not valid JSON: Expecting value at character 8"),
        ('["how"]', "must be one JSON object"),
        ('"how"', "must be one JSON object"),
        ("{}", "how: Field required"),
        ("", "how: Field required"),
        ('{"how": 3, "times": 10}', "how: Input should be a valid string; times: "),
        ("[" * 100_000, "cannot be read"),
    ],
)
async def test_wrong_arguments_are_answered_with_how_to_call(arguments: str, words: str) -> None:
    observation = await call(registry(), arguments)
    assert observation.is_error
    assert words in observation.text
    assert "poke takes how (string, required), times (integer), title (string" in observation.text


async def test_an_unknown_tool_is_answered_with_those_there_are() -> None:
    tools = registry(ReadFile(), ListDir())
    text, is_error, _ = await call(tools, "{}", name="read_fil")
    assert is_error
    assert text == (
        "There is no tool 'read_fil'. Did you mean read_file? Tools: read_file, list_dir."
    )


async def test_what_a_tool_could_not_do_is_told_to_the_model() -> None:
    observation = await call(registry(Poke(fail(ToolError("no hands")))), '{"how": "x"}')
    assert observation == Observation("no hands", is_error=True)


@pytest.mark.parametrize("error", [RuntimeError("password 123"), TimeoutError("password 123")])
async def test_a_tools_own_fault_is_logged_and_told_by_an_id_alone(error: Exception) -> None:
    with structlog.testing.capture_logs() as logs:
        text, is_error, _ = await call(registry(Poke(fail(error))), '{"how": "x"}')
    assert is_error
    assert "123" not in text
    assert [entry["action"] for entry in logs] == ["tool_failed"]
    assert logs[0]["error_id"] in text
    assert logs[0]["exc_info"] is error


async def test_a_call_ends_at_the_end_of_its_turn() -> None:
    poke = Poke()
    made = ToolCall(call_id="1", tool="poke", arguments='{"how": "for ever"}')
    context = context_in(deadline=SystemClock().monotonic() - 1)
    text, is_error, _ = await registry(poke).call(made, context)
    assert is_error
    assert "did not finish" in text


async def test_a_call_ends_at_its_own_time_out() -> None:
    poke = Poke()
    limits = ToolLimits(timeout_s=0.01)
    text, is_error, _ = await call(registry(poke, limits=limits), '{"how": "for ever"}')
    assert is_error
    assert "did not finish" in text
    assert poke.ended.is_set()


async def test_cancellation_passes_through() -> None:
    poke = Poke()
    task = asyncio.create_task(call(registry(poke), '{"how": "for ever"}'))
    await poke.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert poke.ended.is_set()


async def test_a_large_result_keeps_its_head_and_tail_and_names_its_size() -> None:
    text = "".join(f"line {number}\n" for number in range(10_000))
    limits = ToolLimits(result_chars=1000)
    observation = await call(registry(Poke(lambda _: text), limits=limits), '{"how": "x"}')
    assert len(observation.text) < 1100
    assert observation.text.startswith("line 0\n")
    assert observation.text.endswith("line 9999\n")
    assert f"of {len(text):,} characters are left out" in observation.text
    assert not observation.is_error


async def test_a_result_holds_nothing_that_a_store_refuses() -> None:
    observation = await call(registry(Poke(lambda _: "a\x00b\ud800")), '{"how": "x"}')
    assert observation.text == "a\ufffdb\ufffd"


def test_a_tool_is_described_by_its_schema_without_noise() -> None:
    spec = registry().specs[0]
    assert (spec.name, spec.description) == ("poke", "Poke.")
    properties = spec.parameters["properties"]
    assert isinstance(properties, dict)
    assert properties["how"] == {"description": "The way.", "type": "string"}
    assert set(properties) == {"how", "times", "title"}
    assert spec.parameters["required"] == ["how"]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two of this name"):
        registry(Poke(), Poke())


async def test_one_registry_reads_each_sessions_own_directory(tmp_path: Path) -> None:
    tools = registry(ReadFile())
    made = ToolCall(call_id="1", tool="read_file", arguments='{"path": "README.md"}')
    for name in ("front", "back"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(f"token of {name}")
    front, back = await asyncio.gather(
        *(tools.bind(context_in(tmp_path / name)).call(made) for name in ("front", "back"))
    )
    assert (front.text, back.text) == ("token of front", "token of back")
    escape = ToolCall(call_id="2", tool="read_file", arguments='{"path": "../front/README.md"}')
    refused = await tools.bind(context_in(tmp_path / "back")).call(escape)
    assert refused.is_error
    assert "outside" in refused.text
