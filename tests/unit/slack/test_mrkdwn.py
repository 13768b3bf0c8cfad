"""From Markdown to mrkdwn."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.slack.mrkdwn import TEXT_LIMIT_BYTES, render, render_short, size

TOKEN = re.compile(r"<([^>]*)>")


@pytest.mark.parametrize(
    ("markdown", "mrkdwn"),
    [
        ("plain & <b>simple</b>", "plain &amp; &lt;b&gt;simple&lt;/b&gt;"),
        ("**bold** *it* _it_ ~~gone~~ `a < b`", "*bold* _it_ _it_ ~gone~ `a &lt; b`"),
        ("***both*** **a *b* c** **x **y** z**", "_*both*_ *a _b_ c* *x y z*"),
        ("**two\nlines**", "*two*\n*lines*"),
        ("# Title with **bold**\n\ntext", "*Title with bold*\n\ntext"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
        ("- a\n- b\n  - c\n\n1. x\n2. y", "• a\n• b\n    ◦ c\n\n1. x\n2. y"),
        ("3. c\n4. d", "3. c\n4. d"),
        ("1. a\n\n   more\n2. b", "1. a\n   more\n2. b"),
        ("> quoted\n> > twice\n\nmine", "> quoted\n> \n> twice\n\nmine"),
        ("a\n\n---\n\nb", "a\n\n────────────\n\nb"),
        ("[the page](https://example.com/?a=1&b=2)", "<https://example.com/?a=1&amp;b=2|the page>"),
        ("<https://example.com>", "<https://example.com>"),
        ("[a|b > c](https://example.com/x|y)", "<https://example.com/x%7Cy|a|b &gt; c>"),
        ("[mail](mailto:bob@example.com)", "<mailto:bob@example.com|mail>"),
        ("[guide](docs/guide.md)", "guide (docs/guide.md)"),
        ("![chart](https://example.com/c.png)", "<https://example.com/c.png|chart>"),
        ("", ""),
        ("[x]: https://example.com", "[x]: https://example.com"),
    ],
)
def test_markdown_reads_as_slack_writes_it(markdown: str, mrkdwn: str) -> None:
    assert render(markdown).replace("\u200b", "") == mrkdwn.replace("\u200b", "")


@pytest.mark.parametrize(
    ("markdown", "mrkdwn"),
    [
        ("这是**重点**内容", "这是\u200b*重点*\u200b内容"),
        ("**注意：**看这里", "*注意：*\u200b看这里"),
        ("请看“**重点**”。", "请看“\u200b*重点*\u200b”。"),
        ("运行`make`吧", "运行\u200b`make`\u200b吧"),
        ("**a**b", "*a*\u200bb"),
        ("a **b** c", "a *b* c"),
        ("(**b**)", "(*b*)"),
    ],
)
def test_marks_beside_letters_are_kept_apart_so_that_slack_sees_them(
    markdown: str, mrkdwn: str
) -> None:
    assert render(markdown) == mrkdwn


def test_code_is_kept_to_the_character() -> None:
    code = "def f(x):\n    return x < 3 and **x**\n\n\tend"
    assert render(f"```python\n{code}\n```") == f"```\n{code.replace('<', '&lt;')}\n```"
    assert "\u00a0" not in render("    indented  code")


def test_an_unfinished_fence_of_a_growing_reply_is_shown_closed() -> None:
    assert render("see:\n```sh\nls -l") == "see:\n\n```\nls -l\n```"


def test_a_fence_inside_code_cannot_end_the_block() -> None:
    assert render("````\n```\nx\n```\n````").count("```") == 2


def test_a_table_becomes_aligned_text() -> None:
    table = "| name | 数量 |\n|---|---|\n| a & b | **1** |\n| 中文 | 22 |"
    assert render(table) == ("```\nname  | 数量\n------+-----\na &amp; b | 1\n中文  | 22\n```")


@pytest.mark.parametrize(
    "markdown",
    [
        "<!channel> <!here> <!everyone|x> <@U1> <#C1> <!subteam^S1>",
        "[x](!channel) [y](@U1) [z](<!here>) ![i](!everyone)",
        "<!channel",
        "`<!channel>` and\n\n```\n<@U1>\n```",
        "[<!channel>](https://example.com)",
        "&lt;!channel&gt; \\<!channel\\>",
        "| <!channel> |\n|---|\n| <@U1> |",
    ],
)
def test_nothing_that_the_model_writes_notifies_anybody(markdown: str) -> None:
    assert not re.search(r"<[!@#]", render(markdown))


@given(st.text(alphabet="ab*_~`<>!@#&[]()|\\ \n-0.:重，htps/", max_size=60))
def test_every_token_in_the_result_is_an_address(markdown: str) -> None:
    for token in TOKEN.findall(re.sub(r"(?m)^>", "", render(markdown))):
        assert re.match(r"(?:https?://|mailto:|tel:)", token, re.IGNORECASE)


@given(st.text(alphabet="ab龙&<`\n *_[](https://x)", min_size=3000, max_size=6000))
def test_a_short_form_is_within_the_limit_and_tears_nothing(markdown: str) -> None:
    text = render_short(markdown)
    assert size(text) <= TEXT_LIMIT_BYTES
    assert not re.search(r"&(?!amp;|lt;|gt;)", text)
    assert not re.search(r"<[^>\n]*$", text.removesuffix("\n…"))


def test_code_that_is_cut_is_closed() -> None:
    text = render_short("```\n" + "line of code\n" * 500 + "```")
    assert text.count("```") == 2
    assert text.endswith("\n```\n…")
