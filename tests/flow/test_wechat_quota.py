"""The five messages of customer service: never more, whatever restarts and however many send."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.messages import ReplyRoute
from clawbot.ports import Transaction
from clawbot.store import outbox
from tests.flow.daemon import Daemon, run_daemon
from tests.flow.wechat_ground import (
    second_adapter,
    until_listening,
    wechat_keys,
    write_channel,
)
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.wechat import WechatSimulator

ALICE = "oAliceSimulated0000000000001"
COUNT = 12


@pytest.fixture
async def wechat() -> AsyncIterator[WechatSimulator]:
    async with WechatSimulator() as simulator:
        yield simulator


@pytest.fixture
async def daemon(
    tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> AsyncIterator[Daemon]:
    """A daemon on an account with customer service, whose person wrote once and was answered."""
    keys = wechat_keys(wechat, customer_service=True, attempt_s=wechat.attempt_s)
    config = write_channel(tmp_path, model.base_url("openai-chat"), keys)
    async with run_daemon(config, "worker", "wechat") as daemon:
        wechat.pusher.url = await until_listening(keys["listen_port"]) + "/wechat"
        model.expect(Reply(text="hello"), when="hi")
        wechat.user_says(ALICE, "hi")
        await wechat.wait_sent(1)
        await daemon.until_quiet()
        yield daemon


async def report(daemon: Daemon, first: int, count: int) -> None:
    """Messages for the chat that nobody asked for, as finished tasks send them."""

    def unit(tx: Transaction) -> None:
        for number in range(first, first + count):
            outbox.add(
                tx,
                channel="wechat",
                route=ReplyRoute(chat_id=ALICE),
                state="pending",
                text=f"task {number} is done",
                now_ms=SystemClock().now_ms(),
                skips_lane=True,  # so that several are sent at once
            )

    await daemon.store.write(unit)


async def until_counted(daemon: Daemon, **wanted: int) -> None:
    await daemon.until(outbox.count_by_state, lambda counts: counts == wanted)


async def test_a_restart_does_not_renew_what_may_be_sent(
    daemon: Daemon, wechat: WechatSimulator
) -> None:
    await report(daemon, 0, 3)
    await until_counted(daemon, sent=4)
    await daemon.stop("wechat")
    await daemon.start("wechat")
    await report(daemon, 3, 5)
    await until_counted(daemon, sent=6, held=3)
    assert wechat.refused() == []
    assert wechat.ways(ALICE).count("message") == 5


async def test_two_processes_together_send_no_more_than_five(
    daemon: Daemon, wechat: WechatSimulator
) -> None:
    async with second_adapter(daemon):
        await report(daemon, 0, COUNT)
        await until_counted(daemon, sent=6, held=COUNT - 5)
    assert wechat.refused() == []
    assert wechat.ways(ALICE).count("message") == 5
    assert len(set(wechat.sent(ALICE))) == 6
    assert wechat.tokens_asked == 1  # the second took over the token of the first


async def test_the_next_words_bring_what_was_left(
    daemon: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    await report(daemon, 0, 7)
    await until_counted(daemon, sent=6, held=2)
    model.expect(Reply(text="you are welcome"), when="thanks")
    wechat.user_says(ALICE, "thanks")
    await wechat.wait_sent(9)
    await until_counted(daemon, sent=9)
    assert sorted(wechat.sent(ALICE)[1:]) == sorted(
        [*(f"task {number} is done" for number in range(7)), "you are welcome"]
    )
    assert wechat.refused() == []
