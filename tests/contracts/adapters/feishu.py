"""The Feishu simulator as a ground of the adapter contract, over long connection or webhook."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import SecretStr

from adapters.feishu.adapter import FeishuAdapter
from adapters.feishu.references import Asked
from clawbot.messages import ReplyRoute
from clawbot.ports import ChannelAdapter
from tests.adapters import feishu_rig
from tests.contracts.adapters.ground import Recorder, Trouble
from tests.simulators.feishu import FeishuSimulator

FAULTS: dict[Trouble, str] = {
    "busy": "ratelimited:1:400",
    "refused": "error:230002",
    "lost": "reset_after",
}


class FeishuGround:
    """See `Ground`."""

    channel = "feishu"
    person = "ou_alice"

    def __init__(self, feishu: FeishuSimulator, mode: str) -> None:
        self._feishu = feishu
        self._mode = mode
        self._said = ""
        self.chat_id = feishu.create_dm(self.person)

    @asynccontextmanager
    async def opened(self, *, secret_is_wrong: bool = False) -> AsyncIterator[ChannelAdapter]:
        """See `Ground`."""
        secret = SecretStr("wrong" if secret_is_wrong else self._feishu.app_secret)
        async with feishu_rig.opened(self._feishu, mode=self._mode, app_secret=secret) as adapter:
            yield adapter

    @asynccontextmanager
    async def receiving(
        self, adapter: ChannelAdapter, recorder: Recorder
    ) -> AsyncIterator[asyncio.Task[None]]:
        """See `Ground`."""
        assert isinstance(adapter, FeishuAdapter)
        async with feishu_rig.listening(adapter, recorder) as task:
            if self._mode == "webhook":
                await self._feishu.use_webhook(adapter.health().facts["listening"])
            yield task

    async def say(self, text: str) -> None:
        """See `Ground`."""
        self._said = await self._feishu.user_says(self.chat_id, self.person, text)

    async def disturb(self) -> None:
        """See `Ground`."""
        await self._feishu.send_event("brand.new.event_v9", {"what": "ever"})
        await self._feishu.send_event("im.message.receive_v1", {"message": None})
        await self._feishu.send_payload({"schema": "2.0", "token": self._feishu.verification_token})
        if self._mode == "webhook":
            assert self._feishu.webhook is not None
            await self._feishu.webhook.post(b"{broken")
            return
        await self._feishu.sockets.send_raw(b"\xff\xff no frame")
        await self._feishu.send_raw(b"{broken")

    def unacknowledged(self) -> int:
        """See `Ground`."""
        return len(self._feishu.unacked())

    def acknowledged(self) -> int:
        """See `Ground`."""
        return len(self._feishu.acked())

    def route(self) -> ReplyRoute:
        """See `Ground`."""
        token = Asked(message_id=self._said, is_direct=True).encode() if self._said else None
        return ReplyRoute(chat_id=self.chat_id, token=token, can_edit=True)

    def shown(self) -> list[str]:
        """See `Ground`."""
        return [sent.text for sent in self._feishu.sent(self.chat_id) if not sent.data]

    def tries(self) -> int:
        """See `Ground`."""
        return len(self._feishu.calls("message.create"))

    def files(self) -> list[tuple[str, bytes]]:
        """See `Ground`."""
        sent = self._feishu.sent(self.chat_id)
        return [(each.file_name, each.data) for each in sent if each.data]

    def trouble_next(self, trouble: Trouble) -> None:
        """See `Ground`."""
        self._feishu.fail_next("message.create", FAULTS[trouble])
