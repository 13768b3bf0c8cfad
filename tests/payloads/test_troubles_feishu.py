"""What went wrong in other bots on Feishu (`troubles.jsonl`), held against this one.

Where a kind has tests of its own, this file names them, so that none is forgotten.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.feishu.facts import Facts
from adapters.feishu.inbound import parse_event
from clawbot.messages import InboundMessage
from tests.unit.feishu.events import FACTS, ME, in_group, parsed, payload

HERE = Path(__file__).parent
FLOW, STORIES, SENDING, RECEIVING = (
    "tests.flow.test_feishu_flow",
    "tests.flow.test_feishu_troubles",
    "tests.adapters.test_feishu_sending",
    "tests.adapters.test_feishu_receiving",
)
READING, WRITING = "tests.unit.feishu.test_inbound", "tests.unit.feishu.test_outbound"
ELSEWHERE = {
    "bug-001": f"{READING}:test_our_own_mention_is_cut_and_others_are_named",
    "bug-005": f"{READING}:test_who_is_meant_is_decided_by_id_alone",
    "bug-012": f"{READING}:test_a_message_to_all_is_one_to_us_only_if_the_config_says_so",
    "bug-025": f"{RECEIVING}:test_a_card_is_read_as_its_author_wrote_it",
    "bug-027": f"{READING}:test_a_quote_is_shown_and_is_never_a_command",
    "bug-047": f"{FLOW}:test_a_message_that_comes_again_is_answered_once_also_after_a_restart",
    "bug-048": f"{READING}:test_the_same_words_at_the_same_moment_are_the_same_message",
    "bug-050": f"{RECEIVING}:test_two_apps_in_one_process_know_their_own",
    "bug-052": f"{STORIES}:test_copies_at_the_same_moment_are_answered_once",
    "bug-062": f"{STORIES}:test_what_is_hours_old_is_answered_once_and_marked",
    "bug-069": f"{FLOW}:test_a_topic_is_one_session_from_its_first_message_on",
    "bug-070": f"{FLOW}:test_a_topic_is_one_session_from_its_first_message_on",
    "bug-105": f"{WRITING}:test_an_address_with_underscores_arrives_as_it_is",
    "bug-115": f"{RECEIVING}:test_a_silent_connection_is_given_up",
    "bug-125": f"{SENDING}:test_an_answer_that_grows_by_edits_keeps_some_for_the_end",
}
HERE_TESTED = frozenset({"bug-006", "bug-020", "bug-021", "bug-032", "bug-033"})


def test_every_trouble_of_the_platform_has_a_test() -> None:
    lines = (HERE / "troubles.jsonl").read_text(encoding="utf-8").splitlines()
    known = {row["id"] for row in map(json.loads, lines) if row["platform"] == "feishu"}
    assert known == HERE_TESTED | ELSEWHERE.keys()
    for named in ELSEWHERE.values():
        module, _, name = named.partition(":")
        assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize("address", ["a.b@example.com", "x@y.cn", "me+tag@_user.example"])
def test_addresses_in_a_text_are_no_mentions(address: str) -> None:
    """bug-006."""
    message = in_group(f"@_user_1 发给 {address}", ME)
    assert (message.text, message.mentioned, message.mentions_others) == (
        f"发给 {address}",
        True,
        False,
    )


def test_a_post_of_pictures_and_links_keeps_both() -> None:
    """bug-020."""
    picture = parsed("post", {"content": [[{"tag": "img", "image_key": "img_1"}]]})
    assert [each.kind for each in picture.attachments] == ["image"]
    link = {"tag": "a", "text": "the guide", "href": "https://example.com/guide"}
    message = parsed("post", {"content": [[{"tag": "text", "text": "see "}, link]]})
    assert "the guide" in message.text
    assert "https://example.com/guide" in message.text


def test_a_question_beside_a_picture_is_heard() -> None:
    """bug-021."""
    nodes = [
        [{"tag": "img", "image_key": "img_1"}],
        [{"tag": "at", "user_id": "@_user_1"}, {"tag": "text", "text": " what is this?"}],
    ]
    content = {"title": "", "content": nodes}
    message = parsed("post", content, chat_type="group", mentions=[ME])
    assert message.mentioned
    assert "what is this?" in message.text
    assert [each.kind for each in message.attachments] == ["image"]


@pytest.mark.parametrize("kind", ["post", "interactive"])
def test_a_quoted_post_or_card_is_words(kind: str) -> None:
    """bug-032."""
    post = {"title": "", "content": [[{"tag": "text", "text": "the plan"}]]}
    card = {"schema": "2.0", "body": {"elements": [{"tag": "markdown", "content": "the plan"}]}}
    quoted = {
        "message_id": "om_0",
        "msg_type": kind,
        "sender": {"id": "ou_bob", "sender_type": "user"},
        "body": {"content": json.dumps(post if kind == "post" else card)},
    }
    facts = replace(FACTS, messages={"om_0": [quoted]}, users={**FACTS.users, "ou_bob": "Bob"})
    message = parsed_with(facts, "why?", parent_id="om_0", root_id="om_0")
    assert "the plan" in message
    assert message.endswith("why?")
    assert "{" not in message


def parsed_with(facts: Facts, text: str, **message: object) -> str:
    found = parse_event(payload("text", {"text": text}, **message), facts)
    assert isinstance(found, InboundMessage)
    return found.text


def test_of_several_languages_always_the_same_is_read() -> None:
    """bug-033."""
    chinese = {"title": "", "content": [[{"tag": "text", "text": "你好"}]]}
    english = {"title": "", "content": [[{"tag": "text", "text": "hello"}]]}
    one = parsed("post", {"zh_cn": chinese, "en_us": english})
    other = parsed("post", {"en_us": english, "zh_cn": chinese})
    assert one.text == other.text == "你好"
    assert parsed("post", {"en_us": english}).text == "hello"
