"""What went wrong in other bots on WeChat and WeCom (`troubles.jsonl`), held against this one.

Where a kind has tests of its own, this file names them, so that none is forgotten.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.wechat.outbound import MAX_SIZE, TEXT_LIMIT_BYTES, measure, size
from adapters.wechat.plain import render
from adapters.wecom.outbound import BOT_LIMIT_BYTES, BOT_MAX_SIZE, measure_bot
from clawbot.splitting import split
from tests.payloads import wechat
from tests.payloads.rows import Row, load_rows
from tests.payloads.runner import Result, run
from tests.simulators.wechat.sealing import seal, sign

HERE = Path(__file__).parent
ROWS = load_rows(HERE / "wechat.jsonl")
STAMP = "1717000000"
TOKEN = "made-up-token"
KEY = "MadeUpEncodingAesKey00000000000000000000000"

# Where a kind is shown at work.
FLOW, APP, SENDING = (
    "tests.flow.test_wechat_flow",
    "tests.flow.test_wecom_flow",
    "tests.adapters.test_wechat_sending",
)
ELSEWHERE = {
    "bug-057": f"{FLOW}:test_without_it_a_later_attempt_carries_the_answer",
    "bug-061": f"{APP}:test_a_send_whose_outcome_is_unknown_is_repeated_and_shown_once",
    "bug-122": f"{SENDING}:test_an_expired_token_is_renewed_and_the_message_sent_once",
    "bug-123": f"{SENDING}:test_ten_sends_at_once_share_one_token",
    "bug-126": f"{FLOW}:test_with_customer_service_a_long_answer_stays_within_the_quota",
}
HERE_TESTED = frozenset(
    {
        *("bug-008", "bug-009", "bug-030", "bug-036", "bug-040", "bug-041", "bug-042", "bug-045"),
        *("bug-093", "bug-094", "bug-106"),
    }
)


def test_every_trouble_of_the_platform_has_a_test() -> None:
    lines = (HERE / "troubles.jsonl").read_text(encoding="utf-8").splitlines()
    known = {row["id"] for row in map(json.loads, lines) if row["platform"] == "wechat"}
    assert known == HERE_TESTED | ELSEWHERE.keys()
    for named in ELSEWHERE.values():
        module, _, name = named.partition(":")
        assert callable(getattr(importlib.import_module(module), name))


async def result_of(*rows: Row) -> Result:
    """What became of the last one."""
    results = [result async for result in run(wechat, {row.id: row for row in rows})]
    assert [result.error for result in results] == [None] * len(results)
    return results[-1]


def like(row_id: str, **changes: object) -> Row:
    """A recorded row with other contents."""
    row = ROWS[row_id]
    ctx = {**row.ctx, **dict(changes.pop("ctx", {}))}  # type: ignore[call-overload]
    return replace(row, ctx=ctx, **changes)  # type: ignore[arg-type]


def bot_text(text: str, **more: object) -> Row:
    row = ROWS["wechat-aibot-group-text"]
    body = {**row.body, "text": {"content": text}, **more}  # type: ignore[dict-item]
    return replace(row, body=body)


def sealed(xml: str, *, receive_id: str, key: str = KEY) -> tuple[str, dict[str, str]]:
    encrypted = seal(xml, key, receive_id)
    query = {"timestamp": STAMP, "nonce": "1"}
    query["msg_signature"] = sign(TOKEN, STAMP, "1", encrypted)
    return f"<xml><Encrypt><![CDATA[{encrypted}]]></Encrypt></xml>", query


def text_xml(content: str) -> str:
    return (
        "<xml><ToUserName>gh_1</ToUserName><FromUserName>oAlice</FromUserName>"
        f"<CreateTime>{STAMP}</CreateTime><MsgType>text</MsgType>"
        f"<Content><![CDATA[{content}]]></Content><MsgId>24000000000000001</MsgId></xml>"
    )


@pytest.mark.parametrize(
    ("text", "bot_name"), [("@Claude Code /status", "Claude Code"), ("@Bot Name /new", "Bot Name")]
)
async def test_a_command_behind_a_mention_with_a_space_is_one(text: str, bot_name: str) -> None:
    """bug-008, bug-009."""
    row = bot_text(text)
    result = await result_of(replace(row, ctx={**row.ctx, "bot_name": bot_name}))
    assert result.reason == "command"
    assert result.text == text.removeprefix(f"@{bot_name} ")


async def test_a_quoted_mixed_message_is_there_with_its_picture() -> None:
    """bug-030."""
    result = await result_of(ROWS["wechat-aibot-quote-mixed"])
    assert "> 看图\n> [image]" in (result.text or "")


async def test_a_stand_in_for_a_sticker_is_not_what_the_person_said() -> None:
    """bug-036."""
    result = await result_of(ROWS["wechat-text-unsupported-zh"])
    assert not result.deliver


async def test_control_characters_are_taken_out_after_decryption_too() -> None:
    """bug-040."""
    body, query = sealed(text_xml("before\x10after"), receive_id="wx1")
    ctx = {"app_id": "wx1", "token": TOKEN, "aes_key": KEY, "query": query}
    result = await result_of(Row(id="row", transport="aes", body=body, ctx=ctx))
    assert (result.deliver, result.text) == (True, "beforeafter")


async def test_the_format_of_a_body_is_known_by_its_content() -> None:
    """bug-041."""
    fields = {"FromUserName": "oAlice", "MsgType": "text", "Content": "json", "MsgId": 7}
    ctx = {"app_id": "wx1", "token": TOKEN}
    for headers in ({"Content-Type": "text/xml"}, {"Content-Type": "application/json"}, {}):
        told = Row(
            id="row", transport="http", body=json.dumps(fields), ctx={**ctx, "headers": headers}
        )
        result = await result_of(told)
        assert (result.text, result.chat_id) == ("json", "oAlice")


async def test_an_id_that_is_not_listed_behind_the_ciphertext_is_refused_with_a_reason() -> None:
    """bug-042; a listed one is accepted in `tests/unit/wechat/test_crypto.py`."""
    body, query = sealed(text_xml("x"), receive_id="suite-id")
    ctx = {"corp_id": "ww1", "agent_id": "1", "token": TOKEN, "aes_key": KEY, "query": query}
    result = await result_of(Row(id="row", transport="aes", body=body, ctx=ctx))
    assert (result.deliver, result.http) == (False, 403)
    assert "receive id" in result.reason


async def test_the_echo_of_wecom_is_decrypted() -> None:
    """bug-045."""
    result = await result_of(ROWS["wechat-wecom-echo"])
    assert (result.http, result.response) == (200, "1234567890987654321")


def test_an_accounts_text_is_cut_by_bytes_between_characters() -> None:
    """bug-094."""
    parts = split("字" * 700, MAX_SIZE, measure)
    assert len(parts) == 2
    assert all(size(part) <= TEXT_LIMIT_BYTES for part in parts)
    assert "".join(parts) == "字" * 700


def test_a_bots_text_is_cut_by_bytes_between_characters() -> None:
    """bug-093."""
    parts = split("字" * 7000, BOT_MAX_SIZE, measure_bot)
    assert len(parts) == 2
    assert all(measure_bot(part) <= BOT_LIMIT_BYTES for part in parts)
    assert "".join(parts) == "字" * 7000


def test_no_markup_is_shown_to_readers() -> None:
    """bug-106."""
    shown = render("**重点** [x](https://example.com) `code`")
    assert shown == "重点 x (https://example.com) code"
