"""The tool plan: plans are made, ticked box by box, and never lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.errors import ToolError
from clawbot.history import ToolCall
from clawbot.planning import Planning
from clawbot.tools.plan import PlanArgs, PlanTool
from tests.unit.tools.context import context_in, names


async def plan(folder: Path, action: str, *, where: str | None = "", **values: object) -> str:
    context = context_in(folder)
    context.plan_folder = where
    return await PlanTool().run(PlanArgs.model_validate({"action": action, **values}), context)


async def make(folder: Path, goal: str = "Ship it", **values: object) -> str:
    steps = ["build", "test", "publish"]
    return await plan(folder, "make", goal=goal, plan="As usual.", steps=steps, **values)


async def test_a_plan_is_made_in_two_files(tmp_path: Path) -> None:
    told = await make(tmp_path)
    assert (tmp_path / "PLAN.md").read_text() == "# Ship it\n\nAs usual.\n"
    todo = "# Ship it\n\n- [ ] build\n- [ ] test\n- [ ] publish\n"
    assert (tmp_path / "TODO.md").read_text() == todo
    assert "The first open one is number 1: build" in told


async def test_boxes_are_ticked_in_their_order_and_each_once(tmp_path: Path) -> None:
    await make(tmp_path)
    with pytest.raises(ToolError, match="Box 1 comes first: build"):
        await plan(tmp_path, "tick", box=2)
    assert "number 2: test" in await plan(tmp_path, "tick", box=1)
    before = (tmp_path / "TODO.md").read_text()
    assert "Box 1 was ticked" in await plan(tmp_path, "tick", box=1)
    assert (tmp_path / "TODO.md").read_text() == before
    with pytest.raises(ToolError, match="there are 1 to 3"):
        await plan(tmp_path, "tick", box=4)
    await plan(tmp_path, "tick", box=2)
    await plan(tmp_path, "add", steps=["tell people"])
    assert "number 4: tell people" in await plan(tmp_path, "tick", box=3)
    assert "is finished" in await plan(tmp_path, "tick", box=4)


async def test_an_unfinished_plan_is_not_overwritten_and_a_finished_one_is_kept(
    tmp_path: Path,
) -> None:
    await make(tmp_path)
    await plan(tmp_path, "tick", box=1)
    with pytest.raises(ToolError, match=r"unfinished plan, and it stays: Ship it\n1 of 3"):
        await make(tmp_path, "Another")
    assert "- [x] build" in (tmp_path / "TODO.md").read_text()
    assert "was dropped (1 of 3" in await plan(tmp_path, "drop")
    with pytest.raises(ToolError, match="was dropped"):
        await plan(tmp_path, "add", steps=["more"])
    await make(tmp_path, "Another")
    assert "# Another" in (tmp_path / "TODO.md").read_text()
    old = (tmp_path / "TODO.old.md").read_text()
    assert old == "# Ship it\n\n- [x] build\n- [-] test\n- [-] publish\n"
    assert "# Ship it" in (tmp_path / "PLAN.old.md").read_text()


async def test_a_plan_may_be_in_a_folder_of_its_own_and_is_made_in_plan_mode_alone(
    tmp_path: Path,
) -> None:
    await make(tmp_path, where="plans/a/")
    assert names(tmp_path) == ["plans"]
    assert names(tmp_path / "plans/a") == ["PLAN.md", "TODO.md"]
    with pytest.raises(ToolError, match="Plan mode is off"):
        await make(tmp_path, where=None)
    with pytest.raises(ToolError, match="There is no plan here"):
        await plan(tmp_path, "tick", box=1)


@pytest.mark.parametrize(
    ("values", "problem"), [({"goal": " "}, "goal: say"), ({"goal": "g", "steps": [" "]}, "steps:")]
)
async def test_a_plan_without_words_is_refused(
    tmp_path: Path, values: dict[str, object], problem: str
) -> None:
    with pytest.raises(ToolError, match=problem):
        await plan(tmp_path, "make", **{"steps": ["one"], **values})
    assert names(tmp_path) == []


async def test_nothing_is_changed_without_a_plan_and_the_plan_by_its_tool_alone(
    tmp_path: Path,
) -> None:
    planning = Planning(roots=[tmp_path], folder="")

    async def refusal(tool: str, arguments: str = "{}") -> str | None:
        return await planning.refusal(ToolCall(call_id="c", tool=tool, arguments=arguments))

    assert "Make one first" in (await refusal("write_file", '{"path": "a"}') or "")
    assert await refusal("plan") is None
    await make(tmp_path)
    assert await refusal("write_file", '{"path": "a"}') is None
    assert await refusal("bash", "no JSON") is None
    for path in ("TODO.md", "./PLAN.md", "x/../TODO.md"):
        told = await refusal("write_file", f'{{"path": "{path}"}}')
        assert "changed with the tool plan alone" in (told or "")
    for box in (1, 2, 3):
        await plan(tmp_path, "tick", box=box)
    assert "Make one first" in (await refusal("edit_file", '{"path": "a"}') or "")


async def test_files_that_cannot_be_read_are_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "TODO.md").mkdir()
    planning = Planning(roots=[tmp_path], folder="")
    assert "cannot be read: TODO.md: a directory" in await planning.notes()
    call = ToolCall(call_id="c", tool="bash", arguments="{}")
    assert "cannot be read" in (await planning.refusal(call) or "")
