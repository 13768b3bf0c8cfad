"""H10: `clawbot eval` as an admin runs it, with a scripted model and the real sandbox."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.process.commands import Command, start
from tests.process.waiting import eventually
from tests.sessions.ground import write_config
from tests.simulators.model import ModelSimulator, Refusal, Reply, ToolCall

CALC = {
    "case.yaml": "task: mend calc\n",
    "setup.sh": 'cp "$CASE/calc.py" .\n',
    "calc.py": "def add(a, b):\n    return a - b\n",
    "check.sh": (
        'set -e\npython3 -c "import calc; assert calc.add(2, 3) == 5"\ngrep -q Mended "$ANSWER"\n'
    ),
}
MEND = Reply(
    tool_calls=(ToolCall(name="bash", arguments={"command": "sed -i 's/a - b/a + b/' calc.py"}),)
)
PRICES = "budgets: {prices: {'openai-chat:scripted': {input: 1000, output: 1000}}}"
ASKING = "tools: {rules: [{do: ask, tool: bash, reason: it is a test}]}"


@dataclass(frozen=True, slots=True)
class Ground:
    """A config, cases, and a directory for what is temporary."""

    folder: Path
    model: ModelSimulator
    tmp: Path

    async def write(self, extra: str = "", **cases: Mapping[str, str]) -> None:
        def make() -> None:
            write_config(self.folder, self.model, extra)
            for name, files in cases.items():
                for path, text in files.items():
                    (self.folder / "cases" / name).mkdir(parents=True, exist_ok=True)
                    (self.folder / "cases" / name / path).write_text(text)

        await asyncio.to_thread(make)

    async def start(self, *arguments: str) -> Command:
        environ = {"TMPDIR": str(self.tmp), "COLUMNS": "160"}
        config = self.folder / "clawbot-a.yaml"
        return await start(config, "eval", str(self.folder / "cases"), *arguments, environ=environ)

    async def run(self, *arguments: str) -> tuple[int, str]:
        """To its end: the exit code, and what it printed."""
        command = await self.start(*arguments)
        try:
            async with asyncio.timeout(100):
                await command.process.wait()
        finally:
            if command.process.returncode is None:
                await command.kill()
        return await command.ended(), await asyncio.to_thread(command.text)

    async def results(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """As JSON, the cases by name."""
        code, text = await self.run("--json", *arguments)
        line = next((line for line in text.splitlines() if line.startswith("{")), None)
        assert line is not None, text
        told = json.loads(line)
        return code, {**told, **{one["case"]: one for one in told["cases"]}}

    def left(self) -> list[str]:
        """What is left of it."""
        return [path.name for path in self.tmp.iterdir()]


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator(lambda _: Reply(text="ok")) as simulator:
        yield simulator
        assert simulator.violations == []


@pytest.fixture
def ground(tmp_path: Path, model: ModelSimulator) -> Iterator[Ground]:
    # A socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="eval-test-") as tmp:
        yield Ground(tmp_path, model, Path(tmp))


def case(task: str, check: str = "true", setup: str = "", more: str = "") -> dict[str, str]:
    scripts = {"setup.sh": setup} if setup else {}
    return {"case.yaml": f"task: {task}\n{more}\n", "check.sh": check, **scripts}


async def test_H10_each_case_ends_as_its_scripts_and_the_agent_say_with_time_and_cost(
    ground: Ground, model: ModelSimulator
) -> None:
    await ground.write(
        PRICES,
        mended=CALC,
        wrong=case("say no", "echo calc is as it was >&2; exit 3"),
        unprepared=case("never asked", setup="echo no disk; exit 1"),
        late=case("think long", more="timeout_s: 1"),
        refused=case("be refused"),
        stuck=case("be quick", "sleep 60", more="script_timeout_s: 1"),
    )
    model.expect(MEND, when="mend calc")
    model.expect(Reply(text="Mended."), when="mend calc")
    model.hold(when="think long")
    model.expect(Refusal(status=401), when="be refused")
    code, told = await ground.results("--at-once", "6")
    verdicts = {one["case"]: one["verdict"] for one in told["cases"]}
    assert verdicts == {
        "late": "timeout",
        "mended": "passed",
        "refused": "error",
        "stuck": "failed",
        "unprepared": "setup_failed",
        "wrong": "failed",
    }
    assert (code, told["passed"], told["failed"]) == (1, 1, 5)
    assert told["wrong"]["note"] == "check.sh exited with 3: calc is as it was"
    assert told["unprepared"]["note"] == "setup.sh exited with 1: no disk"
    assert told["unprepared"]["spent"]["calls"] == 0
    assert told["late"]["note"] == "not done within 1 s"
    assert "cannot reach my language model" in told["refused"]["note"]
    assert told["stuck"]["note"] == "check.sh was ended after 1 s"
    mended = told["mended"]
    assert (mended["spent"]["calls"], mended["answer"]) == (2, "Mended.")
    tokens = mended["spent"]["input_tokens"] + mended["spent"]["output_tokens"]
    assert mended["usd"] == pytest.approx(tokens / 1000)
    assert 0 < mended["seconds"] < 100
    assert await asyncio.to_thread(ground.left) == []
    assert not (ground.folder / "a").exists(), "the daemon's own state is not touched"


async def test_H10_all_passed_is_exit_code_0_and_a_table(
    ground: Ground, model: ModelSimulator
) -> None:
    await ground.write(PRICES, first=case("one"), second=case("two"))
    code, text = await ground.run()
    assert code == 0, text
    assert "2 of 2 passed, $" in text
    assert text.count("passed") == 5  # as they end, in the table, and in the sum


@pytest.mark.parametrize("approve", [True, False])
async def test_H10_what_asks_people_is_refused_unless_it_is_to_be_approved(
    ground: Ground, model: ModelSimulator, approve: bool
) -> None:
    await ground.write(ASKING, mended=CALC)
    model.expect(MEND, when="mend calc")
    marker = None if approve else "nobody is here to approve it"
    model.expect(Reply(text="Mended."), when="mend calc", marker=marker)
    code, told = await ground.results(*(["--approve"] if approve else []))
    assert (code, told["mended"]["verdict"]) == ((0, "passed") if approve else (1, "failed"))
    assert told["mended"]["asked"] == 1


async def test_H10_cases_see_neither_each_other_nor_their_checks(
    ground: Ground, model: ModelSimulator
) -> None:
    look = "ls .. ../../state $CASE /tmp; cat ../*/secret; find / -name check.sh -o -name secret"
    both = case("look around", setup="echo hidden > secret; mkdir own; chmod 500 own")
    await ground.write("", front=both, back=case("stay quiet", "test ! -e secret"))
    call = Reply(tool_calls=(ToolCall(name="bash", arguments={"command": look}),))
    model.expect(call, when="look around")
    model.expect(Reply(text="Seen."), when="look around")
    code, told = await ground.results()
    assert (code, told["passed"]) == (0, 2)
    seen = next(
        result.text
        for request in model.requests
        for message in request.messages
        for result in message.tool_results
    )
    assert "check.sh" not in seen
    assert "back" not in seen
    assert await asyncio.to_thread(ground.left) == [], "also what nobody may write in is removed"


async def test_H10_no_more_cases_than_wanted_run_at_once(
    ground: Ground, model: ModelSimulator
) -> None:
    await ground.write("", **{f"c{number}": case(f"task {number}") for number in range(4)})
    gates = [model.hold(when="task") for _ in range(4)]
    command = await ground.start("--at-once", "2", "--json")
    try:
        await model.wait_calls(2, timeout_s=90)
        for number, gate in enumerate(gates):
            asked = [request for request in model.requests if request.outcome is None]
            assert len(model.requests) <= number + 2, asked
            await gate.reached
            gate.release()
        await command.ended()
    finally:
        if command.process.returncode is None:
            await command.kill()


async def test_H10_bad_cases_are_told_all_at_once_and_nothing_is_run(
    ground: Ground, model: ModelSimulator
) -> None:
    await ground.write(
        "",
        good=case("fine"),
        empty={"case.yaml": ""},
        typo=case("x", more="time_out: 3"),
        foreign=case("x", more="model: nobody:knows"),
    )
    code, text = await ground.run("--case", "good", "--case", "none")
    assert (code, "case none: there is none; cases here: empty, foreign, good, typo" in text) == (
        78,
        True,
    )
    code, text = await ground.run()
    assert code == 78
    assert "typo/case.yaml: time_out (line 2): unknown key" in text
    assert "empty/case.yaml: the file is empty" in text
    assert "empty/check.sh: missing" in text
    assert "foreign/case.yaml: model nobody:knows: unknown provider" in text
    assert model.requests == []


async def test_H10_it_can_be_ended_and_leaves_nothing_unless_that_is_wanted(
    ground: Ground, model: ModelSimulator
) -> None:
    await ground.write("", slow=case("think long"))
    gate = model.hold(when="think long")
    command = await ground.start()
    await model.wait_calls(1, timeout_s=90)
    await gate.reached
    assert ground.left() != []
    assert await command.stop() == 130
    assert await asyncio.to_thread(ground.left) == []
    code, text = await ground.run("--keep")
    assert code == 0, text
    (kept,) = await asyncio.to_thread(ground.left)
    assert str(ground.tmp / kept) in text
    work = ground.tmp / kept / "work" / "slow"
    await eventually(work.is_dir)
