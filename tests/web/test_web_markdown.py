"""Answers as HTML: what is rendered, and that nothing foreign gets through."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.web.markdown import Renderer

RENDERER = Renderer()
REL = 'target="_blank" rel="noopener noreferrer nofollow"'


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("*a* **b** `c` ~~d~~", "<p><em>a</em> <strong>b</strong> <code>c</code> <s>d</s></p>"),
        ("one\ntwo", "<p>one<br>\ntwo</p>"),
        ("```py\nx < 1\n```", '<pre><code class="language-py">x &lt; 1\n</code></pre>'),
        ("[a](https://b.example)", f'<p><a href="https://b.example" {REL}>a</a></p>'),
        ("![a](https://b.example/c)", f'<p><a href="https://b.example/c" {REL}>a</a></p>'),
        ("[![a](https://b.example/c)](https://d.example)",
         f'<p><a href="https://d.example" {REL}>a</a></p>'),
    ],
)  # fmt: skip
def test_markdown_is_rendered(markdown: str, html: str) -> None:
    assert RENDERER.html(markdown) == html + "\n"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://a.example/b.", "https://a.example/b"),
        ("(https://a.example/b)", "https://a.example/b"),
        ("https://a.example/b_(c) d", "https://a.example/b_(c)"),
        ("见https://a.example/b。", "https://a.example/b"),
        ("https://a.example/a_b_c?x=1&y=2", "https://a.example/a_b_c?x=1&amp;y=2"),
    ],
)
def test_a_bare_address_becomes_a_link_without_what_follows_it(text: str, address: str) -> None:
    assert re.findall('href="([^"]*)"', RENDERER.html(text)) == [address]


def test_an_address_in_code_stays_text() -> None:
    assert "<a" not in RENDERER.html("`https://a.example`\n\n    https://b.example")


def test_a_table_keeps_its_alignment_without_styles() -> None:
    html = RENDERER.html("|a|b|\n|:-:|--:|\n|1|2|")
    assert '<td class="center">1</td>' in html
    assert '<td class="right">2</td>' in html
    assert "style" not in html


@pytest.mark.parametrize(
    "attack",
    [
        "<img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        "[a](javascript:alert(1))",
        "[a](JaVaScRiPt&colon;alert(1))",
        "<javascript:alert(1)>",
        "[a](data:text/html;base64,PHNjcmlwdD4=)",
        "![a](javascript:alert(1))",
        '[a](https://b.example "onmouseover=alert(1)")',
        '```"><img src=x onerror=alert(1)>\nx\n```',
        "<svg/onload=alert(1)>",
        "[a](/api/stop)",
        "<form action=/api/stop><button>press</button></form>",
    ],
)
def test_an_attack_is_text(attack: str) -> None:
    assert_clean(RENDERER.html(attack))


@given(st.text(alphabet=st.sampled_from("<>\"'`[]()!*_~|\\/:&#;= \nahrefjsx"), max_size=80))
def test_whatever_is_written_the_html_is_clean(markdown: str) -> None:
    assert_clean(RENDERER.html(markdown))


def assert_clean(html: str) -> None:
    """Only known tags with known attributes, and addresses that lead to other sites."""
    for tag in re.findall(r"<[^>]*>", html):
        assert re.fullmatch(
            r"</?(?:a|blockquote|br|code|del|em|h[1-6]|hr|li|ol|p|pre|s|strong|table|tbody|td|th"
            r'|thead|tr|ul)(?: (?:href="(?:https?|mailto):[^"]*"|title="[^"]*"|target="_blank"'
            r'|rel="noopener noreferrer nofollow"|class="[A-Za-z0-9+#._-]*"|start="\d+"))*>',
            tag,
        ), tag
