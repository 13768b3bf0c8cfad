"""The WeChat adapter's own messages, in front of the simulator: tokens, limits, failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.notes import OwnNotes
from adapters.wechat.adapter import WechatAdapter, open_adapter
from adapters.wechat.budget import Budget
from adapters.wechat.config import WechatConfig
from adapters.wechat.tokens import Token, TokenCache
from clawbot.clock import SystemClock
from clawbot.errors import ChannelBroken, NotSent, OutcomeUnknown, Rejected, WindowClosed
from clawbot.messages import OutboundPart, ReplyRoute
from tests.simulators.wechat import FOREVER, WechatSimulator

ALICE = "oAliceSimulated0000000000001"


class MovableClock(SystemClock):
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.moved_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + round(self.moved_s * 1000)

    def monotonic(self) -> float:
        return super().monotonic() + self.moved_s


@pytest.fixture
async def wechat() -> AsyncIterator[WechatSimulator]:
    async with WechatSimulator() as simulator:
        simulator._allow(ALICE, 5, 1000.0)
        yield simulator


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


Open = Callable[..., WechatAdapter]


@pytest.fixture
async def opened(wechat: WechatSimulator, clock: MovableClock) -> AsyncIterator[Open]:
    adapters: list[WechatAdapter] = []

    def open_one(**keys: Any) -> WechatAdapter:
        known = {
            "app_id": wechat.app_id,
            "token": SecretStr(wechat.token),
            "customer_service": True,
            "app_secret": SecretStr(wechat.app_secret),
            "api_base_url": wechat.api_url,
        }
        adapters.append(open_adapter("wechat", WechatConfig(**known | keys), clock))
        return adapters[-1]

    yield open_one
    for adapter in adapters:
        await adapter.close()


async def _never(_force: bool) -> Token:
    await asyncio.Event().wait()
    raise AssertionError


async def until(look: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not look():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def part(text: str = "hello", *, part_no: int = 0, count: int = 1) -> OutboundPart:
    route = ReplyRoute(chat_id=ALICE, token="m1")
    return OutboundPart(
        channel="wechat", route=route, key="k", part_no=part_no, text=text, part_count=count
    )


async def test_a_message_is_sent_as_readable_text(opened: Open, wechat: WechatSimulator) -> None:
    await opened().send(part("**中文** & `<xml>`"))
    assert wechat.sent(ALICE) == ["中文 & <xml>"]


async def test_ten_sends_at_once_share_one_token(opened: Open, wechat: WechatSimulator) -> None:
    wechat._allow(ALICE, 10, 1000.0)
    adapter = opened()
    await asyncio.gather(*(adapter.send(part(f"{number}")) for number in range(5)))
    assert wechat.tokens_made == 1


async def test_many_processes_share_one_fetch_of_the_token(
    opened: Open, wechat: WechatSimulator, clock: MovableClock
) -> None:
    wechat._allow(ALICE, 20, 1000.0)
    notes = OwnNotes(clock)
    adapters = [opened() for _ in range(4)]
    for adapter in adapters:
        adapter.share_with(notes.change, lambda: 1)
    wechat.fail_next("stable_token", "slow:0.2")
    await asyncio.gather(*(adapter.check() for adapter in adapters))
    for adapter in adapters:
        await adapter.send(part())
    assert wechat.tokens_asked == 1
    wechat.expire_token()
    await asyncio.gather(*(adapter.send(part()) for adapter in adapters[:1]))
    assert wechat.tokens_asked == 2


async def test_a_process_that_died_while_it_fetched_holds_nobody_up(
    opened: Open, wechat: WechatSimulator, clock: MovableClock
) -> None:
    notes = OwnNotes(clock)
    dead, alive = opened(), opened()
    for adapter in (dead, alive):
        adapter.share_with(notes.change, lambda: 1)
    busy = TokenCache(clock, notes.change, f"{wechat.app_id}/{wechat.app_secret}", _never)
    fetching = asyncio.create_task(busy.get())
    await until(lambda: bool(notes._notes))
    clock.moved_s = 16
    await alive.check()
    fetching.cancel()
    assert wechat.tokens_asked == 1


async def test_an_expired_token_is_renewed_and_the_message_sent_once(
    opened: Open, wechat: WechatSimulator
) -> None:
    adapter = opened()
    await adapter.send(part("before"))
    wechat.expire_token()
    await adapter.send(part("after"))
    assert wechat.sent(ALICE) == ["before", "after"]
    assert wechat.tokens_made == 2


async def test_a_token_that_stays_refused_is_not_asked_for_again_and_again(
    opened: Open, wechat: WechatSimulator
) -> None:
    adapter = opened()
    wechat.stick_token(40001)
    for _ in range(5):
        with pytest.raises(NotSent):
            await adapter.send(part())
    assert wechat.tokens_made == 2  # the first one, and one that was insisted on
    assert len(wechat.calls) == 10
    wechat.stick_token(0)
    await adapter.send(part("again"))
    assert wechat.sent(ALICE) == ["again"]


async def test_a_token_is_renewed_before_it_ends(
    opened: Open, wechat: WechatSimulator, clock: MovableClock
) -> None:
    adapter = opened()
    await adapter.send(part())
    clock.moved_s = 7200 - 200
    wechat.expire_token()
    await adapter.send(part())
    assert [call.code for call in wechat.calls] == [0, 0]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("error:-1", NotSent),
        ("error:45009", NotSent),
        ("error:45015", WindowClosed),
        ("error:45047", WindowClosed),
        ("error:48001", WindowClosed),
        ("error:43004", WindowClosed),
        ("error:40003", Rejected),
        ("error:45002", Rejected),
        ("error:99999", Rejected),
        ("http:404", NotSent),
        ("http:502", OutcomeUnknown),
        ("html", OutcomeUnknown),
        ("reset_before", OutcomeUnknown),
        ("reset_after", OutcomeUnknown),
    ],
)
async def test_a_failure_says_what_to_do(
    opened: Open, wechat: WechatSimulator, fault: str, error: type[Exception]
) -> None:
    wechat.fail_next("send", fault)
    with pytest.raises(error):
        await opened().send(part())


@pytest.mark.parametrize("fault", ["http:502", "html", "reset_before", "error:40125", "error:-1"])
async def test_without_a_token_nothing_is_sent(
    opened: Open, wechat: WechatSimulator, fault: str
) -> None:
    wechat.fail_next("stable_token", fault)
    with pytest.raises(NotSent):
        await opened().send(part())
    assert wechat.sent() == []


async def test_an_account_without_the_permission_goes_on_answering_requests_only(
    opened: Open, wechat: WechatSimulator
) -> None:
    wechat.may_send = False
    adapter = opened()
    for _ in range(2):
        with pytest.raises(WindowClosed):
            await adapter.send(part())
    assert len(wechat.calls) == 1
    assert "48001" in adapter.health().facts["customer_service"]


async def test_no_more_than_five_messages_are_tried_and_the_last_one_says_so(
    opened: Open, wechat: WechatSimulator
) -> None:
    adapter = opened()
    for number in range(5):
        await adapter.send(part(f"{number}", part_no=number, count=8))
    with pytest.raises(WindowClosed):
        await adapter.send(part("5", part_no=5, count=8))
    assert ["send 1" in text for text in wechat.sent()] == [False] * 4 + [True]
    assert wechat.refused() == []
    await adapter._budget.renew(ALICE, "m2", by_event=False)
    wechat._allow(ALICE, 5, 1000.0)
    await adapter.send(part("5", part_no=5, count=8))


async def test_an_event_allows_less_but_takes_nothing_away(clock: MovableClock) -> None:
    budget = Budget(clock, OwnNotes(clock).change)

    async def left() -> int:
        return (await budget.look(ALICE)).left_at(clock.now_ms())

    await budget.renew(ALICE, "click 1", by_event=True)
    assert await left() == 5  # a chat that was not known has what words allow
    for _ in range(3):
        await budget.take(ALICE)
    await budget.renew(ALICE, "click 1", by_event=True)
    assert await left() == 2  # a further attempt at the same click
    await budget.renew(ALICE, "click 2", by_event=True)
    assert await left() == 3
    clock.moved_s = 61
    assert await left() == 0
    await budget.renew(ALICE, "m1", by_event=False)
    await budget.renew(ALICE, "click 3", by_event=True)
    assert await left() == 5


async def test_what_surely_did_not_go_out_is_not_counted(
    opened: Open, wechat: WechatSimulator
) -> None:
    adapter = opened()
    for _ in range(7):
        wechat.fail_next("send", "error:-1")
        with pytest.raises(NotSent):
            await adapter.send(part())
    for _ in range(5):
        await adapter.send(part())
    assert len(wechat.sent(ALICE)) == 5


async def test_what_may_have_gone_out_is_counted(opened: Open, wechat: WechatSimulator) -> None:
    adapter = opened()
    wechat.fail_next("send", "reset_after", times=5)
    for _ in range(5):
        with pytest.raises(OutcomeUnknown):
            await adapter.send(part())
    with pytest.raises(WindowClosed):
        await adapter.send(part())
    assert wechat.refused() == []


async def test_typing_is_shown_where_the_account_may(opened: Open, wechat: WechatSimulator) -> None:
    adapter = opened()
    wechat.fail_next("typing", "error:45081")
    for active in (True, True, False):
        await adapter.typing(ReplyRoute(chat_id=ALICE), active=active)
    assert wechat.typing == [(ALICE, "Typing")]
    await opened(customer_service=False).typing(ReplyRoute(chat_id=ALICE), active=True)
    assert len(wechat.typing) == 1


async def test_a_wrong_secret_is_told_at_the_start(opened: Open) -> None:
    with pytest.raises(ChannelBroken, match="app_secret"):
        await opened(app_secret=SecretStr("wrong")).check()


async def test_an_unreachable_wechat_is_no_reason_to_give_up(
    opened: Open, wechat: WechatSimulator
) -> None:
    wechat.fail_next("stable_token", "http:502", FOREVER)
    adapter = opened()
    assert (await adapter.check()).state == "degraded"
    wechat.faults.clear()
    await adapter.send(part())
    assert adapter.health().state == "up"


async def test_a_request_that_is_not_held_any_more_is_no_way(opened: Open) -> None:
    inline = OutboundPart(
        channel="wechat",
        route=ReplyRoute(chat_id=ALICE, token="m1"),
        key="k",
        part_no=0,
        text="x",
        is_inline=True,
    )
    with pytest.raises(NotSent):
        await opened().send(inline)
