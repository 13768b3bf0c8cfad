"""The WeChat simulator in front of wechatpy: what it sends is read, what wechatpy says is taken."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from wechatpy import WeChatClient, parse_message
from wechatpy.crypto import WeChatCrypto
from wechatpy.exceptions import WeChatClientException
from wechatpy.replies import create_reply
from wechatpy.utils import check_signature

from tests.simulators.wechat import UNAVAILABLE, WechatSimulator, WecomSimulator

ALICE = "oAlice"
Answer = Callable[[Any], Awaitable[str]]


@asynccontextmanager
async def app(wechat: WechatSimulator, answer: Answer) -> AsyncIterator[None]:
    """A program made with wechatpy."""
    sealed = wechat.pusher.account.mode != "plain"
    crypto = WeChatCrypto(wechat.token, wechat.aes_key, wechat.app_id)

    async def serve(request: web.Request) -> web.Response:
        query, body = request.query, await request.text()
        check_signature(wechat.token, query["signature"], query["timestamp"], query["nonce"])
        if sealed:
            body = crypto.decrypt_message(
                body, query["msg_signature"], query["timestamp"], query["nonce"]
            )
        message = parse_message(body)
        said = await answer(message)
        if not said:
            return web.Response()
        xml = create_reply(said, message).render()
        return web.Response(text=crypto.encrypt_message(xml, "nonce") if sealed else xml)

    server = web.Application()
    server.router.add_post("/", serve)
    runner = web.AppRunner(server, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    wechat.pusher.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        yield
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("mode", ["plain", "compat", "safe"])
async def test_wechatpy_reads_a_message_and_answers_it(mode: str) -> None:
    async def answer(message: Any) -> str:
        return f"{message.type}: {message.content}"

    async with WechatSimulator(mode=mode) as wechat, app(wechat, answer):
        delivery = wechat.user_says(ALICE, "a & <b> 中文")
        assert await wechat.wait_sent(1) == ["text: a & <b> 中文"]
        await wechat.wait_settled()
        assert (delivery.state, delivery.attempts, wechat.ways(ALICE)) == ("acked", 1, ["response"])


async def test_an_event_has_no_msgid() -> None:
    async def answer(message: Any) -> str:
        return f"{message.event} {message.key} {message.id}"

    async with WechatSimulator() as wechat, app(wechat, answer):
        wechat.user_does(ALICE, "CLICK", "HELP")
        assert await wechat.wait_sent(1) == ["click HELP 0"]


async def test_a_slow_program_is_asked_three_times_with_one_msgid() -> None:
    ids: list[int] = []

    async def answer(message: Any) -> str:
        ids.append(message.id)
        await asyncio.sleep(10)
        return ""

    async with WechatSimulator(attempt_s=0.1) as wechat, app(wechat, answer):
        delivery = wechat.user_says(ALICE, "hi")
        assert await wechat.wait_sent(1) == [UNAVAILABLE]
        assert (len(ids), len(set(ids)), delivery.state) == (3, 1, "lost")


async def test_a_malformed_answer_is_shown_as_a_fault() -> None:
    async def answer(_message: Any) -> str:
        return "arr[idx[0]]>5"  # wechatpy does not split the end mark of CDATA

    async with WechatSimulator() as wechat, app(wechat, answer):
        wechat.user_says(ALICE, "hi")
        assert await wechat.wait_sent(1) == [UNAVAILABLE]


async def test_a_lost_response_is_asked_for_again_and_shown_once() -> None:
    async def answer(_message: Any) -> str:
        return "here"

    async with WechatSimulator() as wechat, app(wechat, answer):
        wechat.lose_responses(1)
        delivery = wechat.user_says(ALICE, "hi")
        assert await wechat.wait_sent(1) == ["here"]
        assert delivery.attempts == 2


class Client(WeChatClient):  # type: ignore[misc]
    """wechatpy's client, told where the simulator is."""

    def __init__(self, wechat: WechatSimulator) -> None:
        self.API_BASE_URL = f"{wechat.api_url}cgi-bin/"
        super().__init__(wechat.app_id, wechat.app_secret, auto_retry=False, timeout=5)

    def fetch_access_token(self) -> Any:
        return self.post(
            "stable_token",
            data={
                "grant_type": "client_credential",
                "appid": self.appid,
                "secret": self.secret,
                "force_refresh": False,
            },
        )


async def stable_token(wechat: WechatSimulator) -> str:
    body = {"appid": wechat.app_id, "secret": wechat.app_secret, "force_refresh": False}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{wechat.api_url}cgi-bin/stable_token", json=body) as response,
    ):
        return str((await response.json())["access_token"])


async def send(wechat: WechatSimulator, text: str, token: str = "") -> None:
    client = Client(wechat)
    client.session.set("access_token", token or await stable_token(wechat), 7200)
    client.session.set(f"{wechat.app_id}_access_token", token or await stable_token(wechat), 7200)
    client.expires_at = 10**12
    await asyncio.to_thread(client.message.send_text, ALICE, text)


async def code_of(wechat: WechatSimulator, text: str = "x", token: str = "") -> int:
    try:
        await send(wechat, text, token)
    except WeChatClientException as error:
        return int(error.errcode)
    return 0


async def test_the_api_counts_five_messages_after_a_persons_word() -> None:
    async def answer(_message: Any) -> str:
        return ""

    async with WechatSimulator() as wechat, app(wechat, answer):
        assert await code_of(wechat) == 45015
        wechat.user_says(ALICE, "hi")
        await wechat.wait_settled()
        assert [await code_of(wechat, f"{number}") for number in range(6)] == [0] * 5 + [45047]
        assert wechat.sent() == ["0", "1", "2", "3", "4"]
        wechat.user_does(ALICE, "CLICK", "X")
        assert [await code_of(wechat) for _ in range(4)] == [0] * 3 + [45047]


async def test_the_api_refuses_as_wechat_does() -> None:
    async with WechatSimulator() as wechat:
        wechat._allow(ALICE, 5, 100.0)
        assert await code_of(wechat, token="wrong") == 42001
        assert await code_of(wechat, "字" * 683) == 45002
        wechat.may_send = False
        assert await code_of(wechat) == 48001
        wechat.may_send = True
        wechat.stick_token(40001)
        assert await code_of(wechat) == 40001
        wechat.stick_token(0)
        wechat.fail_next("send", "error:45009")
        assert await code_of(wechat) == 45009
        wechat.close_window(ALICE)
        assert await code_of(wechat) == 45015


async def test_the_stable_token_is_the_same_for_all_until_it_is_insisted_on() -> None:
    async with WechatSimulator() as wechat:
        assert await stable_token(wechat) == await stable_token(wechat)
        wechat.expire_token()
        await stable_token(wechat)
        assert wechat.tokens_made == 2


async def test_wecom_drops_what_it_was_told_already_only_where_asked() -> None:
    async with WecomSimulator() as wecom, aiohttp.ClientSession() as session:
        base = wecom.api_url
        params = {"corpid": wecom.corp_id, "corpsecret": wecom.secret}
        async with session.get(f"{base}cgi-bin/gettoken", params=params) as response:
            token = (await response.json())["access_token"]
        for is_checked in (1, 1, 0):
            body = {
                "touser": "alice",
                "agentid": wecom.agent_id,
                "msgtype": "text",
                "text": {"content": "hi"},
                "enable_duplicate_check": is_checked,
            }
            url = f"{base}cgi-bin/message/send"
            async with session.post(url, params={"access_token": token}, json=body) as response:
                assert (await response.json())["errcode"] == 0
        assert (wecom.sent(), len(wecom.dropped)) == (["hi", "hi"], 1)


@pytest.mark.parametrize("kind", ["official", "wecom", "aibot"])
async def test_a_simulator_runs_alone_and_opens_its_doors_by_name(kind: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.simulators.wechat", kind), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            facts = json.loads(await process.stdout.readline())
        assert facts["token"]

        async def open_door(name: str, **arguments: Any) -> tuple[int, Any]:
            url = f"{facts['admin_url']}/{name}"
            async with session.post(url, json=arguments) as response:
                return response.status, await response.json()

        async with aiohttp.ClientSession() as session:
            assert await open_door("sent") == (200, {"ok": True, "result": []})
            assert (await open_door("nonsense"))[0] == 404
            assert (await open_door("sent", wrong=1))[0] == 400
    finally:
        process.terminate()
        async with asyncio.timeout(20):
            assert await process.wait() == 0
