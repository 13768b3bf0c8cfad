"""Cards as text, in each of the shapes in which they come."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.feishu.cards import MAX_CHARS, is_degraded, read_card

V2 = {
    "schema": "2.0",
    "header": {"title": {"tag": "plain_text", "content": "Alert"}},
    "body": {
        "elements": [
            {"tag": "markdown", "content": "CPU **91%**"},
            {
                "tag": "column_set",
                "columns": [
                    {"tag": "column", "elements": [{"tag": "markdown", "content": "left"}]},
                    {"tag": "column", "elements": [{"tag": "markdown", "content": "right"}]},
                ],
            },
            {"tag": "button", "text": {"tag": "plain_text", "content": "Fix"}},
        ]
    },
}
TABLE = {
    "tag": "table",
    "columns": [{"name": "a", "display_name": "Host"}, {"name": "b"}],
    "rows": [{"a": "web-1", "b": 3}, {"a": [{"text": "tag"}], "b": None}],
}


@pytest.mark.parametrize(
    ("card", "text"),
    [
        (V2, "Alert\nCPU **91%**\nleft\nright\n[Fix]"),
        ({"user_dsl": json.dumps(V2)}, "Alert\nCPU **91%**\nleft\nright\n[Fix]"),
        ({"card": V2}, "Alert\nCPU **91%**\nleft\nright\n[Fix]"),
        (
            {
                "header": {"title": {"content": "Old"}},
                "elements": [
                    {"tag": "div", "text": {"tag": "lark_md", "content": "body"}},
                    {
                        "tag": "div",
                        "fields": [{"text": {"content": "one"}}, {"text": {"content": "two"}}],
                    },
                    {"tag": "note", "elements": [{"tag": "plain_text", "content": "small"}]},
                    {"tag": "action", "actions": [{"tag": "button", "text": {"content": "Go"}}]},
                    {"tag": "img", "img_key": "k"},
                    {"tag": "hr"},
                ],
            },
            "Old\nbody\none\ntwo\nsmall\n[Go]\n[image]\n---",
        ),
        (
            {
                "title": "Drawn",
                "elements": [[{"tag": "text", "text": "a"}, {"tag": "text", "text": "b"}]],
            },
            "Drawn\na b",
        ),
        ({"i18n_elements": {"zh_cn": [{"tag": "markdown", "content": "你好"}]}}, "你好"),
        ({"elements": [TABLE]}, "Host | b\nweb-1 | 3\ntag | "),
        ({"elements": [[{"tag": "a", "text": "x", "href": "https://e.x"}]]}, "x (https://e.x)"),
        ({}, ""),
        ({"user_dsl": "no json"}, ""),
    ],
)
def test_a_card_reads_from_top_to_bottom(card: dict[str, Any], text: str) -> None:
    assert read_card(card).split() == text.split()


@pytest.mark.parametrize(
    "line",
    ["请升级至最新版本客户端，以查看内容", "Please upgrade to the latest version of Feishu"],
)
def test_the_line_that_asks_for_an_upgrade_is_not_read(line: str) -> None:
    assert is_degraded(line)
    assert read_card({"elements": [[{"tag": "text", "text": line}]]}) == ""


def test_a_card_is_read_up_to_a_length_and_a_depth() -> None:
    assert len(read_card({"elements": [{"tag": "markdown", "content": "x" * 50_000}]})) == MAX_CHARS
    deep: Any = {"tag": "markdown", "content": "deep"}
    for _ in range(1_000):
        deep = {"elements": [deep]}
    assert read_card(deep) == ""
