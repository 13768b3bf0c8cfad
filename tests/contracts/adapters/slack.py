"""The Slack simulator as a ground of the adapter contract, over Socket Mode or signed HTTP."""

from __future__ import annotations

import asyncio
import html
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import SecretStr

from adapters.slack.adapter import SlackAdapter
from clawbot.messages import ReplyRoute
from clawbot.ports import ChannelAdapter
from tests.adapters import slack_rig
from tests.contracts.adapters.ground import Recorder, Trouble
from tests.simulators.slack import SlackSimulator

FAULTS: dict[Trouble, str] = {
    "busy": "ratelimited:1",
    "refused": "error:is_archived",
    "lost": "reset_after",
}


class SlackGround:
    """See `Ground`."""

    channel = "slack"
    person = "U1"

    def __init__(self, slack: SlackSimulator, mode: str) -> None:
        self._slack = slack
        self._mode = mode
        self.chat_id = slack.create_dm(self.person)

    @asynccontextmanager
    async def opened(self, *, secret_is_wrong: bool = False) -> AsyncIterator[ChannelAdapter]:
        """See `Ground`."""
        token = SecretStr("xoxb-wrong" if secret_is_wrong else self._slack.bot_token)
        async with slack_rig.opened(self._slack, mode=self._mode, bot_token=token) as adapter:
            yield adapter

    @asynccontextmanager
    async def receiving(
        self, adapter: ChannelAdapter, recorder: Recorder
    ) -> AsyncIterator[asyncio.Task[None]]:
        """See `Ground`."""
        assert isinstance(adapter, SlackAdapter)
        async with slack_rig.listening(adapter, recorder) as task:
            if self._mode == "http":
                await self._slack.use_http(adapter.health().facts["listening"])
            yield task

    async def say(self, text: str) -> None:
        """See `Ground`."""
        await self._slack.user_says(self.chat_id, self.person, text)

    async def disturb(self) -> None:
        """See `Ground`."""
        await self._slack.send_event({"type": "something_new", "event_ts": "1.2"})
        await self._slack.send_event({"no": "type"})
        await self._slack.send_payload({"type": "event_callback", "event": None})
        await self._slack.send_payload({"type": "unheard_of"}, kind="interactive")

    def unacknowledged(self) -> int:
        """See `Ground`."""
        return len(self._slack.unacked())

    def acknowledged(self) -> int:
        """See `Ground`."""
        return len(self._slack.acked())

    def route(self) -> ReplyRoute:
        """See `Ground`."""
        return ReplyRoute(chat_id=self.chat_id, can_edit=True)

    def shown(self) -> list[str]:
        """See `Ground`."""
        return [
            html.unescape(sent.shown) for sent in self._slack.sent(self.chat_id) if not sent.files
        ]

    def tries(self) -> int:
        """See `Ground`."""
        return len(self._slack.calls("chat.postMessage"))

    def files(self) -> list[tuple[str, bytes]]:
        """See `Ground`."""
        return [(file.name, file.content) for file in self._slack.sent_files(self.chat_id)]

    def trouble_next(self, trouble: Trouble) -> None:
        """See `Ground`."""
        self._slack.fail_next("chat.postMessage", FAULTS[trouble])
