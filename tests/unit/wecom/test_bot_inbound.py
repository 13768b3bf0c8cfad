"""What an AI bot's callback means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wecom.bot_inbound import (
    BotFacts,
    BotRoute,
    parse_callback,
    stream_id,
    without_mention,
)
from clawbot.messages import ChatType, Ignored, InboundMessage

FACTS = BotFacts(channel="bot", bot_id="aib1", bot_name="RobotA")


def body(kind: str = "text", content: Any = None, **more: Any) -> dict[str, Any]:
    told = {"content": content} if isinstance(content, str) else content
    head = {"msgid": "M1", "aibotid": "aib1", "chattype": "single", "from": {"userid": "alice"}}
    return {**head, "msgtype": kind, kind: told, **more}


def group(kind: str = "text", content: Any = None, **more: Any) -> dict[str, Any]:
    return body(kind, content, chattype="group", chatid="wr1", **more)


def message(payload: dict[str, Any]) -> InboundMessage:
    found = parse_callback(payload, FACTS, "req-1")
    assert isinstance(found, InboundMessage), found
    return found


def test_a_single_chat_is_named_by_the_person() -> None:
    found = message(body("text", "hello", response_url="https://e.com/r"))
    assert (found.chat_id, found.chat_type, found.text) == ("alice", ChatType.DM, "hello")
    assert found.identity == "M1"
    assert BotRoute.decode(found.reply_token) == BotRoute(
        stream=stream_id("M1"), request="req-1", url="https://e.com/r", sender="alice"
    )


def test_a_group_message_speaks_to_the_bot() -> None:
    found = message(group("text", "@RobotA hello"))
    assert (found.chat_id, found.chat_type, found.mentioned) == ("wr1", ChatType.GROUP, True)
    assert found.text == found.command_text == "hello"


@pytest.mark.parametrize(
    ("text", "bot_name", "left"),
    [
        ("@RobotA hi", "RobotA", "hi"),
        ("hi @RobotA", "RobotA", "hi"),
        ("＠RobotA 帮助", "RobotA", "帮助"),
        ("@RobotA帮助", "RobotA", "帮助"),
        ("@RobotA\u2005/new", "RobotA", "/new"),
        ("@RobotA2 hi @RobotA", "RobotA", "@RobotA2 hi"),
        ("@RobotA-x hi", "RobotA", "@RobotA-x hi"),
        ("@Claude Code /list", "Claude Code", "/list"),
        ("@小助手 你好", "小助手", "你好"),
        ("@小助手二号 你好", "小助手", "@小助手二号 你好"),
        ("@.* hi", ".*", "hi"),
        ("mail me@RobotA hi", "RobotA", "mail me@RobotA hi"),
        ("你好@RobotA hi", "RobotA", "你好 hi"),
        ("@someone /new", "", "/new"),
        ("line one\n@RobotA line two", "RobotA", "line one\n line two"),
        ("@RobotA", "RobotA", ""),
    ],
)
def test_only_the_bots_own_mention_is_cut(text: str, bot_name: str, left: str) -> None:
    assert without_mention(text, bot_name) == left


def test_a_persons_mark_in_a_single_chat_is_kept() -> None:
    assert message(body("text", "@RobotA is your name")).text == "@RobotA is your name"


def test_text_and_picture_of_a_mixed_message_are_both_there() -> None:
    items = [
        {"msgtype": "text", "text": {"content": "@RobotA 这是什么"}},
        {"msgtype": "image", "image": {"url": "https://e.com/i", "aeskey": "k"}},
    ]
    found = message(group("mixed", {"msg_item": items}))
    assert found.text == "这是什么\n[image]"
    assert found.attachments[0].source == '{"url":"https://e.com/i","aeskey":"k"}'
    assert found.command_text == "这是什么"


def test_a_quote_stands_before_the_words_and_is_no_command() -> None:
    quote = {
        "msgtype": "mixed",
        "mixed": {
            "msg_item": [
                {"msgtype": "text", "text": {"content": "/stop all\n看图"}},
                {"msgtype": "image", "image": {"url": "https://e.com/q"}},
            ]
        },
    }
    found = message(group("text", "@RobotA 图里是什么", quote=quote))
    assert found.text == "> /stop all\n> 看图\n> [image]\n\n图里是什么"
    assert found.command_text == "图里是什么"


def test_recognised_speech_is_text_and_a_file_has_its_name() -> None:
    assert message(body("voice", "早上好")).text == "早上好"
    found = message(body("file", {"url": "https://e.com/f", "aeskey": "k", "name": "report.pdf"}))
    assert (found.text, found.attachments[0].name) == ("[file: report.pdf]", "report.pdf")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (body("event", {"eventtype": "enter_chat"}), "enter_chat"),
        (body("event", {"eventtype": "template_card_event"}), "template_card_event"),
        (body("event", {}), "event"),
        (body("stream", {"id": "S"}), "stream"),
        (body("hologram", {"x": 1}), "unsupported:hologram"),
        (group("text", "@RobotA"), "empty"),
        (body("text", "  "), "empty"),
        (body("text", "x", aibotid="aib2"), "foreign_bot"),
        (body("text", "x", msgid=""), "malformed"),
        ({}, "malformed"),
        ({"msgtype": ["text"], "from": "alice"}, "malformed"),
    ],
)
def test_what_nobody_said_is_no_message(payload: dict[str, Any], reason: str) -> None:
    assert parse_callback(payload, FACTS) == Ignored(reason=reason)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["msgtype", "text", "mixed", "msg_item", "quote", "from", "msgid", "content"]
                ),
                inner,
            )
        ),
        max_leaves=12,
    )
)
def test_no_body_raises(value: Any) -> None:
    parse_callback(body("mixed", value, quote=value, text=value), FACTS)
    parse_callback(value if isinstance(value, dict) else {}, FACTS)


@given(st.builds(BotRoute, stream=st.text(), request=st.text(), url=st.text(), sender=st.text()))
def test_a_route_is_read_as_it_was_written(route: BotRoute) -> None:
    assert BotRoute.decode(route.encode()) == route


@pytest.mark.parametrize("token", [None, "", "junk", "[]", '{"stream": 7}'])
def test_a_route_of_another_kind_is_empty(token: str | None) -> None:
    assert BotRoute.decode(token) == BotRoute(stream="")
