"""What WeChat is sent: readable text, within its bytes, in well-formed XML."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.wechat.fields import clean
from adapters.wechat.outbound import (
    HINT_BYTES,
    MAX_SIZE,
    TEXT_LIMIT_BYTES,
    hint_newer,
    hint_rest,
    measure,
    passive_xml,
    size,
)
from adapters.wechat.plain import render
from adapters.wecom.outbound import BOT_LIMIT_BYTES, measure_bot, render_app, render_bot
from clawbot.splitting import split

WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"])
    | st.sampled_from(list("中文，。 \n`*_#|-👨‍👩‍👧‍👦🇨🇳é\u0301\u200d"))
)


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        (
            "**重点** [x](https://example.com) `code`",
            "重点 x (https://example.com) code",
        ),
        ("# 标题\n\n正文", "标题\n\n正文"),
        ("**注意：**内容", "注意：内容"),
        ("- a\n- b\n  - c\n  - d\n- e", "• a\n• b\n  ◦ c\n  ◦ d\n• e"),
        ("3. x\n4. y\n\n   more", "3. x\n4. y\n  more"),
        ("| a | b |\n|---|---|\n| 1 | **2** |", "a | b\n1 | 2"),
        ("```py\nif a[b[0]]>5:\n    x\n```", "if a[b[0]]>5:\n    x"),
        ("> 引用\n> 第二行", "> 引用\n> 第二行"),
        ("a\n\n---\n\nb", "a\n\n————————\n\nb"),
        ("<https://e.com> and [https://e.com](https://e.com)", "https://e.com and https://e.com"),
        ("![cat](https://e.com/c.png)", "cat (https://e.com/c.png)"),
        ("<b>raw</b> & <script>", "<b>raw</b> & <script>"),
        ("~~gone~~ *it*", "gone it"),
        ("bell \x07 and \x00 nul", "bell  and  nul"),
        ("1 * 2 * 3 = 6 and a_b_c", "1 * 2 * 3 = 6 and a_b_c"),
        ("***", "————————"),
        ("", ""),
    ],
)
def test_marks_are_taken_off_and_structure_stays(markdown: str, shown: str) -> None:
    assert render(markdown) == shown


def test_an_app_keeps_the_marks_that_wecom_knows() -> None:
    source = "# T\n\n**b** `c` [x](https://e.com)\n\n- a"
    assert render_app(source, "markdown") == "# T\n\n**b** `c` [x](https://e.com)\n\n• a"
    assert render_app(source, "text") == "T\n\nb c x (https://e.com)\n\n• a"


@given(WORDS)
def test_rendering_never_fails_and_leaves_nothing_that_xml_forbids(markdown: str) -> None:
    shown = render(markdown)
    assert shown == clean(shown)


@given(user=st.text(min_size=1), text=st.text())
def test_a_reply_is_well_formed_whatever_the_model_wrote(user: str, text: str) -> None:
    xml = passive_xml(to_user=user, from_user="gh_1", text=text, at_s=1)
    root = ET.fromstring(xml)  # noqa: S314 - our own answer
    content = clean(text).replace("\r\n", "\n").replace("\r", "\n")
    assert root.findtext("Content") == content
    assert [child.tag for child in root].count("Content") == 1


def test_a_reply_cannot_be_given_tags_by_its_text() -> None:
    evil = "x]]></Content><MsgType><![CDATA[image]]></MsgType><Content><![CDATA["
    root = ET.fromstring(passive_xml(to_user="u", from_user="g", text=evil, at_s=1))  # noqa: S314
    assert root.findtext("Content") == evil
    assert root.findtext("MsgType") == "text"


@pytest.mark.parametrize("text", ["中文", "english"])
def test_a_hint_fits_into_the_room_that_is_kept_for_it(text: str) -> None:
    for hinted in (hint_rest(text), hint_newer(text)):
        assert size(hinted) - size(text) <= HINT_BYTES


# -- cutting by bytes ------------------------------------------------------------------------------


def squeezed(text: str) -> str:
    return "".join(text.split())


@settings(max_examples=200)
@given(text=WORDS, limit=st.integers(40, 300))
def test_parts_are_within_the_limit_and_say_the_whole_text(text: str, limit: int) -> None:
    parts = split(text, limit, size)
    assert all(size(part) <= limit for part in parts)
    if "```" not in text and "~~~" not in text:
        assert squeezed("".join(parts)) == squeezed(text)


@settings(max_examples=200)
@given(text=WORDS, limit=st.integers(40, 300))
def test_there_are_not_many_more_parts_than_bytes_ask_for(text: str, limit: int) -> None:
    if "```" in text or "~~~" in text:
        return
    parts = split(text, limit, size)
    assert len(parts) <= 2 + size(text) // (limit // 4)


def test_700_chinese_characters_are_cut_between_two_of_them() -> None:
    text = "字" * 700
    parts = split(text, MAX_SIZE, measure)
    assert [size(render(part)) <= TEXT_LIMIT_BYTES for part in parts] == [True, True]
    assert "".join(parts) == text


def test_a_family_a_flag_and_an_accent_are_never_torn() -> None:
    for cluster in ("👨‍👩‍👧‍👦", "🇨🇳", "e\u0301", "👍🏽"):
        text = "x" + cluster * 60
        parts = split(text, 101, size)
        assert "".join(parts) == text
        assert all(part.removeprefix("x").startswith(cluster) for part in parts)


def test_a_fence_that_is_cut_is_closed_and_opened_again() -> None:
    code = "\n".join(f"line {number} = value[{number}]" for number in range(200))
    parts = split(f"look:\n\n```py\n{code}\n```\n\nend", MAX_SIZE, measure)
    assert len(parts) > 1
    shown = "\n".join(render(part) for part in parts)
    assert squeezed(shown) == squeezed(f"look: {code} end")


def test_far_too_long_texts_are_measured_without_being_rendered() -> None:
    text = "**长**" * 20_000
    assert measure(text) == size(text)


# -- bots ------------------------------------------------------------------------------------------


@given(text=WORDS, progress=st.text(max_size=2000))
def test_a_bots_text_and_progress_fit_into_a_stream(text: str, progress: str) -> None:
    whole = (text * (1 + 20_000 // (len(text.encode()) + 1)))[:6_000]
    assert len(render_bot(whole, progress).encode()) <= max(BOT_LIMIT_BYTES, measure_bot(whole))
