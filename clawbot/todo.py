"""A plan, worked through box by box: PLAN.md says what is wanted and how, TODO.md has the boxes.

Both are plain Markdown that people may change too. A box is a list item `- [ ]`, ticked `- [x]`, or
`- [-]` when it is not to be done any more. Pure; which tool writes them: `tools.plan`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clawbot.session_key import SessionKey
from clawbot.text import head_and_tail

PLAN_FILE, TODO_FILE = "PLAN.md", "TODO.md"
SHOWN_CHARS = 500
"""How much of a goal or a box stands in a request."""

_BOX = re.compile(
    r"(?P<before>\s*(?:[-*+]|\d{1,4}[.)])\s+\[)(?P<mark>[ xX-])(?P<after>\]\s+(?P<text>.*\S).*)"
)
_FENCE = re.compile(r"\s*(```|~~~)")

HEAD = "Plan mode is on here: what changes something is done by a plan, box by box."
NONE = (
    "There is no plan yet. Before you change anything make one with the tool plan: the goal, how "
    "you will reach it, and the steps. What changes nothing needs no plan."
)
FINISHED = (
    "The plan in {todo} is finished: all its boxes ({total}) are done. Say so when you are asked "
    "to go on with it; for other work make a new plan."
)
DROPPED = "The plan in {todo} was dropped ({done} of {total} boxes were done); make a new one."
OPEN = (
    "Goal: {goal}\n"
    "{done} of {total} boxes in {todo} are done. The first open one is number {number}: {text}\n"
    "Do what this box says, tick it with the tool plan, then go on with the next one. What is "
    "ticked is done: do not do it again. What was begun may be half done: look first. End when all "
    "boxes are ticked, or when people must decide something."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A step. number: from 1. mark: " " open, "x" done, "-" dropped. line: in its file."""

    number: int
    mark: str
    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan as its files have it."""

    goal: str
    boxes: tuple[Box, ...]

    @property
    def done(self) -> int:
        """How many boxes are ticked."""
        return sum(box.mark == "x" for box in self.boxes)

    @property
    def next(self) -> Box | None:
        """The first open box; None when nothing is left to do."""
        return next((box for box in self.boxes if box.mark == " "), None)

    @property
    def is_dropped(self) -> bool:
        """Whether it ended with boxes that were not done."""
        return self.next is None and any(box.mark == "-" for box in self.boxes)


def folder_of(session: SessionKey, *, is_alone: bool) -> str:
    """Where in its work directory a session has its plan: "" for at its top. is_alone: whether it
    shares the directory with no other session.
    """
    if session.task is None and (is_alone or session.thread is None):
        return ""
    return f"plans/{session.digest[:8]}/"


def read_plan(plan_text: str, todo_text: str | None) -> Plan | None:
    """The plan of these files; None where there is no box."""
    boxes: list[Box] = []
    is_code = False
    for line, text in enumerate((todo_text or "").splitlines()):
        is_code ^= _FENCE.match(text) is not None
        match = None if is_code else _BOX.fullmatch(text)
        if match is not None:
            mark, number = match["mark"].lower(), len(boxes) + 1
            boxes.append(Box(number=number, mark=mark, text=match["text"], line=line))
    goal = _first_words(plan_text) or _first_words(todo_text or "")
    return Plan(goal=goal, boxes=tuple(boxes)) if boxes else None


def _first_words(text: str) -> str:
    lines = (line.strip().lstrip("#").strip() for line in text.splitlines())
    return next((line for line in lines if line), "")


def state_of(plan: Plan | None, folder: str) -> str:
    """What a request says of a plan; bounded, however long the files are."""
    todo = folder + TODO_FILE
    if plan is None:
        return NONE
    box, total = plan.next, len(plan.boxes)
    if box is None:
        told = DROPPED if plan.is_dropped else FINISHED
        return told.format(todo=todo, done=plan.done, total=total)
    return OPEN.format(
        goal=head_and_tail(plan.goal, SHOWN_CHARS),
        done=plan.done,
        total=total,
        todo=todo,
        number=box.number,
        text=head_and_tail(box.text, SHOWN_CHARS),
    )


def new_todo(goal: str, steps: Sequence[str]) -> str:
    """The text of TODO.md for a new plan."""
    return f"# {goal}\n\n{_boxes(steps)}"


def with_steps(todo_text: str, steps: Sequence[str]) -> str:
    """The text of TODO.md with further boxes at its end."""
    return f"{todo_text.rstrip()}\n{_boxes(steps)}"


def marked(todo_text: str, boxes: Sequence[Box], mark: str) -> str:
    """The text of TODO.md with these boxes marked; all else stays as it is."""
    lines = todo_text.splitlines(keepends=True)
    for box in boxes:
        match = _BOX.match(lines[box.line])
        if match is not None:
            start = match.start("mark")
            lines[box.line] = lines[box.line][:start] + mark + lines[box.line][start + 1 :]
    return "".join(lines)


def _boxes(steps: Sequence[str]) -> str:
    return "".join(f"- [ ] {' '.join(step.split())}\n" for step in steps)
