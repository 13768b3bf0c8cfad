"""From Slack payloads to inbound messages: what is said, by whom, where, and what is nothing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.slack.facts import Facts
from adapters.slack.inbound import parse_event
from clawbot.messages import ChatType, Ignored, InboundMessage
from tests.unit.slack.events import (
    BOT,
    BOT_ID,
    FACTS,
    callback,
    dm,
    mention,
    post,
    rich,
    section,
    slash,
    user,
    words,
)

QUOTE = {"type": "rich_text_quote", "elements": [user(BOT), words(" /deploy now")]}
FORWARD = {
    "is_share": True,
    "is_msg_unfurl": True,
    "author_name": "bob",
    "channel_name": "random",
    "text": f"<@{BOT}> the key expires",
    "message_blocks": [
        {"message": {"blocks": rich(section(user(BOT), words(" the key expires")))}}
    ],
}
FILE = {
    "id": "F1",
    "name": "chart.png",
    "mimetype": "image/png",
    "size": 9258,
    "url_private": "https://files.example/F1",
    "url_private_download": "https://files.example/F1/download",
}


def message(payload: dict[str, Any], facts: Facts = FACTS) -> InboundMessage:
    result = parse_event(payload, facts)
    assert isinstance(result, InboundMessage), result
    return result


def reason(payload: dict[str, Any], facts: Facts = FACTS) -> str:
    result = parse_event(payload, facts)
    assert isinstance(result, Ignored), result
    return result.reason


def test_a_post_is_read_whole() -> None:
    result = message(post("hello"))
    assert result.identity == "C1:1700000000.000100"
    assert result.transport_ids == ("Ev1",)
    assert (result.chat_id, result.chat_type) == ("C1", ChatType.GROUP)
    assert (result.sender.id, result.sender.name, result.sender.is_bot) == ("U1", "alice", False)
    assert (result.text, result.command_text) == ("hello", "hello")
    assert (result.thread, result.opens_thread) == (None, "1700000000.000100")
    assert result.sent_at_ms == 1_700_000_000_000
    assert not result.mentioned
    assert not result.is_incomplete


def test_both_copies_of_a_mention_are_the_same_message() -> None:
    first, second = message(post(f"<@{BOT}> hi")), message(mention(f"<@{BOT}> hi"))
    assert first.identity == second.identity
    assert first.mentioned
    assert second.mentioned
    assert first.text == second.text == "hi"
    assert first.opens_thread == second.opens_thread


def test_without_its_own_id_only_app_mention_tells_that_the_bot_is_meant() -> None:
    stranger = Facts(channel="slack", users=FACTS.users)
    assert not message(post(f"<@{BOT}> hi"), stranger).mentioned
    assert message(mention(f"<@{BOT}> hi"), stranger).mentioned


@pytest.mark.parametrize(
    ("payload", "thread", "opens"),
    [
        (dm("hi"), None, None),
        (dm("hi", thread_ts="1.2"), "1.2", None),
        (post("hi", thread_ts="1.2"), "1.2", None),
        (post("hi", thread_ts="1700000000.000100"), "1700000000.000100", None),
        (post("hi", thread_ts="1.2", subtype="thread_broadcast"), "1.2", None),
        (post("hi", channel="G1", channel_type="mpim"), None, "1700000000.000100"),
        (mention("hi"), None, "1700000000.000100"),
    ],
)
def test_the_thread_is_what_slack_sent(
    payload: dict[str, Any], thread: str | None, opens: str | None
) -> None:
    result = message(payload)
    assert (result.thread, result.opens_thread) == (thread, opens)


@pytest.mark.parametrize(
    ("fields", "chat_type"),
    [
        ({"channel": "D1", "channel_type": "im"}, ChatType.DM),
        ({"channel": "D1", "channel_type": "app_home"}, ChatType.DM),
        ({"channel": "D1", "channel_type": None}, ChatType.DM),
        ({"channel": "C1", "channel_type": "mpim"}, ChatType.GROUP),
        ({"channel": "G1", "channel_type": "group"}, ChatType.GROUP),
        ({"channel": "G1", "channel_type": None}, ChatType.GROUP),
    ],
)
def test_the_type_of_a_chat_is_not_guessed_from_its_letter(
    fields: dict[str, Any], chat_type: ChatType
) -> None:
    assert message(post("hi", **fields)).chat_type is chat_type


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (post("x", subtype="message_changed", hidden=True), "edit"),
        (post("x", subtype="message_deleted"), "deletion"),
        (post("<@U1> has joined", subtype="channel_join"), "notice"),
        (post("x", subtype="ekm_access_denied"), "notice"),
        (post("x", subtype="something_new"), "notice"),
        (post("x", hidden=True), "notice"),
        (post("x", user=BOT), "self"),
        (post("x", bot_id=BOT_ID), "self"),
        (post("x", user="U7", bot_profile={"app_id": "A1"}), "self"),
        (post("x", user=None), "no_sender"),
        (post("x", ts=None), "malformed"),
        (post("   "), "empty"),
        (post(f"<@{BOT}>"), "empty"),
        (mention("hi", channel="D1"), "app_mention_in_dm"),
        (callback({"type": "assistant_thread_started"}), "assistant_event"),
        (callback({"type": "reaction_added", "user": "U1"}), "not_a_message"),
        (callback({"type": "team_join", "user": {"id": "U1"}}), "not_a_message"),
        (callback({"type": "tokens_revoked", "tokens": {"bot": [BOT]}}), "tokens_revoked"),
        (callback({"type": "tokens_revoked", "tokens": {"oauth": ["U1"]}}), "not_a_message"),
        (callback({"type": "app_uninstalled"}), "app_uninstalled"),
        ({"type": "event_callback", "event": None}, "not_a_message"),
        ({"type": "app_rate_limited"}, "app_rate_limited"),
        ({"type": "hello"}, "not_a_message"),
        ({"type": "block_actions", "actions": []}, "interactive"),
        ({"envelope_id": "e", "payload": {"type": "view_submission"}}, "interactive"),
        (post("x") | {"api_app_id": "A2"}, "foreign_app"),
        (post("x") | {"team_id": "T2"}, "foreign_team"),
        (slash(""), "empty"),
        (slash("hi", trigger_id="", response_url=""), "malformed"),
    ],
)
def test_what_nobody_said_is_ignored_with_its_reason(payload: dict[str, Any], code: str) -> None:
    assert reason(payload) == code


def test_a_guest_of_a_shared_channel_is_heard_in_our_installation() -> None:
    guest = post(
        "hello",
        user="U5",
        user_profile={"display_name": "", "real_name": "Erin E", "name": "erin"},
    )
    result = message(guest | {"team_id": "T2", "authorizations": [{"team_id": "T1"}]})
    assert result.sender.name == "Erin E"
    assert not result.is_incomplete
    org = {"team_id": None, "enterprise_id": "E9", "user_id": BOT}
    assert message(guest | {"team_id": "T2", "authorizations": [org]}).text == "hello"
    other = {"team_id": "T3", "user_id": "U8"}
    assert reason(guest | {"team_id": "T2", "authorizations": [other]}) == "foreign_team"


@pytest.mark.parametrize(
    "fields",
    [
        {"bot_id": "B9", "bot_profile": {"name": "alerter"}},
        {"bot_id": "B9", "user": None, "subtype": "bot_message", "username": "alerter"},
        {"user": "USLACKBOT"},
    ],
)
def test_other_bots_are_marked_for_the_gate(fields: dict[str, Any]) -> None:
    result = message(post("alert fired", **fields))
    assert result.sender.is_bot
    assert not result.is_incomplete


def test_an_alert_in_attachments_is_read() -> None:
    alert = {"title": "Disk full", "text": "at 99%", "fields": [{"title": "host", "value": "h1"}]}
    assert message(post("", bot_id="B9", attachments=[alert])).text == "Disk full\nat 99%\nhost: h1"


@pytest.mark.parametrize("payload", [post("hi", user="U9"), post("ask <@U9>"), dm("<#C9> ok")])
def test_unknown_names_are_to_be_enriched(payload: dict[str, Any]) -> None:
    assert message(payload).is_incomplete


def test_a_name_that_slack_does_not_know_reads_as_its_id() -> None:
    facts = Facts(channel="slack", identity=FACTS.identity, users={"U9": ""})
    result = message(post("ask <@U9>", user="U9"), facts)
    assert (result.text, result.sender.name) == ("ask @U9", "U9")
    assert not result.is_incomplete


@pytest.mark.parametrize(
    "text", ["", "This content can't be displayed.", "This content can’t be displayed."]
)
def test_blocks_stand_in_for_missing_text(text: str) -> None:
    blocks = rich(section(user(BOT), words(" the real question")))
    result = message(post(text, blocks=blocks))
    assert (result.text, result.mentioned) == ("the real question", True)


def test_words_that_stand_in_both_text_and_blocks_are_read_once() -> None:
    blocks = rich(section(user(BOT), words(" test")))
    assert message(post(f"<@{BOT}> test", blocks=blocks)).text == "test"


def test_blocks_are_read_when_the_text_is_only_their_headline() -> None:
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": "Report <1>"}},
        {"type": "section", "text": {"type": "mrkdwn", "text": "*up* &amp; running"}},
        {"type": "section", "fields": [{"type": "plain_text", "text": "cpu"}]},
        {"type": "context", "elements": [{"type": "mrkdwn", "text": "by <@U2>"}]},
        {"type": "markdown", "text": "a < b & **c** <@U2>"},
        {"type": "image", "alt_text": "graph"},
        {"type": "hologram", "x": 1},
    ]
    assert message(dm("Report", blocks=blocks)).text == (
        "Report <1>\n*up* & running\ncpu\nby @bob\na < b & **c** @bob\n[image: graph]"
    )


def test_rich_text_keeps_its_structure() -> None:
    numbered = {
        "type": "rich_text_list",
        "style": "ordered",
        "offset": 2,
        "elements": [section(words("three")), section(words("four"))],
    }
    nested = {
        "type": "rich_text_list",
        "style": "bullet",
        "indent": 1,
        "elements": [section(words("deep"))],
    }
    code = {"type": "rich_text_preformatted", "elements": [words("if a < b:\n    pass")]}
    inline = section(
        words("run "),
        words("make", code=True),
        words(" not "),
        words("this", strike=True),
        {"type": "emoji", "name": "+1", "skin_tone": 3},
        {"type": "link", "url": "https://example.com/a?b&c", "text": "here"},
        {"type": "broadcast", "range": "here"},
        {"type": "date", "timestamp": 1, "fallback": "today"},
        {"type": "hologram"},
    )
    assert message(dm("", blocks=rich(inline, numbered, nested, code))).text == (
        "run `make` not ~this~:+1::skin-tone-3:here (https://example.com/a?b&c)@heretoday\n"
        "3. three\n4. four\n    ◦ deep\n```if a < b:\n    pass```"
    )


@pytest.mark.parametrize("text", ["", "thoughts?", f"&gt; <@{BOT}> /deploy now\nthoughts?"])
@pytest.mark.parametrize("make", [post, mention])
def test_nothing_quoted_triggers_or_commands(make: Any, text: str) -> None:
    result = message(make(text, blocks=rich(QUOTE, section(words("thoughts?")))))
    assert not result.mentioned
    assert result.command_text == "thoughts?"
    assert result.text == "> @clawbot /deploy now\nthoughts?"


def test_a_forward_is_shown_as_a_quote_and_never_triggers() -> None:
    result = message(dm("", attachments=[FORWARD]))
    assert result.text == "[forwarded message from bob in #random]\n> @clawbot the key expires"
    assert not result.mentioned
    assert result.command_text is None
    comment = message(dm("/status", attachments=[FORWARD]))
    assert comment.command_text == "/status"
    assert comment.text.startswith("/status\n[forwarded")


def test_the_preview_of_a_link_says_nothing_itself() -> None:
    unfurl = {"is_msg_unfurl": True, "author_name": "bob", "text": "old news"}
    preview = {"from_url": "https://example.com", "title": "Example"}
    assert reason(dm("", attachments=[unfurl])) == "empty"
    assert message(dm("see this", attachments=[preview])).text == "see this"
    assert "old news" in message(dm("see this", attachments=[unfurl])).text


def test_files_are_attached_and_named() -> None:
    result = message(dm("", subtype="file_share", files=[FILE]))
    assert result.text == "[image: chart.png]"
    assert result.command_text is None
    (file,) = result.attachments
    assert (file.kind, file.name, file.size_bytes) == ("image", "chart.png", 9258)
    assert file.source == "https://files.example/F1/download"


def test_a_file_that_slack_only_hints_at_is_to_be_enriched() -> None:
    hint = {"id": "F2", "mode": "file_access", "file_access": "check_file_info"}
    assert message(dm("look", files=[hint])).is_incomplete


def test_files_that_are_gone_and_voice_clips_have_words() -> None:
    gone = {"id": "F3", "mode": "tombstone"}
    clip = FILE | {
        "name": "audio.m4a",
        "subtype": "slack_audio",
        "transcription": {"status": "complete", "preview": {"content": "call me"}},
    }
    result = message(dm("", files=[gone, clip]))
    assert result.text == "[file: no longer available]\n[audio: audio.m4a] call me"
    assert len(result.attachments) == 1


def test_slash_words_stand_at_the_root_of_the_chat() -> None:
    result = message(slash("ask <@U2|bob> about a &amp; b"))
    assert result.identity == "slash:13.37.abc"
    assert result.text == "ask @bob about a & b"
    assert result.mentioned
    assert (result.thread, result.opens_thread, result.reply_token) == (None, None, "slash")
    assert not result.is_incomplete


@pytest.mark.parametrize(
    ("typed", "command"), [("stop", "/stop"), ("/stop all", "/stop all"), ("!stop", "!stop")]
)
def test_slash_words_are_chat_commands(typed: str, command: str) -> None:
    assert message(slash(typed)).command_text == command


def test_a_completed_mention_does_not_hide_a_command() -> None:
    assert message(post(f"<@{BOT}>\u00a0/task\u00a0new")).command_text == "/task new"


def test_what_is_stored_holds_no_secret_and_parses_again() -> None:
    result = message(post("hi \ud800\x00 there"))
    assert "verification" not in result.raw
    assert result.text == "hi \ufffd there"
    assert message(json.loads(result.raw)).text == result.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "elements", "user", "blocks", "files", "style", "rows"]
            )
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.sampled_from(
        ["text", "user", "blocks", "attachments", "files", "thread_ts", "bot_profile", "ts"]
    ),
    JSON,
)
def test_no_field_of_a_wrong_type_breaks_the_parser(key: str, value: Any) -> None:
    payload = post("hi")
    payload["event"][key] = value
    parse_event(payload, FACTS)


@given(JSON)
def test_no_payload_breaks_the_parser(value: Any) -> None:
    parse_event({"type": "event_callback", "event": value}, FACTS)
    parse_event({"envelope_id": "e", "payload": value}, FACTS)
    parse_event({"command": value, "text": value, "channel_id": value}, FACTS)


@pytest.mark.parametrize("odd", [[], {}, [{}], 1, None, True])
def test_odd_types_deep_inside_are_skipped(odd: Any) -> None:
    element = {"type": odd, "text": odd, "style": odd}
    blocks = [
        {"type": odd},
        {"type": "section", "text": odd, "fields": odd},
        {"type": "table", "rows": [odd, [odd, {"type": odd, "text": odd}]]},
        *rich(element, section(element, {"type": "emoji", "name": odd, "skin_tone": odd})),
    ]
    attachment = {"is_share": True, "message_blocks": [{"message": odd}], "text": odd}
    file = {"mode": odd, "mimetype": odd, "transcription": odd}
    parse_event(dm("hi", blocks=blocks, attachments=[odd, attachment], files=[odd, file]), FACTS)
