"""Plans in Markdown: what is read of them, what is written, what a request says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.session_key import SessionKey
from clawbot.todo import (
    SHOWN_CHARS,
    Plan,
    folder_of,
    marked,
    new_todo,
    read_plan,
    state_of,
    with_steps,
)

TODO = """# Ship it

Notes of a person.

- [x] one
* [X] two
  1) [-] three
```
- [ ] not a box
```
- [ ] four
+ [ ] five  
- [] no box
- [ ]
"""  # noqa: W291 - what people leave behind


def plan_of(text: str) -> Plan:
    plan = read_plan("", text)
    assert plan is not None
    return plan


def test_boxes_are_list_items_outside_of_code() -> None:
    plan = plan_of(TODO)
    assert [(box.number, box.mark, box.text) for box in plan.boxes] == [
        (1, "x", "one"),
        (2, "x", "two"),
        (3, "-", "three"),
        (4, " ", "four"),
        (5, " ", "five"),
    ]
    assert (plan.goal, plan.done) == ("Ship it", 2)
    assert plan.next == plan.boxes[3]
    assert read_plan("# A plan without boxes", "just words") is None
    assert read_plan("# A plan without a file", None) is None


def test_a_tick_changes_one_character() -> None:
    plan = plan_of(TODO)
    ticked = marked(TODO, [plan.boxes[3]], "x")
    assert ticked == TODO.replace("- [ ] four", "- [x] four")
    windows = TODO.replace("\n", "\r\n")
    assert marked(windows, [plan_of(windows).boxes[3]], "x") == ticked.replace("\n", "\r\n")


def test_a_request_is_told_where_the_plan_stands() -> None:
    told = state_of(plan_of(TODO), "plans/a/")
    assert "Goal: Ship it" in told
    assert "2 of 5 boxes in plans/a/TODO.md are done" in told
    assert "number 4: four" in told
    assert "There is no plan yet" in state_of(None, "")
    finished = state_of(plan_of("- [x] one\n- [x] two"), "")
    assert "The plan in TODO.md is finished: all its boxes (2) are done" in finished
    assert "was dropped (1 of 2" in state_of(plan_of("- [x] one\n- [-] two"), "")


def test_what_a_request_is_told_is_bounded() -> None:
    huge = f"# {'g' * 100_000}\n- [ ] {'t' * 100_000}\n"
    assert len(state_of(plan_of(huge), "")) < 2 * SHOWN_CHARS + 700


@pytest.mark.parametrize(
    ("key", "is_alone", "is_own"),
    [
        (SessionKey.of_chat("slack", "D1"), False, False),
        (SessionKey.of_chat("slack", "C1", thread="1"), False, True),
        (SessionKey.of_chat("slack", "C1", thread="1"), True, False),
        (SessionKey.of_chat("slack", "D1").with_task("7"), True, True),
    ],
)
def test_sessions_that_share_a_directory_have_plans_of_their_own(
    key: SessionKey, is_alone: bool, is_own: bool
) -> None:
    folder = folder_of(key, is_alone=is_alone)
    assert folder == (f"plans/{key.digest[:8]}/" if is_own else "")


STEPS = st.lists(
    st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1), min_size=1, max_size=8
)


@given(STEPS, STEPS, st.data())
def test_what_is_written_is_read_again_and_ticked_to_its_end(
    steps: list[str], more: list[str], data: st.DataObject
) -> None:
    text = with_steps(new_todo("goal", steps), more)
    plan = plan_of(text)
    assert [box.text for box in plan.boxes] == [*steps, *more]
    for done in range(len(plan.boxes)):
        plan = plan_of(text)
        assert plan.done == done
        box = plan.next
        assert box is not None
        assert box.number == done + 1
        text = marked(text, [box], data.draw(st.sampled_from("x")))
    assert plan_of(text).next is None
