"""The AI bot's adapter in front of the simulator: the long connection's troubles, and streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from adapters.wecom.bot_adapter import WecomBotAdapter, open_adapter
from adapters.wecom.bot_inbound import BotRoute
from adapters.wecom.bot_socket import Timings
from adapters.wecom.config import WecomBotConfig
from clawbot.clock import SystemClock
from clawbot.errors import ChannelBroken, NotSent, OutcomeUnknown, Rejected, StoreUnavailable
from clawbot.messages import Accepted, InboundMessage, MessageRef, OutboundPart, ReplyRoute
from clawbot.ports import Clock
from tests.simulators.wechat import AibotSimulator

QUICK = Timings(
    connect_s=2.0, answer_s=0.3, ping_s=0.1, backoff_s=0.05, max_backoff_s=0.2, kicked_s=0.3
)


@dataclass
class Desk:
    """Stands for the core."""

    messages: list[InboundMessage] = field(default_factory=list)
    refusals: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, message: InboundMessage) -> Accepted:
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailable
        self.messages.append(message)
        self.changed.set()
        return Accepted(inbox_id=len(self.messages), decision="queued")

    async def next(self) -> InboundMessage:
        async with asyncio.timeout(10):
            await self.changed.wait()
            self.changed.clear()
        return self.messages[-1]


@pytest.fixture
async def aibot() -> AsyncIterator[AibotSimulator]:
    async with AibotSimulator() as simulator:
        yield simulator


def adapter_for(
    aibot: AibotSimulator, timings: Timings = QUICK, clock: Clock | None = None, **keys: Any
) -> WecomBotAdapter:
    known = {
        "bot_id": aibot.bot_id,
        "secret": SecretStr(aibot.secret),
        "socket_url": aibot.socket_url,
    }
    return open_adapter(
        "bot", WecomBotConfig(**known | keys), clock or SystemClock(), timings=timings
    )


@asynccontextmanager
async def receiving(
    aibot: AibotSimulator, desk: Desk, timings: Timings = QUICK, **keys: Any
) -> AsyncIterator[WecomBotAdapter]:
    adapter = adapter_for(aibot, timings, **keys)
    task = asyncio.create_task(adapter.receive(desk))
    try:
        await aibot.wait_linked()
        yield adapter
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await adapter.close()


def part(message: InboundMessage, text: str, **fields: Any) -> OutboundPart:
    route = ReplyRoute(chat_id=message.chat_id, token=message.reply_token)
    values = {"channel": "bot", "route": route, "key": "k", "part_no": 0, "text": text}
    return OutboundPart(**values | fields)


async def test_an_answer_grows_and_ends(aibot: AibotSimulator) -> None:
    desk = Desk()
    async with receiving(aibot, desk) as adapter:
        aibot.user_says("alice", "hi")
        message = await desk.next()
        ref = await adapter.send(part(message, "one", is_final=False, progress="reading"))
        await adapter.edit(ref, part(message, "one two"))
    (shown,) = aibot.shown
    assert shown.revisions == ["one\n\n⏳ reading", "one two"]
    assert shown.is_finished


async def test_a_store_that_is_away_is_waited_for(aibot: AibotSimulator) -> None:
    desk = Desk(refusals=1)
    async with receiving(aibot, desk):
        aibot.user_says("alice", "hi")
        assert (await desk.next()).text == "hi"


async def test_a_frame_without_an_answer_is_no_reason_for_a_second_message(
    aibot: AibotSimulator,
) -> None:
    desk = Desk()
    async with receiving(aibot, desk) as adapter:
        aibot.user_says("alice", "hi")
        message = await desk.next()
        aibot.fail_next("aibot_respond_msg", -999)
        with pytest.raises(OutcomeUnknown):
            await adapter.send(part(message, "x"))
        assert await adapter.lookup(part(message, "x")) is not None  # shown once more, and once
        aibot.fail_next("aibot_send_msg", -999)
        with pytest.raises(OutcomeUnknown):
            await adapter.send(part(message, "y", part_no=1))


async def test_a_stream_that_is_over_gives_way_to_a_message_with_the_whole_text(
    aibot: AibotSimulator,
) -> None:
    desk = Desk()
    async with receiving(aibot, desk) as adapter:
        aibot.user_says("alice", "hi")
        message = await desk.next()
        ref = await adapter.send(part(message, "half", is_final=False))
        aibot.fail_next("aibot_respond_msg", 846608, times=2)
        with pytest.raises(NotSent):
            await adapter.edit(ref, part(message, "half more", is_final=False))
        await adapter.edit(ref, part(message, "all of it"))
    assert [(shown.way, shown.text) for shown in aibot.shown] == [
        ("stream", "half"),
        ("message", "all of it"),
    ]


async def test_a_refused_message_is_given_up(aibot: AibotSimulator) -> None:
    desk = Desk()
    async with receiving(aibot, desk) as adapter:
        aibot.user_says("alice", "hi")
        message = await desk.next()
        aibot.fail_next("aibot_send_msg", 93006)
        with pytest.raises(Rejected):
            await adapter.send(part(message, "y", part_no=1))


@pytest.mark.parametrize("code", [1000, 1001, 1011])
async def test_every_close_is_followed_by_a_new_connection(
    aibot: AibotSimulator, code: int
) -> None:
    desk = Desk()
    async with receiving(aibot, desk):
        for number in (2, 3):
            await aibot.close_link(code)
            await aibot.wait_linked(number)
        aibot.user_says("alice", "still there?")
        assert (await desk.next()).text == "still there?"


async def test_a_connection_whose_pings_are_not_answered_is_replaced(
    aibot: AibotSimulator,
) -> None:
    async with receiving(aibot, Desk()):
        aibot.mute_pings = True
        await aibot.wait_linked(2)
        aibot.mute_pings = False


async def test_a_kicked_connection_is_left_though_it_stays_open(aibot: AibotSimulator) -> None:
    async with receiving(aibot, Desk()) as adapter:
        await aibot.kick()
        await aibot.bell.until(
            lambda: "kicked" in adapter.health().detail or aibot.subscriptions > 1,
            timeout_s=10,
            what=lambda: "the kick",
        )
        await aibot.wait_linked(2)


async def test_a_bot_that_stays_refused_ends_with_advice(aibot: AibotSimulator) -> None:
    adapter = adapter_for(aibot, secret=SecretStr("wrong"))
    with pytest.raises(ChannelBroken, match="check bot_id and secret"):
        async with asyncio.timeout(10):
            await adapter.receive(Desk())
    assert adapter.health().state == "broken"


async def test_a_refusal_on_the_way_is_tried_again(aibot: AibotSimulator) -> None:
    async with receiving(aibot, Desk()):
        aibot.refuse_subscriptions = 2
        await aibot.close_link(1001)
        await aibot.wait_linked(2)


async def test_without_a_connection_nothing_is_sent(aibot: AibotSimulator) -> None:
    adapter = adapter_for(aibot)
    message = InboundMessage(
        channel="bot",
        identity="M",
        chat_id="alice",
        chat_type="dm",  # type: ignore[arg-type]
        sender=None,  # type: ignore[arg-type]
        text="",
        raw="",
        reply_token='{"stream":"S","request":"R"}',
    )
    with pytest.raises(NotSent):
        await adapter.send(part(message, "x"))
    with pytest.raises(NotSent):
        await adapter.edit(MessageRef(id="stream:S"), part(message, "x"))


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"mode": "socket"}, "mode: socket needs both"),
        ({"mode": "webhook"}, "mode: webhook needs both"),
        ({"bot_id": "a", "secret": "s", "socket_url": "ws://e.com"}, "clear text"),
        ({"bot_id": "a", "secret": "s", "socket_url": "https://e.com"}, "not a ws"),
    ],
)
def test_a_bad_config_says_what_to_do(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        WecomBotConfig.model_validate(keys)


# -- what another process left behind --------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "is_there"), [(0, True), (846609, True), (846608, False), (846605, False)]
)
async def test_an_end_that_another_process_began_is_found_or_stays_unknown(
    aibot: AibotSimulator, code: int, *, is_there: bool
) -> None:
    desk = Desk()
    async with receiving(aibot, desk) as adapter:
        aibot.user_says("alice", "hi")
        message = await desk.next()
        await adapter._note_end(BotRoute.decode(message.reply_token).stream)
        if code:
            aibot.fail_next("aibot_respond_msg", code)
        if is_there:
            assert await adapter.lookup(part(message, "x")) is not None
        else:
            with pytest.raises(Rejected):
                await adapter.lookup(part(message, "x"))
    assert [shown.way for shown in aibot.shown] == ([] if code else ["stream"])


async def test_what_is_no_stream_cannot_be_looked_up(aibot: AibotSimulator) -> None:
    desk = Desk()
    async with receiving(aibot, desk) as adapter:
        aibot.user_says("alice", "hi")
        message = await desk.next()
        with pytest.raises(Rejected):
            await adapter.lookup(part(message, "y", part_no=1))


class Sleeper(SystemClock):
    """Sleeps at once, and remembers for how long it was told to."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0.01)


async def test_two_that_run_one_bot_kick_each_other_more_and_more_seldom(
    aibot: AibotSimulator,
) -> None:
    clock = Sleeper()
    quiet = Timings(ping_s=10.0, backoff_s=1.0)
    adapters = [adapter_for(aibot, quiet, clock=clock) for _ in range(2)]
    tasks = [asyncio.create_task(adapter.receive(Desk())) for adapter in adapters]
    await aibot.wait_linked(8)
    health = [adapter.health() for adapter in adapters]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    waits = [seconds for seconds in clock.slept if seconds > 40]
    assert max(waits[-2:]) > 3 * min(waits[:2])
    assert any("another connection" in each.detail for each in health)
    assert {each.state for each in health} <= {"up", "degraded"}
