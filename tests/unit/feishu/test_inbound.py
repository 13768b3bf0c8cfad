"""What the adapter makes of Feishu's payloads."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.feishu.facts import Facts, Identity
from adapters.feishu.inbound import chat_of, needs_chat, parse_event
from adapters.feishu.references import Asked
from clawbot.messages import ChatType, Ignored, InboundMessage
from tests.unit.feishu.events import (
    BOB,
    BOT,
    FACTS,
    ME,
    in_group,
    mention,
    parsed,
    payload,
    reason_of,
)

# -- mentions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("@_user_1 hello", "hello"),
        ("@_user_1, hello", "hello"),
        ("@_user_1：你好", "你好"),
        ("@_user_1\nhello", "hello"),
        ("  @_user_1   @_user_1 look", "look"),
        ("say @_user_1 now", "say now"),
        ("请@_user_1总结", "请总结"),
        ("are you there, @_user_1?", "are you there,?"),
        ("@_user_1 http://x.y", "http://x.y"),
        ("@_user_1 @_user_2 review", "@Bob review"),
        ("mail a.b@example.com @_user_1", "mail a.b@example.com"),
        ("one\n@_user_1 two", "one\ntwo"),
        ("    indented @_user_1", "indented"),
    ],
)
def test_our_own_mention_is_cut_and_others_are_named(text: str, shown: str) -> None:
    message = in_group(text, ME, BOB)
    assert message.text == shown
    assert message.mentioned


def test_a_longer_placeholder_is_not_eaten_by_a_shorter_one() -> None:
    ten = mention(10, "ou_ten", "Ten")
    assert (
        in_group("@_user_1 ask @_user_10 and @_user_11", ME, ten).text == "ask @Ten and @_user_11"
    )


@pytest.mark.parametrize("name", [".*", "$& x", "\\1", "<script>", "@_user_1", ""])
def test_a_name_is_literal_text(name: str) -> None:
    message = in_group("@_user_1 tell @_user_2 ok", ME, mention(2, "ou_x", name))
    assert message.text == f"tell @{name.lstrip('@') or 'ou_x'} ok"


def test_who_is_meant_is_decided_by_id_alone() -> None:
    assert not in_group("@_user_1 hi", mention(1, "ou_carl", "clawbot")).mentioned
    assert in_group("@_user_1 hi", {"key": "@_user_1", "id": BOT, "name": "any"}).mentioned


def test_an_unknown_own_id_mentions_nobody() -> None:
    facts = replace(FACTS, identity=Identity(app_id="cli_1"))
    event = payload("text", {"text": "@_user_1 hi"}, chat_type="group", mentions=[ME])
    message = parse_event(event, facts)
    assert isinstance(message, InboundMessage)
    assert not message.mentioned


@pytest.mark.parametrize("mentions", [[], [{"key": "@_all", "id": {}, "name": "所有人"}]])
def test_a_message_to_all_is_one_to_us_only_if_the_config_says_so(
    mentions: list[dict[str, Any]],
) -> None:
    said = payload("text", {"text": "@_all meeting"}, chat_type="group", mentions=mentions)
    quiet, loud = parse_event(said, FACTS), parse_event(said, replace(FACTS, answers_all=True))
    assert isinstance(quiet, InboundMessage)
    assert isinstance(loud, InboundMessage)
    assert (quiet.mentioned, loud.mentioned) == (False, True)
    assert quiet.text.endswith("meeting")
    assert not quiet.mentions_others


def test_a_word_that_begins_like_the_mention_of_all_stays() -> None:
    assert in_group("@_all_employees hi").text == "@_all_employees hi"


def test_a_placeholder_that_nobody_explains_stays() -> None:
    message = in_group("@_user_1 hi")
    assert (message.text, message.mentioned) == ("@_user_1 hi", False)


def test_plain_text_is_not_html_and_tags_that_people_type_mention_nobody() -> None:
    text = f'<at user_id="{BOT}">clawbot</at> a &amp; b <b>'
    message = in_group(text)
    assert (message.text, message.mentioned) == (text, False)


def test_somebody_else_alone_is_somebody_else() -> None:
    message = in_group("@_user_2 lunch?", BOB)
    assert (message.mentioned, message.mentions_others) == (False, True)


# -- posts -----------------------------------------------------------------------------------------


def test_a_post_is_text_with_code_links_and_pictures() -> None:
    content = {
        "title": "Report",
        "content": [
            [{"tag": "at", "user_id": "@_user_1"}, {"tag": "text", "text": " look at "}],
            [{"tag": "a", "text": "this", "href": "https://example.com"}],
            [{"tag": "img", "image_key": "img_1"}, {"tag": "emotion", "emoji_type": "OK"}],
            [
                {"tag": "text", "text": "before"},
                {"tag": "code_block", "language": "GO", "text": "x\n"},
            ],
            [{"tag": "hr"}],
            [{"tag": "media", "file_key": "file_1", "image_key": "img_2"}],
        ],
    }
    message = parsed("post", content, chat_type="group", mentions=[ME])
    assert message.text == (
        "Report\nlook at \nthis (https://example.com)\n[image][OK]\nbefore\n```go\nx\n```\n---\n[video]"
    )
    assert message.mentioned
    assert [(each.kind, each.source) for each in message.attachments] == [
        ("image", "om_1/image/img_1"),
        ("video", "om_1/file/file_1"),
    ]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda post: post,
        lambda post: {"zh_cn": post},
        lambda post: {"post": {"zh_cn": post}},
        lambda post: {"fr_fr": post},
        lambda post: {"en_us": {"title": "", "content": []}, "zh_cn": post},
        lambda post: {"title": "", "content": [], "content_v2": post["content"]},
    ],
)
def test_a_post_may_come_in_any_wrapping(wrap: Any) -> None:
    assert parsed("post", wrap({"content": [[{"tag": "text", "text": "words"}]]})).text == "words"


def test_a_mention_in_the_body_of_a_post_counts_without_a_list() -> None:
    nodes = [{"tag": "at", "user_id": BOT, "user_name": "clawbot"}, {"tag": "text", "text": " hi"}]
    message = parsed("post", {"content": [nodes]}, chat_type="group")
    assert (message.text, message.mentioned) == ("hi", True)


def test_markdown_of_newer_clients_is_kept_and_its_mentions_are_read() -> None:
    text = f'**bold** <at user_id="{BOT}">clawbot</at> and <at user_id="ou_b">Bob</at>'
    message = parsed("post", {"content": [[{"tag": "md", "text": text}]]}, chat_type="group")
    assert (message.text, message.mentioned) == ("**bold** and @Bob", True)


def test_a_picture_without_words_is_a_message() -> None:
    message = parsed("post", {"content": [[{"tag": "img", "image_key": "k"}]]})
    assert (message.text, len(message.attachments)) == ("[image]", 1)


def test_escaped_text_of_a_post_is_unescaped_only_where_it_says_so() -> None:
    nodes = [
        {"tag": "text", "text": "a&nbsp;&lt;b", "un_escape": True},
        {"tag": "text", "text": " &lt;"},
    ]
    assert parsed("post", {"content": [nodes]}).text == "a <b &lt;"


# -- other kinds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "content", "shown", "files"),
    [
        ("image", {"image_key": "k"}, "[image]", [("image", "om_1/image/k")]),
        (
            "file",
            {"file_key": "k", "file_name": "a.pdf"},
            "[file: a.pdf]",
            [("file", "om_1/file/k")],
        ),
        ("audio", {"file_key": "k", "duration": 2600}, "[audio, 3 s]", [("audio", "om_1/file/k")]),
        (
            "media",
            {"file_key": "k", "image_key": "thumb", "file_name": "v.mp4"},
            "[video: v.mp4]",
            [("video", "om_1/file/k")],
        ),
        ("sticker", {"file_key": "k"}, "[sticker]", []),
        ("share_chat", {"chat_id": "oc_9"}, "[shared group: oc_9]", []),
        ("share_user", {"user_id": "ou_alice"}, "[contact card: Alice]", []),
        (
            "location",
            {"name": "Square", "latitude": "1", "longitude": "2"},
            "[location: Square; 1, 2]",
            [],
        ),
        ("folder", {"file_name": "docs"}, "[folder: docs]", []),
        ("hongbao", {"text": "[红包]"}, "[red packet: [红包]]", []),
        ("vote", {"topic": "Lunch", "options": ["A", "B"]}, "[poll: Lunch; A, B]", []),
        (
            "todo",
            {"summary": {"title": "T", "content": [[{"tag": "text", "text": "do"}]]}},
            "[to-do: T\ndo]",
            [],
        ),
        ("video_chat", {"topic": "Weekly"}, "[video meeting: Weekly]", []),
        ("calendar", {"summary": "Sync"}, "[calendar event: Sync]", []),
        ("hologram", {"x": 1}, "[unsupported message: hologram]", []),
        ("hologram", "no json", "[unsupported message: hologram]", []),
        ("image", "[1]", "[image]", []),
    ],
)
def test_every_kind_is_shown(kind: str, content: Any, shown: str, files: list[Any]) -> None:
    message = parsed(kind, content)
    assert message.text == shown
    assert [(each.kind, each.source) for each in message.attachments] == files
    assert message.command_text is None


@pytest.mark.parametrize(
    "text", ["/stop", "／stop", "!stop", "@_user_1 /stop", "@_user_1\u00a0/stop"]
)
def test_words_may_be_a_command_wherever_a_mention_stood(text: str) -> None:
    message = in_group(text, ME)
    assert message.command_text is not None
    assert message.command_text.lstrip("/／!") == "stop"


def test_a_quote_is_shown_and_is_never_a_command() -> None:
    quoted = {"message_id": "om_0", "msg_type": "text", "body": {"content": '{"text": "/stop"}'}}
    quoted["sender"] = {"id": "ou_alice", "sender_type": "user"}
    facts = replace(FACTS, messages={"om_0": [quoted]})
    message = parse_event(
        payload("text", {"text": "why?"}, parent_id="om_0", root_id="om_0"), facts
    )
    assert isinstance(message, InboundMessage)
    assert message.text == "> quoted message of Alice:\n> /stop\n\nwhy?"
    assert (message.command_text, message.thread, message.is_incomplete) == ("why?", None, False)


def test_a_recalled_quote_and_one_that_cannot_be_had_leave_the_own_words() -> None:
    gone = {"message_id": "om_0", "msg_type": "text", "deleted": True, "body": {"content": ""}}
    for items, text in ([gone], "> quoted message:\n> [recalled message]\n\nwhy?"), ([], "why?"):
        facts = replace(FACTS, messages={"om_0": items})
        message = parse_event(payload("text", {"text": "why?"}, parent_id="om_0"), facts)
        assert isinstance(message, InboundMessage)
        assert message.text == text


# -- places ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", ["p2p", "private"])
def test_a_direct_chat_goes_by_either_name(declared: str) -> None:
    message = parsed(chat_type=declared)
    assert (message.chat_type, message.reply_to) == (ChatType.DM, None)
    assert Asked.decode(message.reply_token) == Asked(message_id="om_1", is_direct=True)


def test_a_topic_is_its_thread_id_and_answers_stand_at_its_root() -> None:
    message = in_group("hi", thread_id="omt_1", root_id="om_0", parent_id="om_0")
    assert (message.thread, message.thread_root, message.reply_to) == ("omt_1", "om_0", "om_0")
    assert message.opens_thread is None


@pytest.mark.parametrize("declared", ["topic_group", "topic"])
def test_a_first_message_in_a_group_of_topics_opens_a_thread(declared: str) -> None:
    message = parsed(chat_type=declared)
    assert (message.thread, message.opens_thread, message.reply_to) == (None, "om_1", "om_1")
    assert message.chat_type is ChatType.GROUP


def test_a_later_message_of_a_topic_without_thread_id_belongs_to_its_root() -> None:
    event = payload(chat_type="group", root_id="om_0", parent_id="om_0")
    message = parse_event(event, replace(FACTS, topic_chats={"oc_1": True}))
    assert isinstance(message, InboundMessage)
    assert message.opens_thread == "om_0"


def test_an_answer_quotes_in_groups_unless_the_config_says_no() -> None:
    assert in_group("hi").reply_to == "om_1"
    message = parse_event(payload(chat_type="group"), replace(FACTS, quotes=False))
    assert isinstance(message, InboundMessage)
    assert message.reply_to is None


def test_the_kind_of_a_chat_is_needed_only_where_it_decides() -> None:
    assert needs_chat(payload(chat_type="group")) == "oc_1"
    assert needs_chat(payload(chat_type="group", thread_id="omt_1")) == ""
    assert needs_chat(payload(chat_type="p2p")) == ""
    assert needs_chat(payload(chat_type="topic_group")) == ""
    assert needs_chat({"header": {"event_type": "im.chat.updated_v1"}}) == ""


def test_the_chat_of_every_payload_is_found_for_the_order_of_arrival() -> None:
    assert chat_of(payload()) == "oc_1"
    assert chat_of({"event": {"chat_id": "oc_2"}}) == "oc_2"
    assert chat_of({"event": {"open_chat_id": "oc_3"}}) == "oc_3"
    assert chat_of({"event": {"context": {"open_chat_id": "oc_4"}}}) == "oc_4"
    assert chat_of({"event": []}) == ""


# -- who -------------------------------------------------------------------------------------------


def by(sender: dict[str, Any]) -> dict[str, Any]:
    event = payload()
    event["event"]["sender"] = sender
    return event


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ({"open_id": "", "user_id": "u1", "union_id": "on_1"}, "u1"),
        ({"open_id": None, "union_id": "on_1"}, "on_1"),
    ],
)
def test_a_sender_without_open_id_is_known_by_another(ids: Any, expected: str) -> None:
    message = parse_event(by({"sender_id": ids, "sender_type": "user"}), FACTS)
    assert isinstance(message, InboundMessage)
    assert message.sender.id == expected


def test_a_sender_whom_nobody_names_is_asked_for_once() -> None:
    stranger = by({"sender_id": {"open_id": "ou_new"}, "sender_type": "user"})
    unknown = parse_event(stranger, FACTS)
    nameless = parse_event(stranger, replace(FACTS, users={"ou_new": ""}))
    assert isinstance(unknown, InboundMessage)
    assert isinstance(nameless, InboundMessage)
    assert (unknown.is_incomplete, nameless.is_incomplete) == (True, False)
    assert nameless.sender.name == "ou_new"


@pytest.mark.parametrize("sender_id", [BOT, "cli_1"])
def test_our_own_words_are_not_heard(sender_id: str) -> None:
    sender = {"sender_id": {"open_id": sender_id}, "sender_type": "app"}
    assert reason_of(by(sender)) == "self"


def test_another_bot_is_a_bot() -> None:
    message = parse_event(by({"sender_id": {"open_id": "ou_n"}, "sender_type": "bot"}), FACTS)
    assert isinstance(message, InboundMessage)
    assert message.sender.is_bot


# -- what is no message ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (payload("text", {"text": "  \n"}), "empty"),
        (payload("text", {"text": "@_user_1"}, chat_type="group", mentions=[ME]), "empty"),
        (payload("text", {"text": 42}), "bad_content"),
        (payload("text", "no json"), "bad_content"),
        (payload("post", {"title": "", "content": [[]]}), "empty"),
        (payload("system", {"template": "x"}), "notice"),
        (payload(message_id=""), "malformed"),
        (payload(chat_id=None), "malformed"),
        (by({}), "no_sender"),
        ({"header": {"event_type": "im.message.recalled_v1"}}, "recalled"),
        ({"header": {"event_type": "im.chat.member.bot.deleted_v1"}}, "bot_removed"),
        ({"header": {"event_type": "card.action.trigger"}}, "card_action"),
        ({"header": {"event_type": "application.bot.menu_v6"}}, "menu"),
        ({"header": {"event_type": "unheard.of_v1"}}, "not_a_message"),
        ({"type": "event_callback", "event": {"type": "message_read"}}, "not_a_message"),
        ({}, "not_a_message"),
    ],
)
def test_what_is_no_message_says_why(event: dict[str, Any], reason: str) -> None:
    assert reason_of(event) == reason


def test_an_event_for_another_app_is_not_ours() -> None:
    event = payload()
    event["header"]["app_id"] = "cli_2"
    assert reason_of(event) == "foreign_app"


# -- identity --------------------------------------------------------------------------------------


def test_the_same_words_at_the_same_moment_are_the_same_message() -> None:
    first, again = parsed(), parsed(message_id="om_2")
    assert set(first.transport_ids) & set(again.transport_ids) - {"ev1"}
    for other in (
        parsed(create_time="1717000061000"),
        parsed(chat_id="oc_2"),
        parsed("text", {"text": "ho"}),
        parsed(root_id="om_0"),
    ):
        assert not set(first.transport_ids) & set(other.transport_ids) - {"ev1"}


@pytest.mark.parametrize("created", ["", None, "soon", "1717000060000ms"])
def test_without_a_time_only_the_message_id_counts(created: Any) -> None:
    assert parsed(create_time=created).transport_ids == ("ev1",)


def test_the_stored_payload_can_be_read_again_and_holds_no_secret() -> None:
    message = parsed()
    assert "secret-token" not in message.raw
    assert parse_event(json.loads(message.raw), FACTS) == message


# -- whatever comes --------------------------------------------------------------------------------

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
KINDS = ("text", "post", "interactive", "file", "todo", "vote", "location", "merge_forward")


@given(kind=st.sampled_from(KINDS), content=anything, extra=anything)
def test_no_content_makes_the_parser_raise(kind: str, content: Any, extra: Any) -> None:
    event = payload(kind, json.dumps(content), mentions=extra, root_id=extra, thread_id=extra)
    found = parse_event(event, FACTS)
    assert isinstance(found, InboundMessage | Ignored)
    if isinstance(found, InboundMessage):
        found.text.encode()


@given(
    node=st.dictionaries(
        st.sampled_from(["tag", "text", "href", "user_id", "content", "elements", "un_escape"]),
        st.sampled_from(["text", "a", "at", "md", "code_block", "table"]) | anything,
    )
)
def test_no_node_makes_a_post_or_card_raise(node: Any) -> None:
    for kind in ("post", "interactive"):
        content = {"content": [[node]], "elements": [[node], node], "body": {"elements": [node]}}
        parse_event(payload(kind, content), FACTS)


@given(event=st.dictionaries(st.text(), anything))
def test_no_payload_makes_the_parser_raise(event: dict[str, Any]) -> None:
    for wrapped in (event, {"header": event, "event": event}, {"event": {"message": event}}):
        assert isinstance(parse_event(wrapped, Facts(channel="f")), InboundMessage | Ignored)
