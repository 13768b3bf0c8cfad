"""Buttons as elements of a card, and what a press of one means."""

from __future__ import annotations

import json
from typing import Any

from adapters.feishu.buttons import answer_to_press, buttons_of, old_press
from adapters.feishu.inbound import parse_event
from adapters.feishu.references import Asked
from clawbot.messages import (
    Accepted,
    ChatType,
    Choice,
    Ignored,
    InboundMessage,
    OutboundPart,
    ReplyRoute,
)
from tests.unit.feishu.events import FACTS

VOTES = (
    Choice(label="Approve", command="/approve ab12"),
    Choice(label="Deny", command="/deny ab12"),
)


def question(*choices: Choice, **route: Any) -> OutboundPart:
    where = ReplyRoute(**{"chat_id": "oc_1", "token": "om_1", **route})
    return OutboundPart(
        channel="feishu", route=where, key="k", part_no=0, text="May I?", choices=choices
    )


def values(part: OutboundPart) -> list[Any]:
    row = buttons_of(part)
    assert row is not None
    buttons = [column["elements"][0] for column in row["columns"]]
    return [button["behaviors"][0]["value"] for button in buttons]


def press(value: Any, chat: str = "oc_1", **event: Any) -> dict[str, Any]:
    return {
        "schema": "2.0",
        "header": {
            "event_id": "ev1",
            "event_type": "card.action.trigger",
            "token": "secret-token",
            "app_id": "cli_1",
        },
        "event": {
            "operator": {"open_id": "ou_alice", "user_id": "u1"},
            "token": "c-1",
            "action": {"value": value, "tag": "button"},
            "context": {"open_message_id": "om_q", "open_chat_id": chat},
            **event,
        },
    }


def parsed(payload: dict[str, Any]) -> InboundMessage:
    found = parse_event(payload, FACTS)
    assert isinstance(found, InboundMessage), found
    return found


def test_a_press_in_a_group_is_the_command_of_who_pressed() -> None:
    value = values(question(*VOTES))[0]
    message = parsed(press(value))
    assert (message.text, message.command_text) == ("/approve ab12", "/approve ab12")
    assert (message.sender.id, message.sender.name) == ("ou_alice", "Alice")
    assert (message.chat_id, message.chat_type) == ("oc_1", ChatType.GROUP)
    assert (message.thread, message.reply_to, message.mentioned) == (None, "om_q", True)
    assert "secret-token" not in message.raw
    assert "c-1" not in message.raw
    again = press(value)
    again["header"]["event_id"] = "ev2"
    assert parsed(again).identity == message.identity


def test_a_press_stands_where_its_question_stands() -> None:
    topic = question(*VOTES, thread="omt_1", reply_to="om_root")
    message = parsed(press(values(topic)[1]))
    assert (message.text, message.thread, message.reply_to) == ("/deny ab12", "omt_1", "om_root")
    token = Asked(message_id="om_1", is_direct=True).encode()
    direct = parsed(press(values(question(*VOTES, token=token))[0]))
    assert (direct.chat_type, direct.reply_to) == (ChatType.DM, None)
    assert Asked.decode(direct.reply_token) == Asked(message_id="om_q", is_direct=True)


def test_what_is_no_press_of_ours_is_nothing() -> None:
    good = values(question(*VOTES))[0]
    ignored = Ignored(reason="card_action")
    for value in (None, 7, "x", {}, {"key": "approve"}, {**good, "clawbot": "rm -rf /"}):
        assert parse_event(press(value), FACTS) == ignored
    assert parse_event(press(good, chat="oc_other"), FACTS) == ignored
    assert parse_event(press(good, operator={}), FACTS) == ignored
    assert parse_event(press(good, action=None), FACTS) == ignored
    assert parsed(press(json.dumps(good))).text == "/approve ab12"  # old cards hold texts


def test_a_callback_of_the_old_kind_means_the_same() -> None:
    value = values(question(*VOTES))[0]
    body = {
        "open_id": "ou_alice",
        "open_message_id": "om_q",
        "open_chat_id": "oc_1",
        "token": "c-1",
        "action": {"value": value, "tag": "button"},
    }
    assert parsed(old_press(body)).identity == parsed(press(value)).identity


def test_the_presser_is_told_in_one_line_what_it_came_to() -> None:
    told = Accepted(inbox_id=1, decision="command", answer="Approved: `x`.\nMore", is_settled=True)
    toast = {"type": "success", "content": "Approved: x."}
    assert answer_to_press(told) == {"toast": toast}
    long = Accepted(inbox_id=1, decision="command", answer="é" * 500)
    (found,) = answer_to_press(long).values()
    assert (found["type"], len(found["content"])) == ("info", 120)
    assert answer_to_press(Accepted(inbox_id=None, decision="refused")) == {}
