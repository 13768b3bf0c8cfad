"""Adapters of WeChat and WeCom killed as they send: what can be known is known, nothing doubled."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clawbot.parts import STORE_FILE
from clawbot.session_key import SessionKey
from clawbot.work_dirs import make_work_dir, work_dir_of
from tests.flow.conftest import model
from tests.flow.wechat_ground import (
    bot_keys,
    until_listening,
    wechat_keys,
    wecom_keys,
    write_channel,
)
from tests.process.commands import WAIT_S, Command, clawbot
from tests.process.killed_at import order_death
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.wechat import AibotSimulator, WechatSimulator, WecomSimulator

__all__ = ["model"]

ALICE = "alice"
PAPER = b"%PDF-1.7 " + b"paper " * 1000


@asynccontextmanager
async def killed_at(
    config: Path, channel: str, target: str, moment: str = "after"
) -> AsyncIterator[Command]:
    """The adapter's process, which dies at its first call of the target once it is armed."""
    words = (target, moment, str(config.parent), "--", "adapter", channel)
    async with clawbot(config, *words, module="tests.process.killed_at") as command:
        yield command


async def arm(config: Path) -> None:
    await asyncio.to_thread(order_death, config.parent)


def replies(config: Path) -> list[tuple[str, str]]:
    """State and reason of the replies to Alice."""
    with sqlite3.connect(config.parent / "state" / STORE_FILE) as database:
        return database.execute(
            "SELECT state, reason FROM outbox WHERE chat_id = 'alice' ORDER BY id"
        ).fetchall()


async def until_replies(config: Path, *wanted: tuple[str, str]) -> None:
    async with asyncio.timeout(WAIT_S):
        while await asyncio.to_thread(replies, config) != list(wanted):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


# -- the response of an Official Account -----------------------------------------------------------


@pytest.fixture
async def wechat() -> AsyncIterator[WechatSimulator]:
    async with WechatSimulator(may_send=False) as simulator:
        yield simulator


@asynccontextmanager
async def asked(
    folder: Path, model: ModelSimulator, wechat: WechatSimulator, target: str
) -> AsyncIterator[tuple[Path, int]]:
    """Somebody has asked, and the process that answers in the response dies at the target."""
    keys = wechat_keys(wechat, customer_service=False, attempt_s=wechat.attempt_s)
    config = write_channel(folder, model.base_url("openai-chat"), keys)
    port = keys["listen_port"]
    async with clawbot(config, "worker"):
        async with killed_at(config, "wechat", target) as dying:
            wechat.pusher.url = await until_listening(port, WAIT_S * 2) + "/wechat"
            # The first turn of a worker is slow: no attempt shall pass while it begins to work.
            model.expect(Reply(text="warm"), when="warm")
            wechat.user_says("bob", "warm up")
            await wechat.wait_settled(timeout_s=WAIT_S)
            async with asyncio.timeout(WAIT_S):
                while not model.requests:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await arm(config)
            model.expect(Reply(text="here"), when="hello")
            wechat.pusher.pause_between_attempts()
            wechat.user_says(ALICE, "hello")
            await dying.ended()
        yield config, port


async def test_a_response_that_died_with_its_process_is_given_to_the_next_attempt(
    tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    target = "adapters.wechat.exchanges:Exchanges.carry"
    async with asked(tmp_path, model, wechat, target) as (config, port):
        await wechat.pusher.wait_paused()
        async with clawbot(config, "adapter", "wechat"):
            await until_listening(port, WAIT_S * 2)
            wechat.pusher.go_on()
            assert await wechat.wait_sent(1, ALICE, timeout_s=30) == ["here"]
            await until_replies(config, ("sent", ""))
    assert wechat.sent(ALICE) == ["here"]
    assert len(model.requests) == 2


async def test_a_response_that_arrived_as_its_process_died_stays_unknown_and_is_not_repeated(
    tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    target = "adapters.wechat.adapter:WechatAdapter.send"
    async with asked(tmp_path, model, wechat, target) as (config, port):
        assert await wechat.wait_sent(1, ALICE) == ["here"]
        async with clawbot(config, "adapter", "wechat"):
            wechat.pusher.url = await until_listening(port, WAIT_S * 2) + "/wechat"
            await until_replies(config, ("unknown", "no_answer"))
            model.expect(Reply(text="again"), when="more")
            wechat.pusher.go_on()
            wechat.user_says(ALICE, "more")
            await wechat.wait_sent(2, ALICE, timeout_s=30)
            await until_replies(config, ("unknown", "no_answer"), ("sent", ""))
    assert wechat.sent(ALICE) == ["here", "again"]


# -- WeCom -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["send", "upload"])
async def test_an_apps_message_is_repeated_under_the_duplicate_check_and_shown_once(
    tmp_path: Path, model: ModelSimulator, what: str
) -> None:
    async with WecomSimulator() as wecom:
        keys = wecom_keys(wecom)
        config = write_channel(tmp_path, model.base_url("openai-chat"), keys)
        state_dir = tmp_path / "state"
        expect(model, is_file=what == "upload")
        target = f"adapters.wecom.adapter:WecomAdapter.{what}"
        async with clawbot(config, "worker"):
            async with killed_at(config, "wecom", target) as dying:
                wecom.pusher.url = await until_listening(keys["listen_port"], WAIT_S * 2) + "/wecom"
                await asyncio.to_thread(put_paper, state_dir)
                await arm(config)
                wecom.user_says(ALICE, "hello")
                await dying.ended()
            async with clawbot(config, "adapter", "wecom"):
                sent = ("sent", "")
                await until_replies(config, *([sent] * (2 if what == "upload" else 1)))
        assert wecom.sent()[-1] == "here"
        assert len(wecom.shown) == (2 if what == "upload" else 1)
        assert [file.data for file in wecom.files] == ([PAPER] if what == "upload" else [])
        assert len(wecom.dropped) == 1


async def test_a_bots_stream_whose_end_was_shown_is_found_and_not_shown_twice(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with AibotSimulator() as aibot:
        config = write_channel(tmp_path, model.base_url("openai-chat"), bot_keys(aibot, "socket"))
        gate = model.hold("hello")
        model.expect(Reply(text="here"), when="hello")
        target = "adapters.wecom.bot_adapter:WecomBotAdapter._grow"
        async with clawbot(config, "worker"):
            async with killed_at(config, "wecom_bot", target) as dying:
                await aibot.wait_linked(timeout_s=WAIT_S * 2)
                aibot.user_says(ALICE, "hello")
                await gate.reached
                await arm(config)
                gate.release()
                await dying.ended()
            async with clawbot(config, "adapter", "wecom_bot"):
                await until_replies(config, ("sent", ""))
        assert aibot.sent(ALICE) == ["here"]
        assert aibot.shown[0].is_finished


def put_paper(state_dir: Path) -> None:
    work_dir = work_dir_of(state_dir, SessionKey.of_chat("wecom", ALICE))
    make_work_dir(state_dir, work_dir)
    (work_dir / "paper.pdf").write_bytes(PAPER)


def expect(model: ModelSimulator, *, is_file: bool) -> None:
    """The model answers, perhaps after it has sent a file."""
    more: dict[str, Any] = {"when": "hello"}
    if is_file:
        call = ToolCall(name="send_file", arguments={"path": "paper.pdf"})
        model.expect(Reply(tool_calls=(call,)), **more)
        more = {"marker": "paper.pdf ("}
    model.expect(Reply(text="here"), **more)
