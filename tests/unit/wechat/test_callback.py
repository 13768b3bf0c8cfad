"""WeChat's requests: who is refused, what is answered, and what a held request carries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from adapters.wechat.callback import Callback, Turnstile
from adapters.wechat.config import WechatConfig
from adapters.wechat.exchanges import Exchanges
from adapters.wechat.http import HttpAnswer
from clawbot.clock import SystemClock
from clawbot.errors import StoreUnavailable
from clawbot.messages import Accepted, InboundMessage
from tests.simulators.wechat.pushing import Account, Pusher, read_xml, to_xml
from tests.simulators.wechat.sealing import sign, unseal
from tests.simulators.wechat.waiting import Bell

TOKEN, APP = "tok", "wx1"
KEY = "MadeUpEncodingAesKey00000000000000000000000"
ALICE = "oAlice"


@dataclass
class Desk:
    """Stands for the core: keeps what it was given and answers as told."""

    answer: Callable[[InboundMessage], Accepted] = lambda _: Accepted(
        inbox_id=1, decision="queued", session_key="s"
    )
    taken: list[InboundMessage] = field(default_factory=list)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, message: InboundMessage) -> Accepted:
        accepted = self.answer(message)
        self.taken.append(message)
        self.was_asked.set()
        return accepted


class Door:
    """A callback with all that it needs."""

    def __init__(
        self,
        desk: Desk,
        *,
        may_send: bool = True,
        may_ask: bool = True,
        mode: str = "plain",
        **keys: Any,
    ):
        self.desk = desk
        clock = SystemClock()
        self.exchanges = Exchanges(clock)
        self.may_ask = may_ask
        self.told: list[tuple[str, bool]] = []
        if mode != "plain":
            keys["encoding_aes_key"] = SecretStr(KEY)
        config = WechatConfig(app_id=APP, token=SecretStr(TOKEN), **{"hold_s": 0.05, **keys})
        turnstile = Turnstile(
            may_send=lambda: may_send,
            on_message=self._hear,
        )
        self.callback = Callback("wechat", config, clock, desk, self.exchanges, turnstile)
        account = Account(token=TOKEN, aes_key=KEY, receive_id=APP, mode=mode)
        nobody = Bell()
        self.signer = Pusher(
            account,
            nobody,
            attempt_s=1,
            on_reply=lambda *_: None,
            on_unavailable=lambda *_: None,
        )

    async def _hear(self, message: InboundMessage, is_event: bool) -> bool:
        self.told.append((message.chat_id, is_event))
        return self.may_ask

    async def push(self, **fields: str) -> HttpAnswer:
        head = {"ToUserName": "gh_1", "FromUserName": ALICE, "CreateTime": now(), "MsgId": "7"}
        query, body = self.signer.signed(to_xml(head | {"MsgType": "text"} | fields))
        return await self.callback.handle_http("POST", {}, query, body.encode())

    async def raw(self, method: str, query: dict[str, str], body: bytes = b"") -> HttpAnswer:
        return await self.callback.handle_http(method, {}, query, body)


def query_of(stamp: str, **more: str) -> dict[str, str]:
    return {"timestamp": stamp, "nonce": "n", "signature": sign(TOKEN, stamp, "n"), **more}


def now() -> str:
    return str(SystemClock().now_ms() // 1000)


# -- who is refused --------------------------------------------------------------------------------


async def test_the_server_check_is_echoed() -> None:
    answer = await Door(Desk()).raw("GET", query_of(now(), echostr="42<x>"))
    assert (answer.status, answer.body) == (200, "42<x>")


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"timestamp": "1", "nonce": "n", "signature": "0" * 40},
        query_of("1000"),
        {**query_of("x"), "signature": sign(TOKEN, "x", "n")},
        {"signature": "é"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_forged_or_old_request_is_refused(method: str, query: dict[str, str]) -> None:
    desk = Desk()
    body = to_xml({"MsgType": "text", "FromUserName": ALICE, "Content": "x", "MsgId": "1"})
    answer = await Door(desk).raw(method, {**query, "echostr": "9"}, body.encode())
    assert (answer.status, desk.taken) == (403, [])
    assert "9" not in answer.body


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD"])
async def test_other_methods_are_refused(method: str) -> None:
    assert (await Door(Desk()).raw(method, query_of(now()))).status == 405


async def test_a_body_that_is_too_large_is_refused_before_it_is_read() -> None:
    answer = await Door(Desk()).raw("POST", query_of(now()), b"x" * 70_000)
    assert answer.status == 413


@pytest.mark.parametrize("body", [b"", b"hello", b"<xml>", b"\xff\xfe", b"{", b"<xml/>"])
async def test_a_signed_body_without_fields_is_answered_with_silence(body: bytes) -> None:
    answer = await Door(Desk()).raw("POST", query_of(now()), body)
    assert (answer.status, answer.body) == (200, "")


async def test_plain_requests_are_refused_where_a_key_is_set() -> None:
    desk = Desk()
    body = to_xml({"MsgType": "text", "FromUserName": ALICE, "Content": "x", "MsgId": "1"})
    answer = await Door(desk, mode="safe").raw("POST", query_of(now()), body.encode())
    assert (answer.status, desk.taken) == (403, [])


async def test_a_sealed_request_without_a_key_is_refused_and_says_so() -> None:
    sealed = Door(Desk(), mode="safe")
    query, body = sealed.signer.signed(to_xml({"MsgType": "text"}))
    assert (await Door(Desk()).raw("POST", query, body.encode())).status == 403


async def test_a_changed_ciphertext_is_refused() -> None:
    door = Door(Desk(), mode="safe")
    query, body = door.signer.signed(to_xml({"MsgType": "text", "Content": "x"}))
    answer = await door.raw(
        "POST", query, body.replace("<Encrypt><![CDATA[", "<Encrypt><![CDATA[A").encode()
    )
    assert (answer.status, door.desk.taken) == (403, [])


@pytest.mark.parametrize("mode", ["plain", "compat", "safe"])
async def test_every_mode_brings_the_message_once(mode: str) -> None:
    desk = Desk()
    answer = await Door(desk, mode=mode).push(Content="a]]>b & <c>")
    assert answer.status == 200
    assert [message.text for message in desk.taken] == ["a]]>b & <c>"]


# -- what is answered ------------------------------------------------------------------------------


async def test_what_was_not_stored_is_asked_for_again() -> None:
    def refuse(_message: InboundMessage) -> Accepted:
        raise StoreUnavailable

    assert (await Door(Desk(answer=refuse)).push(Content="x")).status == 503


async def test_a_request_that_nothing_can_answer_is_not_held() -> None:
    accepted = Accepted(inbox_id=1, decision="refused", may_be_answered=False)
    answer = await Door(Desk(answer=lambda _: accepted), hold_s=4.9).push(Content="x")
    assert (answer.status, answer.body) == (200, "")


@pytest.mark.parametrize("mode", ["plain", "safe"])
async def test_a_new_follower_is_greeted(mode: str) -> None:
    door = Door(Desk(), mode=mode, welcome="欢迎 ]]>")
    answer = await door.push(MsgType="event", Event="subscribe", Content="")
    xml = answer.body
    if mode == "safe":
        xml = unseal(read_xml(xml)["Encrypt"], KEY, APP)
    reply = read_xml(xml)
    assert (reply["Content"], reply["ToUserName"]) == ("欢迎 ]]>", ALICE)
    assert door.desk.taken == []


async def test_a_menu_click_is_what_the_config_says_and_counts_as_an_event() -> None:
    door = Door(Desk(), menu={"NEW": "/new"})
    await door.push(MsgType="event", Event="CLICK", EventKey="NEW", Content="")
    assert [message.command_text for message in door.desk.taken] == ["/new"]
    assert door.told == [(ALICE, True)]


async def test_a_held_request_says_until_when() -> None:
    desk = Desk()
    before = SystemClock().now_ms()
    await Door(desk).push(Content="x")
    (message,) = desk.taken
    assert message.inline_until_ms is not None
    assert 0 < message.inline_until_ms - before < 1_000
    assert message.reply_token == message.identity


# -- what a held request carries -------------------------------------------------------------------


async def carried(door: Door, text: str = "answer", **fields: str) -> tuple[HttpAnswer, Any]:
    """Push a message and put an answer into its request."""
    asking = asyncio.create_task(door.push(**{"Content": "x", **fields}))
    await door.desk.was_asked.wait()
    door.desk.was_asked.clear()
    identity = door.desk.taken[-1].identity
    attempt = door.exchanges.find(ALICE, identity)
    assert attempt is not None
    body = door.exchanges.carry(attempt, text, answers=identity)
    return await asking, body


async def test_the_response_carries_the_answer_and_tells_whether_it_was_written() -> None:
    door = Door(Desk(), hold_s=4.0)
    answer, body = await carried(door)
    assert read_xml(answer.body)["Content"] == "answer"
    assert not body.written.done()
    assert answer.on_written is not None
    answer.on_written(True)
    assert await body.written


async def test_the_next_attempt_says_that_the_response_was_lost() -> None:
    door = Door(Desk(), hold_s=4.0)
    _, body = await carried(door)
    assert not body.lost.is_set()
    surviving = asyncio.create_task(body.survives(10))
    again, _ = await carried(door, "again")
    assert not await surviving
    assert read_xml(again.body)["Content"] == "again"


async def test_who_asks_for_the_rest_has_read_the_beginning() -> None:
    door = Door(Desk(), hold_s=4.0)
    _, body = await carried(door)
    surviving = asyncio.create_task(body.survives(10))
    await carried(door, "rest", Content="1", MsgId="8")
    assert await surviving


async def test_a_one_is_an_ordinary_word_where_nobody_was_told_of_it() -> None:
    for may_ask in (True, False):
        door = Door(Desk(), may_ask=may_ask)
        await door.push(Content="1")
        assert [message.asks_for_more for message in door.desk.taken] == [may_ask]


async def test_what_a_person_did_is_told_before_the_message_is_taken() -> None:
    door = Door(Desk(), may_ask=False)

    def accept(message: InboundMessage) -> Accepted:
        assert door.told == [(ALICE, False)]
        return Accepted(inbox_id=1, decision="queued")

    door.desk.answer = accept
    await door.push(Content="x")
    assert len(door.desk.taken) == 1


async def test_a_peer_that_hangs_up_as_the_answer_comes_was_not_answered() -> None:
    door = Door(Desk(), hold_s=4.0)
    asking = asyncio.create_task(door.push(Content="x"))
    await door.desk.was_asked.wait()
    attempt = door.exchanges.find(ALICE, f"{ALICE}/7")
    assert attempt is not None
    await asyncio.sleep(0)
    body = door.exchanges.carry(attempt, "answer", answers=None)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not await body.written


async def test_a_request_that_was_not_stored_carries_nothing() -> None:
    gate = asyncio.Event()
    door = Door(Desk(), hold_s=4.0)

    async def refuse(_message: InboundMessage) -> Accepted:
        door.desk.was_asked.set()
        await gate.wait()
        raise StoreUnavailable

    door.callback._accept = refuse
    asking = asyncio.create_task(door.push(Content="x"))
    await door.desk.was_asked.wait()
    attempt = door.exchanges.find(ALICE, None)
    assert attempt is not None
    body = door.exchanges.carry(attempt, "of an earlier message", answers=None)
    gate.set()
    assert (await asking).status == 503
    assert not await body.written


async def test_without_other_ways_the_last_attempt_tells_how_to_get_the_answer() -> None:
    door = Door(Desk(), may_send=False)
    statuses = [(await door.push(Content="你好")).status for _ in range(2)]
    answer = await door.push(Content="你好")
    assert statuses == [500, 500]
    assert "发送 1" in read_xml(answer.body)["Content"]


async def test_the_platforms_own_times_tell_the_attempt_after_a_restart() -> None:
    door = Door(Desk(), may_send=False)
    created = str(int(now()) - 10)
    assert "Send 1" in read_xml((await door.push(Content="hi", CreateTime=created)).body)["Content"]


async def test_messages_that_were_answered_together_end_with_the_newest() -> None:
    door = Door(Desk(), may_send=False, hold_s=4.0)
    first = asyncio.create_task(door.push(Content="a", MsgId="1"))
    await door.desk.was_asked.wait()
    door.desk.was_asked.clear()
    answer, _ = await carried(door, "both", Content="b", MsgId="2")
    assert read_xml(answer.body)["Content"] == "both"
    assert (await first).body == ""


async def test_the_answer_to_a_command_leaves_earlier_messages_waiting() -> None:
    def accept(message: InboundMessage) -> Accepted:
        decision = "command" if message.text == "/status" else "queued"
        return Accepted(inbox_id=1, decision=decision, session_key="s")

    door = Door(Desk(answer=accept), hold_s=4.0)
    first = asyncio.create_task(door.push(Content="a", MsgId="1"))
    await door.desk.was_asked.wait()
    door.desk.was_asked.clear()
    asking = asyncio.create_task(door.push(Content="/status", MsgId="2"))
    await door.desk.was_asked.wait()
    await asyncio.sleep(0)
    attempt = door.exchanges.find(ALICE, f"{ALICE}/2")
    assert attempt is not None
    door.exchanges.carry(attempt, "state", answers=f"{ALICE}/2")
    await asking
    waiting = door.exchanges.find(ALICE, f"{ALICE}/1")
    assert waiting is not None
    door.exchanges.carry(waiting, "later", answers=f"{ALICE}/1")
    assert read_xml((await first).body)["Content"] == "later"


# -- configuration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"customer_service": True}, "app_secret: missing"),
        ({"encoding_aes_key": "short"}, "EncodingAESKey"),
        ({"token": " "}, "is empty"),
        ({"path": "wechat"}, "must begin with /"),
        ({"api_base_url": "http://api.weixin.qq.com/"}, "clear text"),
        ({"api_base_url": "ftp://x"}, "not an http"),
        ({"hold_s": 5}, "less than 5"),
        ({"app_id": ""}, "at least 1"),
    ],
)
def test_a_bad_config_says_what_to_do(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        WechatConfig.model_validate({"app_id": APP, "token": TOKEN, **keys})
