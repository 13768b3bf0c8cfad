"""What is sent for an answer: the Markdown block and its stand-in."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.slack.mrkdwn import TEXT_LIMIT_BYTES, size
from adapters.slack.outbound import (
    MARKDOWN_LIMIT,
    MAX_SIZE,
    People,
    compose,
    grown,
    measure,
    units,
)

PEOPLE = People.of(
    {"U1": "alice", "U2": "bob", "U3": "Bob Smith", "U4": "李雷", "U5": "twin", "U6": "Twin"}
)
NOTIFIES = re.compile(r"<(?:!(?:here|channel|everyone|subteam|date)|[@#][A-Z0-9]+[|>])")
BROADCAST = re.compile(r"@(?:here|channel|everyone)\b", re.IGNORECASE)


def test_standard_markdown_goes_as_it_is() -> None:
    table = "# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n1. x\n   - y\n\n`a < b && c` <b>"
    content = compose(table)
    assert content.markdown == table
    assert content.text.startswith("*Title*")


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("ask @alice.", "ask <@U1>."),
        ("@Bob Smith and @bob", "<@U3> and <@U2>"),
        ("**@alice** (@bob)", "**<@U1>** (<@U2>)"),
        ("请@bob看一下", "请<@U2>看一下"),
        ("@李雷 你好", "<@U4> 你好"),
        ("@李雷雷", "@李雷雷"),
        ("@bobby @twin @carol", "@bobby @twin @carol"),
        ("a@bob.com x/@bob `@bob`", "a@bob.com x/@bob `@bob`"),
        ("```\n@bob\n```\n@bob", "```\n@bob\n```\n<@U2>"),
        ("<@U1> and <@U1|x>", "<@U1> and <@U1>"),
    ],
)
def test_a_known_name_becomes_a_mention_and_nothing_else_does(markdown: str, shown: str) -> None:
    assert compose(markdown, "", PEOPLE).markdown == shown
    assert grown(markdown, PEOPLE) == shown


@given(
    st.text(alphabet="<>!@#|`* \nUS19herchanlvyodt", max_size=80)
    | st.sampled_from(["<!channel>", "`<!here>`", "```\n<@U9>\n```", "@here", "<!subteam^S1|x>"])
)
def test_nobody_is_notified_whom_we_do_not_know(markdown: str) -> None:
    content = compose(markdown, progress=markdown)
    assert not NOTIFIES.search(content.markdown)
    assert not NOTIFIES.search(grown(markdown))
    assert not NOTIFIES.search(content.text)


def test_broadcasts_by_name_are_broken_outside_code() -> None:
    content = compose("@here and @Channel but `@everyone`", "asking @here")
    prose = content.markdown.replace("`@everyone`", "")
    assert not BROADCAST.search(prose)
    assert "`@everyone`" in content.markdown


def test_what_only_looks_like_a_token_is_left_alone() -> None:
    text = "```html\n<!DOCTYPE html>\n<!-- @bob -->\n<@model.Name>\n```\nList<#if>"
    assert compose(text, "", PEOPLE).markdown == text


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**注意：**看这里", "**注意：**\u200a看这里"),
        ("看**“重点”**的", "看\u200a**“重点”**\u200a的"),
        ("这是**重点**内容", "这是**重点**内容"),
        ("**a:** b\n\n2**3，**4", "**a:** b\n\n2**3，**\u200a4"),
        ("`**注意：**看`", "`**注意：**看`"),
    ],
)
def test_bold_beside_chinese_punctuation_is_seen(markdown: str, shown: str) -> None:
    assert compose(markdown).markdown == shown


def test_an_open_code_block_is_closed_before_the_line_of_progress() -> None:
    content = compose("see:\n```py\nx = 1\n", "running *it*")
    assert content.markdown == "see:\n```py\nx = 1\n```\n\n⏳ running \\*it\\*"
    assert content.text == "see:\n\n```\nx = 1\n```\n\n⏳ running *it*"


@given(
    st.text(alphabet="龙x&<@ \n`*", max_size=400),
    st.integers(0, 200),
    st.text(max_size=300),
)
def test_a_full_part_fits_with_mentions_and_progress(text: str, names: int, progress: str) -> None:
    markdown = text + "@bob " * names + "x" * MAX_SIZE
    while measure(markdown) > MAX_SIZE:
        markdown = markdown[: len(markdown) - max(measure(markdown) - MAX_SIZE, 1)]
    content = compose(markdown, progress, PEOPLE)
    assert units(content.markdown) <= MARKDOWN_LIMIT
    assert units(grown(markdown, PEOPLE)) <= MARKDOWN_LIMIT
    assert size(content.text) <= TEXT_LIMIT_BYTES


@given(st.text(alphabet="ab <!@#>`*：看\nhere", max_size=60), st.integers(0, 60))
def test_a_growing_text_never_shows_what_a_longer_one_breaks(markdown: str, cut: int) -> None:
    shown = grown(markdown[:cut], PEOPLE, is_final=False)
    whole = grown(markdown, PEOPLE)
    joined = shown + (whole[len(shown) :] if whole.startswith(shown) else "")
    assert not NOTIFIES.search(re.sub(r"<@U[12345]>", "", joined))


def test_words_as_models_write_them_only_ever_extend_what_is_shown() -> None:
    answer = (
        "# 标题\n\n**注意：**请看 `code` 和 @bob 。\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        "```py\nif a < b:\n    print('<!here>')\n```\n\n- **one** two\n- <https://example.com>\n"
    )
    shown = ""
    for end in range(len(answer)):
        longer = grown(answer[:end], PEOPLE, is_final=False)
        assert longer.startswith(shown)
        shown = longer
    assert grown(answer, PEOPLE).startswith(shown)
