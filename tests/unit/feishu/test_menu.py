"""What a press in the bot's menu means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adapters.feishu.facts import Facts
from adapters.feishu.inbound import parse_event
from adapters.feishu.menu import direct_chat_of
from clawbot.messages import ChatType, InboundMessage
from tests.unit.feishu.events import FACTS, payload, reason_of

MENU = {"new": "/new", "joke": "Tell me a joke", "empty": " "}
KNOWN = replace(FACTS, direct_chats={"ou_alice": "oc_1"}, menu=MENU)


def chosen(key: Any) -> dict[str, Any]:
    ids = {"open_id": "ou_alice", "union_id": "on_alice", "user_id": ""}
    return {
        "schema": "2.0",
        "header": {
            "event_id": "ev1",
            "event_type": "application.bot.menu_v6",
            "create_time": "1717000060000",
            "token": "secret-token",
            "app_id": "cli_1",
        },
        "event": {
            "operator": {"operator_name": "Alice", "operator_id": ids},
            "event_key": key,
            "timestamp": 1717000060,
        },
    }


def parsed(key: str, facts: Facts = KNOWN) -> InboundMessage:
    found = parse_event(chosen(key), facts)
    assert isinstance(found, InboundMessage), found
    return found


def test_an_entry_is_what_the_config_says_in_the_direct_chat() -> None:
    command = parsed("new")
    assert (command.text, command.command_text, command.chat_id) == ("/new", "/new", "oc_1")
    assert (command.chat_type, command.sender.id) == (ChatType.DM, "ou_alice")
    assert "secret-token" not in command.raw
    words = parsed("joke")
    assert (words.text, words.command_text) == ("Tell me a joke", None)
    assert words.sender.name == "Alice"


def test_what_nobody_named_and_what_stands_nowhere_is_nothing() -> None:
    for key in ("other", "empty", "", None, 7):
        assert reason_of(chosen(key), KNOWN) == "menu"
    stranger = replace(KNOWN, direct_chats={})
    assert reason_of(chosen("new"), stranger) == "menu_without_chat"
    nobody = chosen("new")
    nobody["event"]["operator"] = None
    assert reason_of(nobody, KNOWN) == "menu"


def test_a_direct_chat_is_learned_from_its_messages_and_its_opening() -> None:
    assert direct_chat_of(payload()) == ("ou_alice", "oc_1")
    assert direct_chat_of(payload(chat_type="group")) is None
    opened = {
        "header": {"event_type": "im.chat.access_event.bot_p2p_chat_entered_v1"},
        "event": {"chat_id": "oc_2", "operator_id": {"open_id": "ou_bob"}},
    }
    assert direct_chat_of(opened) == ("ou_bob", "oc_2")
    assert direct_chat_of({"event": {"message": {"chat_type": "p2p"}}}) is None
