"""What Feishu refuses of a card with buttons, and of an answer to a press."""

import json
from typing import Any

import pytest

from tests.simulators.feishu.api_error import ApiError
from tests.simulators.feishu.callbacks import problem_of
from tests.simulators.feishu.cards import buttons_on, parse_card


def button(**fields: Any) -> dict[str, Any]:
    own = {
        "tag": "button",
        "text": {"tag": "plain_text", "content": "Yes"},
        "behaviors": [{"type": "callback", "value": {"a": 1}}],
    }
    return own | fields


def row(*elements: dict[str, Any]) -> dict[str, Any]:
    return {"tag": "column_set", "columns": [{"tag": "column", "elements": list(elements)}]}


def card(*elements: dict[str, Any]) -> dict[str, Any]:
    return {"schema": "2.0", "body": {"elements": list(elements)}}


def test_buttons_are_found_wherever_they_stand() -> None:
    whole = card({"tag": "markdown", "content": "?"}, row(button()), button(text=_text("No")))
    assert parse_card(json.dumps(whole)) == whole
    assert buttons_on(whole) == [("Yes", {"a": 1}), ("No", {"a": 1})]


def _text(words: str) -> dict[str, str]:
    return {"tag": "plain_text", "content": words}


@pytest.mark.parametrize(
    "element",
    [
        {"tag": "action", "actions": [button()]},
        button(behaviors=[]),
        button(behaviors=[{"type": "callback"}]),
        button(behaviors=[{"type": "call"}]),
        button(text=_text("")),
        button(text="Yes"),
        button(element_id="1st"),
        {"tag": "column_set", "columns": [button()]},
        {"tag": "column_set", "columns": []},
        {"tag": "markdown"},
        row(row(row(row(row(row(button())))))),
    ],
)
def test_a_card_that_feishu_would_not_draw_is_refused(element: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        parse_card(json.dumps(card(element)))
    assert refused.value.code == 230099


def test_an_id_stands_on_a_card_once() -> None:
    with pytest.raises(ApiError):
        parse_card(json.dumps(card(button(element_id="b"), button(element_id="b"))))


def test_an_answer_to_a_press_is_a_toast_or_a_card() -> None:
    good = card({"tag": "markdown", "content": "done"})
    toast = {"type": "success", "content": "Done"}
    for answer in ({}, {"toast": toast}, {"card": {"type": "raw", "data": good}}):
        assert problem_of(answer) == ""
    bad: list[Any] = [
        None,
        [],
        good,
        {"toast": "Done"},
        {"toast": {**toast, "type": "loud"}},
        {"toast": {"type": "info", "content": ""}},
        {"card": good},
        {"card": {"type": "raw", "data": {"schema": "1.0"}}},
    ]
    assert all(problem_of(answer) for answer in bad)
