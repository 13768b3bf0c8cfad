"""What ends the history of a turn that was cut off."""

from __future__ import annotations

from clawbot.agent.interruption import INTERRUPTED, cut_short, open_calls
from clawbot.history import Entry, EntryKind

TURN = "t1"


def entry(kind: EntryKind, text: str = "", step: int = 0, call_id: str = "") -> Entry:
    return Entry(kind=kind, text=text, turn_id=TURN, step=step, call_id=call_id, tool="shell")


ASKED = entry(EntryKind.USER, "do it", step=-1)
SAID = entry(EntryKind.ASSISTANT, "I begin.")
CALLS = [entry(EntryKind.TOOL_CALL, call_id=name) for name in ("a", "b", "c")]
DONE = entry(EntryKind.TOOL_RESULT, "fine", call_id="b")


def test_open_calls_are_closed_in_their_order_and_answered_ones_left_alone() -> None:
    recorded = [ASKED, SAID, *CALLS, DONE]
    assert [call.call_id for call in open_calls(recorded, TURN)] == ["a", "c"]
    *closed, note = cut_short(recorded, TURN, "I begin.", "(stopped)")
    assert [(one.call_id, one.text, one.is_error) for one in closed] == [
        ("a", INTERRUPTED, True),
        ("c", INTERRUPTED, True),
    ]
    assert open_calls([*recorded, *closed], TURN) == []
    assert (note.kind, note.text, note.turn_id) == (EntryKind.NOTE, "(stopped)", TURN)


def test_what_people_saw_of_the_text_that_was_being_written_is_kept_once() -> None:
    recorded = [ASKED, SAID, CALLS[0], entry(EntryKind.TOOL_RESULT, "fine", call_id="a")]
    shown = "I begin.\n\nIt is alm"
    kept, note = cut_short(recorded, TURN, shown, "(stopped)")
    assert (kept.kind, kept.text, kept.step) == (EntryKind.ASSISTANT, "It is alm", 1)
    assert note.step == 1


def test_calls_of_other_turns_stay_as_they_are() -> None:
    other = Entry(kind=EntryKind.TOOL_CALL, call_id="x", turn_id="t0", step=0)
    assert open_calls([other, ASKED], TURN) == []
    assert len(cut_short([ASKED], TURN, "", "(stopped)")) == 1
