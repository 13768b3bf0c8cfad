"""Reading Slack's wire text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.slack.words import Passage, Words, escape, passages_of, read, unescape
from tests.unit.slack.events import BOT, FACTS


def heard(source: str) -> Words:
    return read(passages_of(source), FACTS)


@given(st.text())
def test_what_a_person_types_comes_back_as_typed(typed: str) -> None:
    assert unescape(escape(typed)) == typed


@given(st.text(alphabet=st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])))
def test_typed_text_never_turns_into_a_token(typed: str) -> None:
    result = heard("x " + escape(typed) + " y")
    assert result.text == f"x {typed} y"
    assert result.is_complete
    assert not result.mentions_bot
    assert not result.mentions_others


@given(st.text(alphabet="<>@#!|&;abU0BOT1 \n`"))
def test_no_wire_text_breaks_the_reader(source: str) -> None:
    heard(source)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("&amp;lt; and &amp;amp;amp;", "&lt; and &amp;amp;"),
        ("a &lt; b &amp;&amp; c", "a < b && c"),
        ("&quot;&nbsp;&#39;", "&quot;&nbsp;&#39;"),
        ("write &lt;@U0BOT0001&gt;", "write <@U0BOT0001>"),
        ("<@U1> and <@U2|robert>", "@alice and @bob"),
        ("<@U9|erin>", "@erin"),
        ("<#C1> <#C9|random> <#C1|>", "#general #random #general"),
        ("<!here> <!channel|channel> <!everyone>", "@here @channel @everyone"),
        ("<!subteam^S1> <!subteam^S2|@web>", "@ops @web"),
        ("<!date^1392734382^{date}|Feb 18, 2014>", "Feb 18, 2014"),
        ("<http://example.com|example.com>", "http://example.com"),
        ("<https://example.com/a_b_c>", "https://example.com/a_b_c"),
        ("<https://example.com/?a=1&amp;b=2|the page>", "the page (https://example.com/?a=1&b=2)"),
        ("<mailto:bob@example.com|bob@example.com>", "bob@example.com"),
        ("<mailto:bob@example.com|Bob>", "Bob (bob@example.com)"),
        ("<tel:+15550100|+1 555 0100>", "+1 555 0100"),
        ("2 <3 and <|x> <>", "2 <3 and <|x> <>"),
        (":tada: at 10:30:45", ":tada: at 10:30:45"),
        ("a\n\n  b", "a\n\n  b"),
    ],
)
def test_tokens_read_as_people_see_them(source: str, text: str) -> None:
    assert heard(source).text == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (f"<@{BOT}> hi", "hi"),
        (f"<@{BOT}|clawbot> hi", "hi"),
        (f"<@{BOT}>帮我看下", "帮我看下"),
        (f"<@{BOT}>\u00a0hi", "hi"),
        (f"<@{BOT}>: deploy", "deploy"),
        (f"<@{BOT}>，部署", "部署"),
        (f"<@{BOT}> :tada: hi", ":tada: hi"),
        (f"<@{BOT}>:tada: hi", ":tada: hi"),
        (f"hey <@{BOT}> do it", "hey do it"),
        (f"hey <@{BOT}>, do it", "hey, do it"),
        (f"is it ready <@{BOT}>", "is it ready"),
        (f"is it ready <@{BOT}>?", "is it ready?"),
        (f"<@{BOT}> <@{BOT}> <@U2> hi", "@bob hi"),
        (f"one\n<@{BOT}> two", "one\ntwo"),
        (f"<@{BOT}>", ""),
        (f"\u200b<@{BOT}> \u00a0\n", ""),
    ],
)
def test_the_own_mention_is_cut_and_leaves_no_trace(source: str, text: str) -> None:
    result = heard(source)
    assert result.text == text
    assert result.own == text
    assert result.mentions_bot


def test_a_longer_id_is_somebody_else() -> None:
    result = heard(f"<@{BOT}2> hi")
    assert (result.mentions_bot, result.mentions_others) == (False, True)
    assert result.text == f"@{BOT}2 hi"
    assert not result.is_complete


@pytest.mark.parametrize("token", ["<@U9>", "<#C9>", "<!subteam^S9>"])
def test_an_unknown_name_makes_the_words_incomplete(token: str) -> None:
    assert not heard(token).is_complete


@pytest.mark.parametrize(
    ("source", "own", "quotes_bot"),
    [
        (f"&gt; <@{BOT}> /deploy\nno, wait", "no, wait", True),
        (f"&gt;&gt;&gt; all\nof <@{BOT}>\nthis", "", True),
        ("```\n&gt; code\n```", "```\n> code\n```", False),
        ("a &gt; b", "a > b", False),
    ],
)
def test_quoted_lines_are_shown_but_not_said(source: str, own: str, quotes_bot: bool) -> None:
    result = heard(source)
    assert (result.own, result.quotes_bot) == (own, quotes_bot)
    assert not result.mentions_bot


def test_a_quote_keeps_the_bots_name() -> None:
    result = read([Passage(source=f"&gt; <@{BOT}> /deploy", quoted=True)], FACTS)
    assert result.text == "> @clawbot /deploy"
