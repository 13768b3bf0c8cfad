"""What of a history goes into a request: units, limits, tiers."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from clawbot.agent.masks import Shortener, cut_to
from clawbot.agent.steps import group
from clawbot.agent.window import RECENT_STEPS, Room, TooLarge, _tiers, fit
from clawbot.history import Entry, EntryKind
from tests.memory.histories import (
    call,
    chat,
    fitted,
    is_whole_groups,
    note,
    numbered,
    result,
    said,
    step,
    texts,
    thought,
    user,
    weights,
)

SECRET = "token_12345"
QUESTION = "which secret did you find in round one? no tools"


def by_kind(entries: tuple[Entry, ...], kind: EntryKind) -> list[Entry]:
    return [entry for entry in entries if entry.kind is kind]


def test_B1_what_left_the_window_is_not_sent_and_still_in_the_history() -> None:
    history = [
        user("find the secret in README.md", "first"),
        *step(0, SECRET, turn="first"),
        said(f"it is {SECRET}", "first", 1),
        *chat(6),
        user(QUESTION),
    ]
    assert len(history) == 17
    found = fitted(history, messages=6)
    assert SECRET not in str(found.entries)
    assert SECRET in str(history)
    assert found.entries[0].kind is EntryKind.USER
    assert found.entries[-1].text == QUESTION
    assert 2 < len(found.entries) <= 6


def test_B2_a_result_at_the_edge_goes_with_its_whole_step() -> None:
    history = [
        user("read it", "old"),
        *step(0, "content", turn="old"),
        *chat(1),
        user("next"),
    ]
    found = fitted(history, messages=4)
    assert texts(found.entries) == ["small talk 0", "ok 0", "next"]


@pytest.mark.parametrize("limit", [3, 4, 5, 6, 7, 8, 9])
def test_B3_parallel_calls_stand_together_or_not_at_all(limit: int) -> None:
    history = [user("a", "old"), *step(0, "1", "2", "3", turn="old"), *chat(1), user("now")]
    found = fitted(history, messages=limit)
    assert len(by_kind(found.entries, EntryKind.TOOL_CALL)) in {0, 3}
    assert is_whole_groups(found.entries)
    assert found.entries[0].kind is EntryKind.USER


@pytest.mark.parametrize("count", [6, 20, 200])
def test_B4_the_newest_step_stands_whole_whatever_the_number_allows(count: int) -> None:
    history = [*chat(3), user("the task"), *step(0, *(f"result {n} " * 30 for n in range(count)))]
    found = fitted(history, messages=6)
    assert texts(found.entries)[0] == "the task"
    assert len(by_kind(found.entries, EntryKind.TOOL_RESULT)) == count
    tight = fitted(history, messages=6, tokens=120 * count)
    assert texts(tight.entries)[0] == "the task"
    assert len(by_kind(tight.entries, EntryKind.TOOL_RESULT)) == count
    assert tight.tokens <= 120 * count
    assert tight.tier > 0


def test_B5_the_task_stands_in_every_request_of_a_long_turn() -> None:
    history = [*chat(4), user("the task")]
    for number in range(40):
        history += step(number, f"line {number} of the log\n" * 40)
        found = fitted(history, messages=6, tokens=3000)
        assert "the task" in texts(found.entries)
        assert found.tokens <= 3000
        assert is_whole_groups(found.entries)


@pytest.mark.parametrize("limit", [0, -1, 1000])
def test_B6_no_limit_and_a_large_one_keep_everything(limit: int) -> None:
    history = [*chat(20), user("now")]
    found = fitted(history, messages=limit)
    assert found.entries == tuple(numbered(history))
    assert found.is_whole


def test_B6_a_history_of_one_is_sent_and_an_empty_one_is_an_error() -> None:
    assert texts(fitted([user("only")], messages=1).entries) == ["only"]
    with pytest.raises(ValueError, match="history is empty"):
        fitted([], messages=6)


def test_B7_the_history_is_not_changed_by_what_is_made_of_it() -> None:
    history = [user("task"), *step(0, "x" * 9000), *step(1, "y " * 9000)]
    before = list(history)
    found = fitted(history, tokens=600)
    assert found.tier > 0
    assert history == before
    assert any(entry.text != kept.text for entry, kept in zip(found.entries, before, strict=False))


@pytest.mark.parametrize("places", [(1,), (5,), (1, 5)])
def test_B8_a_huge_result_is_made_smaller_and_small_newer_ones_are_not(
    places: tuple[int, ...],
) -> None:
    huge = "\n".join(f"line {number} of ten thousand" for number in range(10_000))
    history = [*chat(2), user("the task")]
    for back in range(6, 0, -1):
        history += step(6 - back, huge if back in places else f"small result {back}")
    found = fitted(history, messages=10, tokens=6000)
    assert found.tokens <= 6000
    results = by_kind(found.entries, EntryKind.TOOL_RESULT)
    for back, entry in zip(range(6, 0, -1), results[-6:], strict=True):
        if back in places:
            assert len(entry.text) < len(huge)
            assert f"of {len(huge):,} characters left out" in entry.text
            assert found.saves
        else:
            assert entry.text == f"small result {back}"


def test_B10_seed_and_summary_records_are_no_history() -> None:
    seed = Entry(kind=EntryKind.SEED, text="the seed", turn_id="old0")
    summary = Entry(kind=EntryKind.SUMMARY, text="the summary", turn_id="old0")
    found = fitted([seed, summary, *chat(1), user("now")])
    assert texts(found.entries) == ["small talk 0", "ok 0", "now"]


def test_B11_thinking_is_counted_where_it_is_sent_and_left_out_first() -> None:
    history = [user("task")]
    for number in range(5):
        history += [thought("I wonder about this. " * 100, step=number), *step(number, "r" * 40)]
    unlimited = fitted(history)
    room = Room(turn_id="now", tokens=1 << 40, surely=-1, messages=0)
    unsent = fit(numbered(history), room, weights(sends_thinking=False))
    assert unlimited.tokens > unsent.tokens + 5 * 300
    tight = fitted(history, tokens=unlimited.tokens - 10)
    assert tight.tier == 1
    assert len(by_kind(tight.entries, EntryKind.THINKING)) == 1
    assert texts(tight.entries)[1:] == ["r" * 40] * 4 + ["I wonder about this. " * 100, "r" * 40]


def test_B12_what_came_while_tools_ran_stands_after_their_results() -> None:
    history = [user("task"), call("a"), user("and this"), result("a", "done")]
    assert [entry.kind.value for entry in fitted(history).entries] == [
        "user",
        "tool_call",
        "tool_result",
        "user",
    ]


def test_B14_strays_are_dropped_and_repeated_ids_paired_by_turn() -> None:
    history = [
        user("one", "old"),
        call("", "old"),
        result("", "first", "old"),
        result("", "again", "old"),
        user("two"),
        call("a"),
        call("a"),
        result("a", "second"),
        result("unknown", "stray"),
    ]
    found = fitted(history)
    assert [e.text for e in by_kind(found.entries, EntryKind.TOOL_RESULT)] == ["first", "second"]


def test_B15_a_huge_argument_stays_an_object_of_the_same_keys() -> None:
    arguments = json.dumps({"path": "a.txt", "content": "words of a file\n" * 20_000})
    history = [user("write it"), call("a", arguments=arguments), result("a", "written")]
    found = fitted(history, tokens=2000)
    assert found.tokens <= 2000
    (sent,) = by_kind(found.entries, EntryKind.TOOL_CALL)
    kept = json.loads(sent.arguments)
    assert kept["path"] == "a.txt"
    assert kept["content"].startswith("words of a file")
    assert "left out" in kept["content"]
    assert list(found.saves.values()) == ["words of a file\n" * 20_000]


def test_B15_a_huge_paste_keeps_its_beginning_and_end_and_says_where_the_rest_is() -> None:
    paste = "begin of the paste\n" + "中文和 words\n" * 20_000 + "what does it mean?"
    found = fitted([*chat(2), user(paste)], tokens=2000)
    assert found.tokens <= 2000
    shown = found.entries[-1].text
    assert shown.startswith("begin of the paste")
    assert shown.endswith("what does it mean?")
    ((path, whole),) = found.saves.items()
    assert whole == paste
    assert path in shown


def test_B15_forty_small_results_fit_where_masks_would_gain_nothing() -> None:
    history = [user("task")]
    for number in range(40):
        history += step(number, f"{number:03} " + "ab" * 93)
    found = fitted(history, tokens=1500)
    assert found.tokens <= 1500
    assert found.entries[0].text == "task"
    assert is_whole_groups(found.entries)


@pytest.mark.parametrize(
    "text", ["\N{GRINNING FACE}" * 5000, "测" * 5000, "line\r\n" * 2000, "a" * 20_000]
)
@pytest.mark.parametrize("chars", [100, 101, 102, 103, 998])
def test_B18_a_cut_is_valid_text_that_names_the_real_size(text: str, chars: int) -> None:
    cut = cut_to(text, chars, path=None)
    cut.encode()
    head, marker, tail = re.split(r"(\[….*?\])", cut)
    assert f"of {len(text):,} characters" in marker
    left_out = int(re.findall(r"… ([\d,]+) of", marker)[0].replace(",", ""))
    assert len(head.removesuffix("\n")) + len(tail.removeprefix("\n")) + left_out == len(text)
    assert text.startswith(head.removesuffix("\n"))
    assert text.endswith(tail.removeprefix("\n"))
    assert not head.removesuffix("\n").endswith("\r")


def test_B18_a_text_that_was_cut_before_still_names_the_size_and_path_of_the_whole() -> None:
    whole = "x y z\n" * 100_000
    stored = cut_to(whole, 50_000, path="_saved/0123456789abcdef0123.txt")
    found = fitted([user("task"), call("a"), result("a", stored)], tokens=800)
    shown = found.entries[-1].text
    assert len(shown) < len(stored)
    assert f"of {len(whole):,} characters" in shown
    assert 'path="_saved/0123456789abcdef0123.txt"' in shown
    assert found.saves == {}


def test_B18_a_quoted_note_is_not_taken_for_our_own() -> None:
    quoted = cut_to("x" * 500, 9, path="_saved/0123456789abcdef0123.txt")
    found = fitted([user("task"), call("a"), result("a", quoted + " words" * 9000)], tokens=800)
    assert f"of {len(quoted) + 54_000:,} characters" in found.entries[-1].text
    assert len(found.saves) == 1


def test_C1_under_the_line_nothing_is_changed() -> None:
    history = [*chat(30), user("task"), *step(0, "result", "other")]
    found = fitted(history, tokens=100_000, messages=200)
    assert found.entries == tuple(numbered(history))
    assert (found.tier, found.kept_from, found.fold_through) == (0, 0, 0)


def long_turn() -> list[Entry]:
    history = [user("task " * 500)]
    for number in range(8):
        history += [thought("hm " * 50, step=number), *step(number, "result " * 700, "b" * 3000)]
    history[3] = replace(history[3], arguments=json.dumps({"text": "argument " * 900}))
    return history


@pytest.mark.parametrize("tokens", [500, 1000, 3000, 8000])
def test_C2_sizes_never_rise_with_the_tier(tokens: int) -> None:
    scales = weights()
    forms = _tiers(group(long_turn()), tokens, Shortener(scales))
    sizes = [scales.units(form) for form in forms]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) > 6


def test_C2_a_second_pass_changes_nothing() -> None:
    tiers = []
    whole = fitted(long_turn()).tokens
    for part in range(100, 3, -1):
        tokens = whole * part // 100
        found = fitted(long_turn(), tokens=tokens)
        assert found.tokens <= tokens
        assert fitted(found.entries, tokens=tokens).entries == tuple(numbered(found.entries))
        tiers.append(found.tier)
    assert len(set(tiers)) > 4


def test_C4_the_newest_steps_keep_their_content_up_to_the_cap() -> None:
    history = [user("task")]
    for number in range(12):
        history += step(number, f"result {number}: " + "word " * 300)
    found = fitted(history, tokens=2500)
    results = [e.text for e in by_kind(found.entries, EntryKind.TOOL_RESULT)]
    assert results[-RECENT_STEPS:] == [
        f"result {number}: " + "word " * 300 for number in range(9, 12)
    ]
    assert all("left out" in text and "\n" not in text for text in results[:-RECENT_STEPS])


def test_C13_no_mask_hides_what_people_wrote() -> None:
    words = "please do the following with care"
    history = [user(words, "old0"), said("ok", "old0"), user(words), note("overheard")]
    for number in range(10):
        history += step(number, "z " * 2000)
    for tokens in (8000, 4000, 2000, 1000):
        found = fitted(history, tokens=tokens)
        assert [
            e.text for e in found.entries if e.turn_id == "now" and e.kind is EntryKind.USER
        ] == [words]


def test_a_request_that_cannot_be_made_small_enough_is_refused_here() -> None:
    history = [user("task"), *step(0, *(f"{n}" for n in range(500)))]
    with pytest.raises(TooLarge, match=r"come to [\d,]+ tokens at their smallest; 1,000 fit"):
        fitted(history, tokens=1000)


def test_a_cut_leaves_room_so_that_the_next_requests_begin_the_same() -> None:
    history = [*chat(200), user("now")]
    first = fitted(history, messages=100)
    assert first.kept_from > 0
    beginnings = set()
    for number in range(12):
        history = [*history, said("ok", "now"), user(f"more {number}", f"later{number}")]
        found = fitted(history, messages=100, kept_from=first.kept_from, turn=f"later{number}")
        beginnings.add(found.entries[0].text)
        assert found.kept_from == first.kept_from
    assert beginnings == {first.entries[0].text}


def test_what_is_surely_small_is_not_counted() -> None:
    def never(_text: str, *, stop_above: int | None = None) -> int:
        raise AssertionError("counted")

    room = Room(turn_id="now", tokens=9000, surely=9000, messages=0)
    scales = weights()
    scales._count = never
    found = fit(numbered([*chat(5), user("now")]), room, scales)
    assert not found.is_counted
    assert len(found.entries) == 11


def test_a_large_result_of_an_earlier_turn_costs_its_own_place_only() -> None:
    history = [*chat(3), user("read", "old"), *step(0, "data " * 9000, turn="old")]
    history += [said("read it", "old", 1), *chat(2, 3), user("now")]
    found = fitted(history, tokens=3000)
    assert "small talk 0" in texts(found.entries)
    assert any("characters left out" in text for text in texts(found.entries))
    assert found.tokens <= 3000


def test_the_oldest_part_is_to_be_summarised_before_the_room_is_full() -> None:
    history = [*chat(100), user("now")]
    whole = fitted(history).tokens
    assert fitted(history, tokens=whole * 2).fold_through == 0
    nearly = fitted(history, tokens=whole * 10 // 9)
    assert nearly.is_whole
    folded = nearly.fold_through
    assert 60 < folded < 160
    assert numbered(history)[folded].kind is EntryKind.USER  # what stays begins with a person
    over = fitted(history, tokens=whole // 2)
    assert not over.is_whole
    assert over.fold_through >= over.kept_from - 1
