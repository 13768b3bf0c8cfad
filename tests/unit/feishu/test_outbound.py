"""Markdown for Feishu: form, size, tables, pictures, mentions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.feishu.outbound import MAX_SIZE, card, card_text, content, form_of, harmless, measure

TABLE = "| a | b |\n|---|---|\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("plain words", "text"),
        ("a_b_c and https://example.com/my_file_name_v2.txt", "text"),
        ("1 < 2 & 3 > 2", "text"),
        ("*em*", "post"),
        ("# Title", "post"),
        ("- item", "post"),
        ("`code`", "post"),
        ("escaped \\* star", "post"),
        ("entity &amp; more", "post"),
        ("two  \nlines", "post"),
        (TABLE, "card"),
        (f"```\n{TABLE}\n```", "post"),
    ],
)
def test_the_form_is_chosen_by_what_is_in_the_text(text: str, form: str) -> None:
    assert form_of(text, "auto") == form
    assert form_of(text, "text") == "text"


def test_an_address_with_underscores_arrives_as_it_is() -> None:
    address = "https://example.com/my_file_name_v2.txt"
    for form in ("card", "post", "text"):
        assert address in content(f"see {address}", form)[1]


def test_headings_of_a_post_are_bold_and_code_is_left_alone() -> None:
    text = "# One\n\n```\n# two\n```\n\n### Three ###"
    nodes = json.loads(content(text, "post")[1])["zh_cn"]["content"]
    assert nodes == [[{"tag": "md", "text": "**One**\n\n```\n# two\n```\n\n**Three**"}]]


def test_a_table_in_a_list_stays_in_its_place() -> None:
    table = TABLE.replace("\n", "\n  ")
    shown = json.loads(content(f"- item\n\n  {table}\n\nend", "post")[1])["zh_cn"]["content"][0][0]
    assert shown["text"] == "- item\n\n  ```\n  a | b\n  --+--\n  1 | 2\n  ```\n\nend"


def test_a_line_of_progress_is_short_and_one_line() -> None:
    shown = card_text("text", "reading\n<at id=all> " + "x" * 500)
    text, line = shown.split("\n\n")
    assert (text, line[:20]) == ("text", "⏳ reading <\u200bat id=al")
    assert len(line) == 202
    assert card_text("", "working") == "⏳ working"


@pytest.mark.parametrize("tag", ["<at id=all>", "<AT x", "</at>", "< at id=1>", "<person id=1>"])
def test_a_tag_that_could_notify_is_broken(tag: str) -> None:
    assert "<at" not in harmless(tag).lower().replace(" ", "")
    assert harmless(tag).replace("\u200b", "") == tag


def test_words_that_only_look_like_it_stay() -> None:
    text = "a < b, <attr>, <b>at</b>"
    assert harmless(text) == text


@given(st.text(st.characters(codec="utf-8"), max_size=400))
def test_what_is_measured_bounds_what_is_sent(text: str) -> None:
    for form in ("card", "post", "text"):
        body = content(text, form)[1]
        sent = len(json.dumps(body, ensure_ascii=False).encode())
        # What rendering may add: the frame, fences of tables, broken tags.
        assert sent <= measure(text) * 3 + 700


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8")))
def test_a_longer_text_never_measures_less(text: str, more: str) -> None:
    assert measure(text + more) >= measure(text)


def test_a_card_full_of_wide_tables_fits_all_the_same() -> None:
    wide = "| " + " | ".join(["x"] * 20) + " |\n" + "|---" * 20 + "|\n"
    rows = "| " + "y" * 300 + " | " * 19 + "|\n"
    text = "\n\n".join([wide + rows * 3] * 7)
    assert measure(text) <= MAX_SIZE
    assert len(card(text).encode()) <= 30 * 1024


def test_a_streaming_card_says_so_and_a_complete_one_does_not() -> None:
    assert json.loads(card("x", streaming=True))["config"]["streaming_mode"] is True
    assert "streaming_mode" not in json.loads(card("x"))["config"]
