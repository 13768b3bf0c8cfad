"""Slow answers on both kinds of accounts: each is shown once, or the person is told how to get it.

The platform's five seconds are shorter here; the names of the cases say what they stand for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from clawbot.store import outbox
from clawbot.store.schema import turns
from tests.flow.daemon import Daemon, run_daemon
from tests.flow.wechat_ground import until_listening, wechat_keys, write_channel
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.wechat import WechatSimulator

ALICE = "oAliceSimulated0000000000001"
ANSWER = "It is forty-two."


@pytest.fixture
async def wechat() -> AsyncIterator[WechatSimulator]:
    async with WechatSimulator(mode="safe", attempt_s=2.0) as simulator:
        yield simulator


@pytest.fixture(params=[False, True], ids=["passive", "service"])
async def daemon(
    request: pytest.FixtureRequest, tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> AsyncIterator[Daemon]:
    wechat.may_send = request.param
    keys = wechat_keys(wechat, customer_service=request.param, attempt_s=wechat.attempt_s)
    config = write_channel(tmp_path, model.base_url("openai-chat"), keys)
    async with run_daemon(config, "worker", "wechat") as daemon:
        wechat.pusher.url = await until_listening(keys["listen_port"]) + "/wechat"
        yield daemon


@pytest.mark.parametrize("attempt", [1, 2, 3, 4], ids=["2s", "7s", "12s", "40s"])
async def test_a_slow_answer_is_shown_once(
    daemon: Daemon, model: ModelSimulator, wechat: WechatSimulator, attempt: int
) -> None:
    gate = model.hold("what is it")
    model.expect(Reply(text=ANSWER), when="what is it")
    delivery = wechat.user_says(ALICE, "what is it?")
    await gate.reached
    if attempt > 1 and (wechat.may_send or attempt == 4):
        await wechat.wait_settled()  # the platform waits no longer
    elif attempt > 1:
        await wechat.pusher.wait_attempt(delivery, attempt)
    gate.release()
    told = wechat.sent(ALICE)
    if told and ANSWER not in told:
        (notice,) = told
        assert "Send 1" in notice
        await daemon.until(outbox.count_by_state, lambda counts: counts.get("held") == 1)
        wechat.user_says(ALICE, "1")
    await wechat.wait_sent(len(told) + 1 if ANSWER not in told else len(told))
    await wechat.wait_settled()
    await daemon.until_quiet()
    texts = wechat.sent(ALICE)
    assert texts.count(ANSWER) == 1
    assert [text for text in texts if text != ANSWER] == told[:1]
    assert (bool(told), wechat.refused()) == (attempt == 4 and not wechat.may_send, [])
    query = select(func.count()).select_from(turns)
    assert await daemon.store.read(lambda tx: tx.conn.execute(query).scalar_one()) == 1


async def test_a_person_who_follows_is_greeted_and_the_menu_speaks(
    tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    keys = wechat_keys(wechat, customer_service=False, attempt_s=5.0)
    keys |= {"welcome": "你好，欢迎", "menu": {"STATE": "/status", "JOKE": "Tell me a joke."}}
    config = write_channel(tmp_path, model.base_url("openai-chat"), keys)
    async with run_daemon(config, "worker", "wechat") as daemon:
        wechat.pusher.url = await until_listening(keys["listen_port"]) + "/wechat"
        wechat.user_does(ALICE, "subscribe", "qrscene_7")
        assert await wechat.wait_sent(1) == ["你好，欢迎"]
        wechat.user_does(ALICE, "CLICK", "STATE")
        await wechat.wait_sent(2)
        assert model.requests == []
        model.expect(Reply(text="Knock, knock."), when="Tell me a joke.")
        wechat.user_does(ALICE, "CLICK", "JOKE")
        assert (await wechat.wait_sent(3))[2] == "Knock, knock."
        wechat.user_does(ALICE, "CLICK", "UNKNOWN")
        await wechat.wait_settled()
        await daemon.until_quiet()
        assert len(wechat.sent(ALICE)) == 3


async def test_a_voice_message_with_recognition_is_what_was_said(
    daemon: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    model.expect(Reply(text="sunny"), when="how is the weather")
    media_id = wechat.add_media(b"#!AMR\n sound")
    fields = {"Format": "amr", "Recognition": "how is the weather", "MediaId": media_id}
    wechat.user_sends(ALICE, "voice", **fields)
    assert await wechat.wait_sent(1) == ["sunny"]
    await daemon.until_quiet()
