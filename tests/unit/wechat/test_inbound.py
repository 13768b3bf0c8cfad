"""What a callback's fields mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wechat.inbound import parse_message
from adapters.wecom import inbound as wecom
from clawbot.messages import ChatType, Ignored, InboundMessage

ALICE = "oAlice"


def parse(menu: dict[str, str] | None = None, **fields: Any) -> InboundMessage | Ignored:
    head = {"FromUserName": ALICE, "ToUserName": "gh_1", "CreateTime": "1717000000"}
    return parse_message(
        {"MsgId": "24000000000000001", **head, **fields},
        channel="wechat",
        raw="<xml/>",
        menu=menu or {},
    )


def message(**fields: Any) -> InboundMessage:
    found = parse(**fields)
    assert isinstance(found, InboundMessage), found
    return found


def reason(**fields: Any) -> str:
    found = parse(**fields)
    assert isinstance(found, Ignored), found
    return found.reason


def test_a_text_is_said_in_the_senders_own_chat() -> None:
    found = message(MsgType="text", Content="  第一行\n第二行 ")
    assert found.text == found.command_text == "第一行\n第二行"
    assert (found.chat_id, found.sender.id, found.chat_type) == (ALICE, ALICE, ChatType.DM)
    assert (found.identity, found.sent_at_ms) == ("oAlice/24000000000000001", 1_717_000_000_000)
    assert found.thread is None


def test_the_case_of_an_openid_is_kept() -> None:
    assert message(FromUserName="oABc", MsgType="text", Content="x").chat_id == "oABc"


@pytest.mark.parametrize(
    ("fields", "words", "kind"),
    [
        ({"MsgType": "image", "MediaId": "m", "PicUrl": "http://p"}, "[image]", "image"),
        ({"MsgType": "voice", "MediaId": "m", "Format": "amr"}, "[voice message]", "audio"),
        ({"MsgType": "video", "MediaId": "m", "ThumbMediaId": "t"}, "[video]", "video"),
        ({"MsgType": "shortvideo", "MediaId": "m"}, "[video]", "video"),
        (
            {"MsgType": "file", "MediaId": "m", "FileName": "a.pdf"},
            "[file: a.pdf]",
            "file",
        ),
    ],
)
def test_a_file_is_named_and_attached(fields: dict[str, str], words: str, kind: str) -> None:
    found = message(**fields)
    assert (found.text, found.attachments[0].kind) == (words, kind)
    assert (found.attachments[0].source, found.command_text) == ("m", None)


def test_recognised_speech_is_the_text_of_a_voice_message() -> None:
    found = message(MsgType="voice", MediaId="m", MediaId16K="m16", Recognition="停止")
    assert found.text == found.command_text == "停止"
    assert found.attachments[0].source == "m16"


def test_a_location_names_place_and_latitude_first() -> None:
    found = message(
        MsgType="location", Location_X="23.1", Location_Y="113.3", Label="位置", Poiname="塔"
    )
    assert found.text == "[location] 塔, 位置 (23.1, 113.3)"


def test_a_link_and_a_mini_program_page_show_what_they_hold() -> None:
    link = message(MsgType="link", Title="T", Description="D", Url="https://e.com")
    assert link.text == "[link]\nT\nD\nhttps://e.com"
    page = message(MsgType="miniprogrampage", Title="T", PagePath="pages/1")
    assert page.text == "[mini program]\nT\npages/1"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"MsgType": "text", "Content": ""}, "empty"),
        ({"MsgType": "text"}, "empty"),
        ({"MsgType": "text", "Content": "【收到不支持的消息类型，暂无法显示】"}, "unsupported"),
        ({"MsgType": "text", "Content": "[Unsupported Message]"}, "unsupported"),
        ({"MsgType": "hologram"}, "unsupported:hologram"),
        ({"MsgType": ""}, "malformed"),
        ({"MsgType": "text", "Content": "x", "FromUserName": ""}, "malformed"),
        ({"MsgType": "event", "Event": "subscribe", "EventKey": "qrscene_1"}, "subscribe"),
        ({"MsgType": "event", "Event": "LOCATION"}, "location"),
        ({"MsgType": "event", "Event": "TEMPLATESENDJOBFINISH"}, "templatesendjobfinish"),
        ({"MsgType": "event", "Event": "CLICK", "EventKey": "OTHER"}, "click"),
        ({"MsgType": "event"}, "malformed"),
    ],
)
def test_what_nobody_said_is_no_message(fields: dict[str, str], why: str) -> None:
    assert reason(**fields) == why


def test_a_person_may_speak_of_what_is_not_supported() -> None:
    assert message(MsgType="text", Content="[x] is not supported [y]?").text


def test_a_menu_click_says_what_the_config_maps_it_to() -> None:
    found = message(
        menu={"NEW": " /new "}, MsgType="event", Event="CLICK", EventKey="NEW", MsgId=""
    )
    assert found.text == found.command_text == "/new"
    assert found.identity == "oAlice/1717000000/click/NEW"


def test_an_events_msgid_of_another_thing_is_not_its_key() -> None:
    first = message(menu={"A": "a"}, MsgType="event", Event="CLICK", EventKey="A", CreateTime="1")
    second = message(menu={"A": "a"}, MsgType="event", Event="CLICK", EventKey="A", CreateTime="2")
    assert first.identity != second.identity


def test_texts_without_msgid_are_told_apart_by_what_they_say() -> None:
    same = [message(MsgType="text", Content="x", MsgId="").identity for _ in range(2)]
    other = message(MsgType="text", Content="y", MsgId="").identity
    assert same[0] == same[1] != other
    zero = message(MsgType="text", Content="x", MsgId="0").identity
    assert zero == same[0]


@pytest.mark.parametrize("word", ["1", "１", "more", "More", "继续"])
def test_a_word_may_only_ask_for_more(word: str) -> None:
    assert message(MsgType="text", Content=word).asks_for_more
    assert not message(MsgType="text", Content=f"{word}1").asks_for_more


def test_a_message_for_another_app_of_the_company_is_not_ours() -> None:
    fields = {"FromUserName": "alice", "MsgType": "text", "Content": "x", "MsgId": "1"}

    def told(agent: str) -> InboundMessage | Ignored:
        return wecom.parse_message(
            {**fields, "AgentID": agent}, channel="wecom", raw="", menu={}, agent_id=1000002
        )

    assert isinstance(told("1000002"), InboundMessage)
    assert told("1000003") == Ignored(reason="foreign_agent")


@given(
    st.dictionaries(
        st.sampled_from(
            ["MsgType", "Event", "EventKey", "Content", "MsgId", "CreateTime", "Label"]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=5,
        ),
    )
)
def test_no_field_of_any_type_raises(fields: dict[str, Any]) -> None:
    parse(**fields)
