"""H4: the third failure of one call in a row is answered with more than the failure."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.agent.interruption import INTERRUPTED
from clawbot.agent.repetition import normalised, reminder
from clawbot.history import Entry, EntryKind, ToolCall

ARGUMENTS = '{"path": "a.txt", "limit": 3}'


def made(
    step: int,
    *,
    arguments: str = ARGUMENTS,
    tool: str = "read_file",
    text: str = "no",
    id_: str = "c",
) -> list[Entry]:
    """A call of a step and its failure; its success if the text is ok."""
    call = Entry(
        kind=EntryKind.TOOL_CALL,
        turn_id="t",
        step=step,
        call_id=id_,
        tool=tool,
        arguments=arguments,
    )
    result = Entry(
        kind=EntryKind.TOOL_RESULT,
        turn_id="t",
        step=step,
        call_id=id_,
        tool=tool,
        text=text,
        is_error=text != "ok",
    )
    return [call, result]


def call(arguments: str = ARGUMENTS, tool: str = "read_file") -> ToolCall:
    return ToolCall(call_id="new", tool=tool, arguments=arguments)


def test_h4_only_the_third_failure_in_a_row_is_reminded_of() -> None:
    history = made(0)
    assert reminder(call(), history) == ""
    history += made(1)
    assert "has failed 3 times in a row" in reminder(call(), history)
    history += made(2)
    assert "has failed 4 times" in reminder(call(), history)


@pytest.mark.parametrize(
    "between",
    [
        made(2, text="ok"),
        made(2, text="ok", arguments='{"limit":3,   "path":"a.txt"}'),
    ],
)
def test_h4_a_success_in_between_begins_anew(between: list[Entry]) -> None:
    assert reminder(call(), [*made(0), *made(1), *between]) == ""


@pytest.mark.parametrize(
    "between",
    [
        made(2, text="ok", arguments='{"path": "b.txt"}'),
        made(2, text="ok", tool="list_dir"),
        made(2, text=INTERRUPTED),
        [Entry(kind=EntryKind.USER, text="try again", turn_id="t2")],
    ],
)
def test_h4_what_lies_between_else_changes_nothing(between: list[Entry]) -> None:
    assert "3 times" in reminder(call(), [*made(0), *made(1), *between])


@pytest.mark.parametrize(
    "other", [call('{"path": "b.txt", "limit": 3}'), call(tool="list_dir"), call("{}")]
)
def test_h4_another_call_is_not_reminded(other: ToolCall) -> None:
    assert reminder(other, [*made(0), *made(1), *made(2)]) == ""


def test_h4_order_and_spaces_make_no_difference_nor_does_the_place_in_a_batch() -> None:
    batch = [
        *made(0, id_="1", tool="list_dir", text="ok"),
        *made(0, id_="2", arguments='{"limit":3,"path":" a.txt"}'),
        *made(0, id_="3", arguments='{ "path" : "a.txt" , "limit" : 3 }'),
    ]
    assert "3 times" in reminder(call(), batch)
    broken = '{"path": "a'
    assert "3 times" in reminder(
        call(broken + " "), [*made(0, arguments=broken), *made(1, arguments=" " + broken)]
    )


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=5))))
def test_arguments_are_the_same_however_they_are_written(arguments: dict[str, object]) -> None:
    turned = dict(reversed(arguments.items()))
    written = json.dumps(turned, indent=3, ensure_ascii=True)
    assert normalised(written) == normalised(json.dumps(arguments, ensure_ascii=False))
