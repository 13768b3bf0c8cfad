"""The WeChat and WeCom adapters keep the adapter contract, over each way they are reached."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from clawbot.errors import ChannelBroken, NotSent, OutcomeUnknown, Rejected
from clawbot.messages import MessageRef, OutboundFile
from tests.contracts.adapters import AdapterContract
from tests.contracts.adapters.ground import Recorder, again, part_on, until
from tests.contracts.adapters.receiving import ReceivingClauses
from tests.contracts.adapters.sending import SendingClauses
from tests.contracts.adapters.wechat import (
    BotGround,
    LinkedBotGround,
    WechatGround,
    WecomGround,
)
from tests.simulators.wechat import AibotSimulator, WechatSimulator, WecomSimulator

PICTURE = b"\x89PNG\r\n\x1a\n picture"
PICTURE_FILE = OutboundFile(name="图 1.png", mime="image/png", size_bytes=len(PICTURE), blob="x")


class TestOfficialAccount(AdapterContract):
    """See `tests.contracts.adapters`; with customer service, in plain and in safe mode."""

    @pytest.fixture(params=["plain", "safe"])
    async def ground(self, request: pytest.FixtureRequest) -> AsyncIterator[WechatGround]:
        """An account that somebody follows."""
        async with WechatSimulator(mode=request.param) as simulator:
            yield WechatGround(simulator)

    async def test_a_file_arrives_with_its_name_and_its_bytes(  # type: ignore[override]
        self, ground: WechatGround
    ) -> None:
        """The account's messages know pictures, and no files such as the contract's."""
        async with ground.opened() as adapter:
            await adapter.upload(part_on(ground, "no file", file=PICTURE_FILE), PICTURE)
        assert ground.files() == [(PICTURE_FILE.name, PICTURE)]
        assert ground.shown() == []


class TestWecomApp(AdapterContract):
    """See `tests.contracts.adapters`."""

    @pytest.fixture
    async def ground(self) -> AsyncIterator[WecomGround]:
        """An app with a member."""
        async with WecomSimulator() as simulator:
            yield WecomGround(simulator)


class TestBotReceives(ReceivingClauses):
    """See `tests.contracts.adapters`."""

    @pytest.fixture(params=["socket", "webhook"])
    async def ground(self, request: pytest.FixtureRequest) -> AsyncIterator[BotGround]:
        """A bot with somebody who may talk to it."""
        async with AibotSimulator() as simulator:
            yield BotGround(simulator, request.param)

    async def test_who_we_are_is_proved_at_the_start(  # type: ignore[override]
        self, ground: BotGround
    ) -> None:
        """Only the connection itself proves it."""
        if ground.mode == "webhook":
            async with ground.opened() as adapter, ground.receiving(adapter, Recorder()):
                assert await ground.ask_with_a_wrong_signature() == 403
            return
        async with ground.opened(secret_is_wrong=True) as adapter:
            with pytest.raises(ChannelBroken, match=ground.channel):
                await adapter.receive(Recorder())


class TestBotSends(SendingClauses):
    """By the long connection; what a webhook's answers can carry is in the flow tests."""

    @pytest.fixture
    async def ground(self) -> AsyncIterator[LinkedBotGround]:
        """A bot that is connected."""
        async with AibotSimulator() as simulator:
            yield LinkedBotGround(simulator, "socket")

    async def test_in_doubt_a_part_is_found_or_sent_again_and_stands_once(  # type: ignore[override]
        self, ground: LinkedBotGround
    ) -> None:
        """An answer in its stream is found; for other messages there is no answer."""
        async with ground.opened() as adapter:
            await ground.say("hi")
            await until(lambda: ground.recorder.messages)
            part = part_on(ground, "once")
            ground.trouble_next("lost")
            with pytest.raises(OutcomeUnknown):
                await adapter.send(part)
        async with ground.opened() as another:
            assert await another.lookup(again(part)) is not None
            with pytest.raises(Rejected):
                await another.lookup(part_on(ground, "never", key="clawbot-2-0-1"))
        assert ground.shown() == ["once"]

    async def test_a_part_that_can_be_changed_is_replaced_as_a_whole(  # type: ignore[override]
        self, ground: LinkedBotGround
    ) -> None:
        """In its stream."""
        async with ground.opened() as adapter:
            with pytest.raises(NotSent):
                await adapter.send(part_on(ground, "half", is_final=False))
            await ground.say("hi")
            await until(lambda: ground.recorder.messages)
            ref = await adapter.send(part_on(ground, "half", is_final=False))
        async with ground.opened() as another:
            for _ in range(2):
                await another.edit(MessageRef(id=ref.id), part_on(ground, "half and half"))
        assert ground.shown() == ["half and half"]
