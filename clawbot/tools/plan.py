"""plan: the plan of a conversation in plan mode, in two Markdown files of its work directory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, Field, StringConstraints

from clawbot import todo
from clawbot.errors import ToolError
from clawbot.observation import PLAN
from clawbot.ports import ToolContext
from clawbot.text import clean
from clawbot.todo import PLAN_FILE, TODO_FILE, Plan
from clawbot.tools.files import open_file
from clawbot.tools.threads import in_thread
from clawbot.tools.writing import place_of

MOST_BYTES = 262_144
MOST_STEPS = 50
Step = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


@runtime_checkable
class PlanMode(Protocol):
    """A context that may be in plan mode. plan_folder: where the plan is in the first work
    directory, "" or with a slash at its end; None = it is not.
    """

    plan_folder: str | None


class PlanArgs(BaseModel):
    """What `plan` takes."""

    action: Literal["make", "tick", "add", "drop"] = Field(
        description=(
            "make a new plan; tick the box that you have done; add steps at the end; drop a plan "
            "that people do not want any more."
        )
    )
    goal: str = Field(default="", max_length=500, description="For make: what is to be reached.")
    plan: str = Field(default="", max_length=50_000, description="For make: how, as Markdown.")
    steps: list[Step] = Field(
        default=[], max_length=MOST_STEPS, description="For make and add: one box each, in order."
    )
    box: int = Field(default=0, ge=0, description="For tick: the number of the box.")


class PlanTool:
    """The tool; it is offered only in plan mode."""

    name: ClassVar[str] = PLAN
    description: ClassVar[str] = (
        "Make the plan of this work (PLAN.md and TODO.md in the work directory), and tick its "
        "boxes one by one as you do them."
    )
    Args: ClassVar[type[BaseModel]] = PlanArgs
    writes: ClassVar[bool] = True

    async def run(self, args: PlanArgs, context: ToolContext) -> str:
        """Do it in a thread."""
        folder = context.plan_folder if isinstance(context, PlanMode) else None
        if folder is None:
            raise ToolError("Plan mode is off here; people turn it on with /plan on.")
        roots = context.work_dirs[:1]
        return await in_thread(lambda abandoned: _run(args, roots, folder, abandoned))


def plan_in(roots: Sequence[Path], folder: str) -> Plan | None:
    """The plan in a folder, if there is one. Raise ToolError when it cannot be read. Blocks."""
    plan_text = _read(roots, folder + PLAN_FILE)
    return todo.read_plan(plan_text or "", _read(roots, folder + TODO_FILE))


def _read(roots: Sequence[Path], path: str) -> str | None:
    try:
        with open_file(roots, path) as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except ToolError as error:
        if error.kind == "missing":
            return None
        raise


def _run(args: PlanArgs, roots: Sequence[Path], folder: str, abandoned: threading.Event) -> str:
    plan = plan_in(roots, folder)
    if args.action == "make":
        return _make(args, plan, roots, folder, abandoned)
    if plan is None:
        raise ToolError("There is no plan here; make one.")
    path = folder + TODO_FILE
    with place_of(roots, path, abandoned, makes_dirs=True) as place:
        text = place.read(MOST_BYTES).decode("utf-8", "replace")
        plan = todo.read_plan(plan.goal, text)
        if plan is None:
            raise ToolError(f"{path}: was changed meanwhile; read it")
        new, done = _changed(args, plan, text)
        if new != text:
            place.write(new.encode())
    return f"{done} {todo.state_of(todo.read_plan(plan.goal, new), folder)}"


def _changed(args: PlanArgs, plan: Plan, text: str) -> tuple[str, str]:
    """TODO.md after a tick, an addition or a drop, and what was done. Raise ToolError."""
    if args.action == "add":
        if plan.is_dropped:
            raise ToolError("This plan was dropped; make a new one.")
        return todo.with_steps(text, _steps(args)), "Added."
    if args.action == "drop":
        is_open = [box for box in plan.boxes if box.mark == " "]
        return todo.marked(text, is_open, "-"), "Dropped." if is_open else "Nothing was open."
    box = next((one for one in plan.boxes if one.number == args.box), None)
    if box is None:
        raise ToolError(f"box: there is no box {args.box}; there are 1 to {len(plan.boxes)}")
    if box.mark != " ":
        return text, f"Box {box.number} was ticked or dropped before."
    first = plan.next
    if first is not None and box != first:
        raise ToolError(f"Box {first.number} comes first: {first.text}")
    return todo.marked(text, [box], "x"), f"Box {box.number} is ticked."


def _make(
    args: PlanArgs,
    old: Plan | None,
    roots: Sequence[Path],
    folder: str,
    abandoned: threading.Event,
) -> str:
    goal, steps = " ".join(clean(args.goal).split()), _steps(args)
    if not goal:
        raise ToolError("goal: say what is to be reached")
    if old is not None and (box := old.next) is not None:
        raise ToolError(
            f"There is an unfinished plan, and it stays: {old.goal}\n{old.done} of "
            f"{len(old.boxes)} boxes are done; next is number {box.number}: {box.text}\n"
            "Go on with it, or drop it first if people want another one."
        )
    for name in (PLAN_FILE, TODO_FILE) if old is not None else ():
        if (text := _read(roots, folder + name)) is not None:
            _write(roots, folder + name.replace(".md", ".old.md"), text, abandoned)
    # TODO.md is the plan: whoever is killed before it is there has made none.
    _write(roots, folder + PLAN_FILE, f"# {goal}\n\n{clean(args.plan).strip()}\n", abandoned)
    made = todo.new_todo(goal, steps)
    _write(roots, folder + TODO_FILE, made, abandoned)
    return f"The plan is made. {todo.state_of(todo.read_plan(goal, made), folder)}"


def _steps(args: PlanArgs) -> list[str]:
    steps = [clean(step).strip() for step in args.steps]
    if not steps or not all(steps):
        raise ToolError("steps: name each in words")
    return steps


def _write(roots: Sequence[Path], path: str, text: str, abandoned: threading.Event) -> None:
    with place_of(roots, path, abandoned, makes_dirs=True) as place:
        place.write(text.encode())
