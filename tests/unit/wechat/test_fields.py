"""Reading bodies: XML, JSON, and what is broken but can be known."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.wechat.fields import UnreadableBody, clean, read_body, text_field
from tests.simulators.wechat.pushing import to_xml


def xml(content: str, rest: str = "") -> str:
    return f"<xml><MsgType>text</MsgType>{content}{rest}<MsgId>1</MsgId></xml>"


@given(st.text())
def test_what_a_person_writes_is_read_as_it_was_written(text: str) -> None:
    text = clean(text).replace("\r\n", "\n").replace("\r", "\n")
    fields = read_body(to_xml({"MsgType": "text", "Content": text, "MsgId": "7"}))
    assert text_field(fields, "Content") == text
    assert text_field(fields, "MsgId") == "7"


@given(st.text())
def test_no_body_raises_anything_but_one_exception(body: str) -> None:
    try:
        read_body(body)
    except UnreadableBody:
        return


@pytest.mark.parametrize(
    ("body", "content"),
    [
        (xml("<Content>low &#2; ref</Content>"), "low  ref"),
        (xml("<Content>a &#x0B;&#65;</Content>"), "a A"),
        (xml("<Content>&#xD83D;&#xDE00; &#55357;&#56832; &#xD83D;x</Content>"), "😀 😀 x"),
        (xml("<Content><![CDATA[bell \x07 inside]]></Content>"), "bell  inside"),
        (xml("<Content><![CDATA[&#2; is text]]></Content>"), "&#2; is text"),
        (xml("<Content>fish & chips</Content>"), "fish & chips"),
        (xml("<Content>a < b &amp; c</Content>"), "a < b & c"),
        (xml("<Content><![CDATA[a]]>b]]></Content>"), "a]]>b"),
        ("\ufeff  " + xml("<Content>bom</Content>"), "bom"),
        (xml("<Content>one</Content><Content>two</Content>"), "one"),
        (xml("<Content a='1'>with attribute</Content>"), "with attribute"),
        (json.dumps({"MsgType": "text", "Content": "json", "MsgId": 2**60}), "json"),
        (json.dumps({"Content": "\udc00x\x00"}), "\ufffdx"),
    ],
)
def test_content_is_known_where_it_can_be(body: str, content: str) -> None:
    assert text_field(read_body(body), "Content") == content


def test_a_field_inside_a_text_is_no_field() -> None:
    forged = "</Content><MsgId>999</MsgId><FromUserName>other</FromUserName>"
    body = xml(f"<Content><![CDATA[{forged}]]></Content>", "<Bad>&</Bad>")
    fields = read_body(body)
    assert (text_field(fields, "MsgId"), text_field(fields, "FromUserName")) == ("1", "")
    assert text_field(fields, "Content") == forged


def test_a_field_that_is_cut_off_is_left_out() -> None:
    with pytest.raises(UnreadableBody):
        read_body("<xml><MsgType>text</MsgType><Content><![CDATA[half")


@pytest.mark.parametrize(
    "body",
    [
        '<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]><xml><Content>&e;</Content></xml>',
        '<?xml version="1.0"?>\n<!-- x --><!doctype r [<!ENTITY a "b">]><xml><A>&a;</A></xml>',
        "<xml/>",
        "hello",
        "{broken",
        "[1]",
        "",
    ],
)
def test_what_has_no_fields_is_refused(body: str) -> None:
    with pytest.raises(UnreadableBody):
        read_body(body)


def test_a_document_type_in_a_message_is_its_text() -> None:
    page = "<!DOCTYPE html><p>hi</p>"
    assert text_field(read_body(xml(f"<Content><![CDATA[{page}]]></Content>")), "Content") == page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (None, ""),
        (7, "7"),
        (True, ""),
        ({"#text": "y"}, "y"),
        ([None, "", "z"], "z"),
        ({"A": "1"}, ""),
    ],
)
def test_a_field_of_any_shape_reads_as_text(value: object, text: str) -> None:
    assert text_field({"F": value}, "F") == text
