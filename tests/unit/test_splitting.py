"""Cutting replies into parts: what holds for every text, limit and unit, and the finer points."""

import re
from collections.abc import Callable

import pytest
import regex
from hypothesis import assume, given
from hypothesis import strategies as st

from clawbot.splitting import LEAST_SIZE, split

Measure = Callable[[str], int]


def utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def utf8_bytes(text: str) -> int:
    return len(text.encode())


MEASURES: list[Measure] = [len, utf16_units, utf8_bytes]
FLAG = "\N{REGIONAL INDICATOR SYMBOL LETTER D}\N{REGIONAL INDICATOR SYMBOL LETTER E}"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"

words = st.sampled_from(
    [
        *("a", "word ", "sentence. ", "3.14", "\n", "\n\n", "  ", "\t", "一句话。", "é", "e\u0301"),
        *("```\n", "```python\n", "\n```\n", "~~~\n", "````md\n", "`code` ", "```", "``` x `y`\n"),
        *("x" * 70, " " * 90, "\n" * 90, "`" * 50, f"```{'i' * 300}\n", "o" + "\u0301" * 20),
        *(FLAG, FAMILY, ENGLAND, "👍🏽", "\u1112\u1161\u11ab", "1\ufe0f\u20e3", "🙂" * 40),
    ]
)
texts = st.lists(words | st.text(max_size=20), max_size=60).map("".join)
sizes = st.integers(LEAST_SIZE, 500)
measures = st.sampled_from(MEASURES)


# Text and fences that never join into a line of both.
whole_lines = st.text(st.characters(exclude_characters="`~≡", codec="utf-8")) | st.sampled_from(
    [*("word ", "sentence. ", "\n\n", "x" * 70, FAMILY), *("\n```\n", "\n```≡≡\n", "\n~~~~≡\n")]
)


def bare(text: str) -> str:
    """The text without white space, marks of fences and the language that only fences have here."""
    return re.sub(r"[\s`~≡]", "", text)


@given(texts, sizes, measures)
def test_every_part_is_within_the_limit(text: str, size: int, measure: Measure) -> None:
    assert all(measure(part) <= size for part in split(text, size, measure))


@given(st.lists(whole_lines, max_size=60).map("".join), sizes, measures)
def test_nothing_is_lost_or_added_but_white_space_and_fences(
    text: str, size: int, measure: Measure
) -> None:
    assert bare("".join(split(text, size, measure))) == bare(text)


@given(texts, sizes, measures)
def test_parts_are_few(text: str, size: int, measure: Measure) -> None:
    fullest = size / 2 - 100  # a cut at the earliest place, beside the longest fence
    most = 4 + 4 * utf8_bytes(text) / max(fullest, 25)
    assert len(split(text, size, measure)) <= most


@given(texts, sizes, measures)
def test_no_part_is_empty_beside_others(text: str, size: int, measure: Measure) -> None:
    parts = split(text, size, measure)
    assert len(parts) == 1 or all(part.strip() for part in parts)


@given(texts, texts, sizes, measures)
def test_a_part_that_another_follows_never_changes_while_the_text_grows(
    text: str, more: str, size: int, measure: Measure
) -> None:
    before, after = split(text, size, measure), split(text + more, size, measure)
    assert after[: len(before) - 1] == before[:-1]


def characters(text: str) -> list[str]:
    """What people see as one, without white space."""
    return [seen for cluster in regex.findall(r"\X", text) if (seen := cluster.strip())]


@given(texts, sizes, measures)
def test_characters_as_people_see_them_stay_whole(text: str, size: int, measure: Measure) -> None:
    text = text.replace("`", "").replace("~", "")
    wanted = characters(text)
    assume(all(len(character) <= 100 for character in wanted))  # an endless one may be cut
    parts = split(text, size, measure)
    assert [character for part in parts for character in characters(part)] == wanted


def test_a_short_text_is_one_part_as_it_is() -> None:
    assert split("  hello \n", 200, len) == ["  hello \n"]
    assert split("", 200, len) == [""]


@pytest.mark.parametrize("tail", ["\n", " ", "\n\n  \n", "\t"])
def test_white_space_that_does_not_fit_makes_no_part(tail: str) -> None:
    assert split("x" * 200 + tail, 200, len) == ["x" * 200]


def test_a_cut_code_block_is_closed_and_opened_again_with_its_language() -> None:
    code = "\n".join(f"line {number}" for number in range(60))
    first, *others = split(f"Look:\n\n```python\n{code}\n```\n\nThat is all.", 300, len)
    assert first.startswith("Look:\n\n```python\nline 0\n")
    assert first.endswith("\n```")
    assert all(part.startswith("```python\nline ") for part in others)
    assert others[-1].endswith("line 59\n```\n\nThat is all.")


def test_a_code_block_that_ends_at_a_cut_leaves_no_empty_block() -> None:
    code = "y" * 185
    assert split(f"```py\n{code}\n```\n\nmore words", 196, len) == [
        f"```py\n{code}\n```",
        "more words",
    ]


def test_a_cut_falls_between_paragraphs_then_lines_then_sentences_then_words() -> None:
    half = "w" * 120
    assert split(f"{half}\n\n{half}", 200, len) == [half, half]
    assert split(f"{half}\n{half}", 200, len) == [half, half]
    assert split(f"It is {half}. Then {half}", 200, len) == [f"It is {half}.", f"Then {half}"]
    assert split(f"{half} {half}", 200, len) == [half, half]


def test_a_decimal_point_ends_no_sentence() -> None:
    number = f"{'9' * 150}.{'1' * 30}"
    assert split(f"{number} {number}", 200, len) == [number, number]


def test_the_indent_of_a_line_after_a_cut_is_kept() -> None:
    assert split("x" * 150 + "\n    - nested " + "y" * 100, 200, len)[1].startswith("    - nested")
