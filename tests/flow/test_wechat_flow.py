"""WeChat simulator → callback → store → worker → model simulator → WeChat, within its limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import func, select

from clawbot.store import outbox
from clawbot.store.schema import turns
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
LONG = "\n\n".join(f"段落 {number}：" + "字" * 300 for number in range(1, 16))


@asynccontextmanager
async def connected(
    folder: Path, model: ModelSimulator, wechat: WechatSimulator, *, may_send: bool
) -> AsyncIterator[Daemon]:
    wechat.may_send = may_send
    keys = wechat_keys(wechat, customer_service=may_send, attempt_s=wechat.attempt_s)
    config = write_channel(folder, model.base_url("openai-chat"), keys)
    async with run_daemon(config, "worker", "wechat") as daemon:
        wechat.pusher.url = await until_listening(keys["listen_port"]) + "/wechat"
        yield daemon


@pytest.fixture
def attempt_s() -> float:
    """WeChat's own five seconds; tests that wait for attempts to pass have shorter ones."""
    return 5.0


short_attempts = pytest.mark.parametrize("attempt_s", [1.0])


@pytest.fixture(params=["plain", "safe"])
async def wechat(
    request: pytest.FixtureRequest, attempt_s: float
) -> AsyncIterator[WechatSimulator]:
    async with WechatSimulator(mode=request.param, attempt_s=attempt_s) as simulator:
        yield simulator


@pytest.fixture
async def passive(
    tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> AsyncIterator[Daemon]:
    """An account without the customer-service permission."""
    async with connected(tmp_path, model, wechat, may_send=False) as daemon:
        yield daemon


@pytest.fixture
async def service(
    tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> AsyncIterator[Daemon]:
    """An account with the customer-service permission."""
    async with connected(tmp_path, model, wechat, may_send=True) as daemon:
        yield daemon


@pytest.fixture(params=[False, True], ids=["passive", "service"])
async def either(
    request: pytest.FixtureRequest, tmp_path: Path, model: ModelSimulator, wechat: WechatSimulator
) -> AsyncIterator[Daemon]:
    """Both kinds of accounts."""
    async with connected(tmp_path, model, wechat, may_send=request.param) as daemon:
        yield daemon


async def turn_count(daemon: Daemon) -> int:
    query = select(func.count()).select_from(turns)
    return await daemon.store.read(lambda tx: tx.conn.execute(query).scalar_one())


async def until_held(daemon: Daemon, count: int = 1) -> None:
    await daemon.until(outbox.count_by_state, lambda counts: counts.get("held", 0) == count)


# -- in time ---------------------------------------------------------------------------------------


async def test_a_quick_answer_travels_in_the_response(
    either: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    model.expect(Reply(text="**四** = `a[b[0]]>1`"), when="2+2?")
    wechat.user_says(ALICE, "2+2?")
    assert await wechat.wait_sent(1) == ["四 = a[b[0]]>1"]
    await either.until_quiet()
    assert wechat.ways(ALICE) == ["response"]
    assert wechat.calls == []


async def test_a_command_is_answered_in_the_response(
    passive: Daemon, wechat: WechatSimulator
) -> None:
    wechat.user_says(ALICE, "/status")
    (text,) = await wechat.wait_sent(1)
    assert text
    await passive.until_quiet()
    assert wechat.ways(ALICE) == ["response"]


# -- too late for the first attempt ----------------------------------------------------------------


@short_attempts
async def test_with_customer_service_a_late_answer_is_sent_on_its_own(
    service: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    gate = model.hold("slow")
    model.expect(Reply(text="done"), when="slow")
    delivery = wechat.user_says(ALICE, "slow")
    await wechat.wait_settled()
    assert (delivery.attempts, delivery.answers) == (1, [""])
    gate.release()
    assert await wechat.wait_sent(1) == ["done"]
    await service.until_quiet()
    assert wechat.ways(ALICE) == ["message"]


@pytest.mark.parametrize(("attempt", "attempt_s"), [(2, 1.0), (3, 2.5)])
async def test_without_it_a_later_attempt_carries_the_answer(
    passive: Daemon, model: ModelSimulator, wechat: WechatSimulator, attempt: int
) -> None:
    gate = model.hold("slow")
    model.expect(Reply(text="done"), when="slow")
    delivery = wechat.user_says(ALICE, "slow")
    await wechat.pusher.wait_attempt(delivery, attempt)
    gate.release()
    assert await wechat.wait_sent(1) == ["done"]
    await passive.until_quiet()
    assert (delivery.attempts, wechat.ways(ALICE)) == (attempt, ["response"])
    assert await turn_count(passive) == 1


@short_attempts
async def test_an_answer_between_two_attempts_waits_for_the_next(
    passive: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    gate = model.hold("slow")
    model.expect(Reply(text="done"), when="slow")
    wechat.pusher.pause_between_attempts()
    delivery = wechat.user_says(ALICE, "slow")
    await wechat.pusher.wait_paused()
    gate.release()
    await until_held(passive)
    wechat.pusher.go_on()
    assert await wechat.wait_sent(1) == ["done"]
    await passive.until_quiet()
    assert delivery.attempts == 2


@short_attempts
async def test_an_answer_after_the_last_attempt_is_fetched_with_one_word(
    passive: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    gate = model.hold("很慢")
    model.expect(Reply(text="完成"), when="很慢")
    wechat.user_says(ALICE, "很慢")
    (notice,) = await wechat.wait_sent(1)
    assert "发送 1" in notice
    gate.release()
    await until_held(passive)
    wechat.user_says(ALICE, "1")
    assert (await wechat.wait_sent(2))[1] == "完成"
    await passive.until_quiet()
    assert (await turn_count(passive), wechat.ways(ALICE)) == (1, ["response"] * 2)


@short_attempts
async def test_asking_for_an_answer_that_is_not_ready_waits_for_it(
    passive: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    gate = model.hold("slow")
    model.expect(Reply(text="done"), when="slow")
    wechat.user_says(ALICE, "slow")
    await wechat.wait_sent(1)
    fetch = wechat.user_says(ALICE, "1")
    await wechat.pusher.wait_attempt(fetch, 2)
    gate.release()
    assert (await wechat.wait_sent(2))[1] == "done"
    await passive.until_quiet()
    assert await turn_count(passive) == 1


async def test_a_bare_one_is_an_ordinary_message_when_nothing_waits(
    passive: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    model.expect(Reply(text="one what?"), when="1")
    wechat.user_says(ALICE, "1")
    assert await wechat.wait_sent(1) == ["one what?"]
    await passive.until_quiet()


# -- trouble on the way ----------------------------------------------------------------------------


async def test_an_answer_whose_response_was_lost_is_shown_once(
    either: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    wechat.lose_responses(1)
    model.expect(Reply(text="here"), when="hello")
    delivery = wechat.user_says(ALICE, "hello")
    assert await wechat.wait_sent(1) == ["here"]
    await wechat.wait_settled()
    await either.until_quiet()
    assert (wechat.sent(), delivery.attempts) == (["here"], 2)
    assert await turn_count(either) == 1


@short_attempts
async def test_a_restart_between_two_attempts_loses_nothing(
    passive: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    gate = model.hold("slow")
    model.expect(Reply(text="done"), when="slow")
    wechat.pusher.pause_between_attempts()
    wechat.user_says(ALICE, "slow")
    await wechat.pusher.wait_paused()
    await passive.stop("wechat")
    gate.release()
    await passive.start("wechat")
    await until_listening(int(wechat.pusher.url.split(":")[2].split("/")[0]))
    wechat.pusher.go_on()
    assert await wechat.wait_sent(1) == ["done"]
    await passive.until_quiet()
    assert await turn_count(passive) == 1


async def test_two_messages_are_each_answered_once(
    passive: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    gate = model.hold("first")
    model.expect(Reply(text="to the first"), when="first")
    model.expect(Reply(text="to the second"), when="second")
    wechat.user_says(ALICE, "first")
    await gate.reached
    wechat.user_says(ALICE, "second")
    gate.release()
    await wechat.wait_sent(2)
    await wechat.wait_settled()
    await passive.until_quiet()
    assert sorted(wechat.sent()) == ["to the first", "to the second"]


# -- long answers ----------------------------------------------------------------------------------


def joined(texts: list[str]) -> str:
    """What the texts say without hints and white space."""
    words = "".join(texts).replace("（未完，发送 1 看后续）", "")
    return "".join(words.split())


async def test_without_customer_service_a_long_answer_is_read_on_by_asking(
    passive: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    model.expect(Reply(text=LONG), when="讲")
    wechat.user_says(ALICE, "讲")
    await wechat.wait_sent(1)
    while "发送 1" in wechat.sent()[-1]:
        count = len(wechat.sent())
        wechat.user_says(ALICE, "1")
        await wechat.wait_sent(count + 1)
    await passive.until_quiet()
    assert joined(wechat.sent()) == "".join(LONG.split())
    assert set(wechat.ways(ALICE)) == {"response"}
    assert await turn_count(passive) == 1


@pytest.mark.parametrize("attempt_s", [2.0])
async def test_with_customer_service_a_long_answer_stays_within_the_quota(
    service: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    model.expect(Reply(text=LONG), when="讲")
    wechat.user_says(ALICE, "讲")
    await wechat.wait_sent(6)
    await until_held(service)
    assert wechat.ways(ALICE) == ["response"] + ["message"] * 5
    assert "发送 1" in wechat.sent()[-1]
    wechat.user_says(ALICE, "1")
    await service.until_quiet()
    await wechat.wait_settled()
    await daemon_has_sent_all(service)
    assert joined(wechat.sent()) == "".join(LONG.split())
    assert wechat.refused() == []
    assert await turn_count(service) == 1


async def daemon_has_sent_all(daemon: Daemon) -> None:
    await daemon.until(outbox.count_by_state, lambda counts: counts.keys() == {"sent"})


# -- several adapter processes ---------------------------------------------------------------------


@short_attempts
async def test_of_two_processes_the_one_that_holds_the_newest_attempt_answers(
    passive: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    async with second_adapter(passive) as url:
        gate = model.hold("slow")
        model.expect(Reply(text="done"), when="slow")
        wechat.pusher.pause_between_attempts()
        delivery = wechat.user_says(ALICE, "slow")
        await wechat.pusher.wait_paused()
        wechat.pusher.url = url
        wechat.pusher.go_on()
        await wechat.pusher.wait_attempt(delivery, 2)
        gate.release()
        assert await wechat.wait_sent(1) == ["done"]
        await passive.until_quiet()
        assert await turn_count(passive) == 1


async def test_what_one_process_answered_in_vain_the_other_answers_again(
    either: Daemon, model: ModelSimulator, wechat: WechatSimulator
) -> None:
    async with second_adapter(either) as url:
        model.expect(Reply(text="here"), when="hello")
        wechat.lose_responses(1)
        wechat.pusher.pause_between_attempts()
        wechat.user_says(ALICE, "hello")
        await wechat.pusher.wait_paused()
        await daemon_has_sent_all(either)
        wechat.pusher.url = url
        wechat.pusher.go_on()
        assert await wechat.wait_sent(1) == ["here"]
        await wechat.wait_settled()
        await daemon_has_sent_all(either)
        assert (wechat.sent(), await turn_count(either)) == (["here"], 1)
