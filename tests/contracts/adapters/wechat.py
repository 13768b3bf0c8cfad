"""The WeChat and WeCom simulators as grounds of the adapter contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from pydantic import SecretStr

from adapters.notes import OwnNotes
from adapters.wechat.adapter import WechatAdapter
from adapters.wechat.adapter import open_adapter as open_wechat
from adapters.wechat.config import WechatConfig
from adapters.wecom.adapter import open_adapter as open_wecom
from adapters.wecom.bot_adapter import WecomBotAdapter
from adapters.wecom.bot_adapter import open_adapter as open_bot
from adapters.wecom.bot_socket import Timings
from adapters.wecom.config import WecomBotConfig, WecomConfig
from clawbot.clock import SystemClock
from clawbot.messages import ReplyRoute
from clawbot.ports import ChannelAdapter, HealthReporter, Sharer
from tests.contracts.adapters.ground import Recorder, Trouble, until
from tests.simulators.wechat import AibotSimulator, WechatSimulator, WecomSimulator

QUICK = Timings(answer_s=0.3, ping_s=1.0, backoff_s=0.05, max_backoff_s=0.2)
FAULTS: dict[Trouble, str] = {
    "busy": "error:-1",
    "refused": "error:40003",
    "lost": "reset_after",
}
CODES: dict[Trouble, int] = {"busy": -1, "refused": 40003, "lost": -998}


@asynccontextmanager
async def listening(
    adapter: ChannelAdapter, recorder: Recorder
) -> AsyncIterator[asyncio.Task[None]]:
    """Let an adapter receive until the end of the block."""
    assert isinstance(adapter, HealthReporter)
    task = asyncio.create_task(adapter.receive(recorder))
    try:
        await until(lambda: adapter.health().state == "up" or task.done())
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _Called:
    """What the grounds share whose platform calls us, three times each, and takes our calls."""

    def __init__(self, platform: WechatSimulator | WecomSimulator) -> None:
        self._platform = platform
        self._notes = OwnNotes(SystemClock())

    @asynccontextmanager
    async def _opened(self, adapter: ChannelAdapter) -> AsyncIterator[ChannelAdapter]:
        assert isinstance(adapter, Sharer)
        adapter.share_with(self._notes.change, lambda: 1)  # as processes of a channel do
        try:
            yield adapter
        finally:
            await adapter.close()

    @asynccontextmanager
    async def receiving(
        self, adapter: ChannelAdapter, recorder: Recorder
    ) -> AsyncIterator[asyncio.Task[None]]:
        """See `Ground`."""
        async with listening(adapter, recorder) as task:
            assert isinstance(adapter, HealthReporter)
            self._platform.pusher.url = adapter.health().facts["listening"]
            yield task

    async def disturb(self) -> None:
        """See `Ground`."""
        pusher = self._platform.pusher
        await pusher.post("<xml><MsgType>")
        await pusher.post("{}")
        await pusher.post(b"\xff\xfe", query={"signature": "0"})
        self._platform.user_does(self.person, "something_new", "key")
        self._platform.user_sends(self.person, "unheard_of")

    person: str

    def unacknowledged(self) -> int:
        """See `Ground`."""
        return len(self._platform.pusher.deliveries) - self.acknowledged()

    def acknowledged(self) -> int:
        """See `Ground`."""
        return len(self._platform.acked())

    def route(self) -> ReplyRoute:
        """See `Ground`."""
        return ReplyRoute(chat_id=self.person)

    def tries(self) -> int:
        """See `Ground`."""
        return self._platform.faults.asked["send"]

    def files(self) -> list[tuple[str, bytes]]:
        """See `Ground`."""
        return [(file.name, file.data) for file in self._platform.files]

    async def say(self, text: str) -> None:
        """See `Ground`."""
        self._platform.user_says(self.person, text)

    def trouble_next(self, trouble: Trouble) -> None:
        """See `Ground`."""
        self._platform.fail_next("send", FAULTS[trouble])


class WechatGround(_Called):
    """An Official Account with customer service. See `Ground`."""

    channel = "wechat"
    chat_id = person = "oAlice"

    def __init__(self, wechat: WechatSimulator) -> None:
        super().__init__(wechat)
        self._wechat = wechat
        wechat._allow(self.person, 5, 1000.0)

    @asynccontextmanager
    async def opened(self, *, secret_is_wrong: bool = False) -> AsyncIterator[WechatAdapter]:
        """See `Ground`."""
        wechat = self._wechat
        is_plain = wechat.pusher.account.mode == "plain"
        config = WechatConfig(
            app_id=wechat.app_id,
            token=SecretStr(wechat.token),
            encoding_aes_key=None if is_plain else SecretStr(wechat.aes_key),
            customer_service=True,
            app_secret=SecretStr("wrong" if secret_is_wrong else wechat.app_secret),
            api_base_url=wechat.api_url,
            listen_port=0,
        )
        adapter = open_wechat(self.channel, config, SystemClock())
        async with self._opened(adapter):
            yield adapter

    def shown(self) -> list[str]:
        """See `Ground`."""
        return [text for text in self._wechat.sent(self.person) if not text.startswith("[image")]


class WecomGround(_Called):
    """A WeCom app. See `Ground`."""

    channel = "wecom"
    chat_id = person = "alice"

    def __init__(self, wecom: WecomSimulator) -> None:
        super().__init__(wecom)
        self._wecom = wecom

    @asynccontextmanager
    async def opened(self, *, secret_is_wrong: bool = False) -> AsyncIterator[ChannelAdapter]:
        """See `Ground`."""
        wecom = self._wecom
        config = WecomConfig(
            corp_id=wecom.corp_id,
            agent_id=wecom.agent_id,
            secret=SecretStr("wrong" if secret_is_wrong else wecom.secret),
            token=SecretStr(wecom.token),
            encoding_aes_key=SecretStr(wecom.aes_key),
            api_base_url=wecom.api_url,
            listen_port=0,
        )
        async with self._opened(open_wecom(self.channel, config, SystemClock())) as adapter:
            yield adapter

    def shown(self) -> list[str]:
        """See `Ground`."""
        return [each.text for each in self._wecom.shown if each.kind in {"text", "markdown"}]


class BotGround:
    """A WeCom AI bot, by its long connection or by webhook. See `Ground`.

    The long connection has no acknowledgement: what came is counted as such.
    """

    channel = "wecom_bot"
    chat_id = person = "alice"

    def __init__(self, aibot: AibotSimulator, mode: str) -> None:
        self._aibot = aibot
        self.mode = mode
        self._notes = OwnNotes(SystemClock())
        self.recorder = Recorder()

    @asynccontextmanager
    async def opened(self, *, secret_is_wrong: bool = False) -> AsyncIterator[WecomBotAdapter]:
        """See `Ground`."""
        aibot = self._aibot
        keys: dict[str, Any] = (
            {"bot_id": aibot.bot_id, "secret": SecretStr(aibot.secret)}
            if self.mode == "socket"
            else {"token": SecretStr(aibot.token), "encoding_aes_key": SecretStr(aibot.aes_key)}
        )
        if secret_is_wrong:
            keys["secret"] = SecretStr("wrong")
        config = WecomBotConfig(
            mode="socket" if self.mode == "socket" else "webhook",
            socket_url=aibot.socket_url,
            listen_port=0,
            **keys,
        )
        adapter = open_bot(self.channel, config, SystemClock(), timings=QUICK)
        adapter.share_with(self._notes.change, lambda: 1)
        try:
            yield adapter
        finally:
            await adapter.close()

    @asynccontextmanager
    async def receiving(
        self, adapter: ChannelAdapter, recorder: Recorder
    ) -> AsyncIterator[asyncio.Task[None]]:
        """See `Ground`."""
        async with listening(adapter, recorder) as task:
            self.recorder = recorder
            if self.mode == "webhook":
                assert isinstance(adapter, HealthReporter)
                self._aibot.webhook_url = adapter.health().facts["listening"]
            yield task

    async def ask_with_a_wrong_signature(self) -> int:
        """What a request is answered with that is not WeCom's."""
        status, _ = await self._aibot.post({}, {"timestamp": "1", "nonce": "1"})
        return status

    async def say(self, text: str) -> None:
        """See `Ground`."""
        self._aibot.user_says(self.person, text)

    async def disturb(self) -> None:
        """See `Ground`."""
        base = {"msgid": "x", "aibotid": self._aibot.bot_id, "from": {"userid": self.person}}
        self._aibot.push({**base, "msgtype": "unheard_of"})
        self._aibot.push({**base, "msgtype": "event", "event": {"eventtype": "something_new"}})
        self._aibot.push({"msgtype": "text"})

    def unacknowledged(self) -> int:
        """See `Ground`."""
        return 0 if self.recorder.messages else len(self.recorder.offered)

    def acknowledged(self) -> int:
        """See `Ground`."""
        return len(self.recorder.messages)

    def route(self) -> ReplyRoute:
        """See `Ground`."""
        said = self.recorder.messages
        return ReplyRoute(chat_id=self.person, token=said[-1].reply_token if said else None)

    def shown(self) -> list[str]:
        """See `Ground`."""
        return [text for text in self._aibot.sent(self.person) if text and text[0] != "["]

    def tries(self) -> int:
        """See `Ground`."""
        return sum(frame["cmd"] == "aibot_send_msg" for frame in self._aibot.frames)

    def files(self) -> list[tuple[str, bytes]]:
        """See `Ground`."""
        return [(file.name, file.data) for file in self._aibot.uploads.files]

    def trouble_next(self, trouble: Trouble) -> None:
        """See `Ground`."""
        self._aibot.fail_next("aibot_send_msg", CODES[trouble])
        self._aibot.fail_next("aibot_respond_msg", CODES[trouble])


class LinkedBotGround(BotGround):
    """The same, whose adapters are connected as long as they are open: else nothing can be sent."""

    @asynccontextmanager
    async def opened(self, *, secret_is_wrong: bool = False) -> AsyncIterator[WecomBotAdapter]:
        """See `Ground`."""
        async with (
            super().opened(secret_is_wrong=secret_is_wrong) as adapter,
            listening(adapter, self.recorder),
        ):
            yield adapter
