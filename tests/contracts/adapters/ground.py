"""On what the adapter contract is held: a platform's simulator, and adapters in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from clawbot.errors import StoreUnavailable
from clawbot.messages import Accepted, InboundMessage, OutboundPart, ReplyRoute
from clawbot.ports import ChannelAdapter

WAIT_S = 10.0
Trouble = Literal["busy", "refused", "lost"]
"""What becomes of the next message that we send: the platform says "later", or "never", or takes it
and its answer does not arrive.
"""


class Ground(Protocol):
    """One way of one platform to reach us, with one person in a direct chat with us.

    channel: the name under which the adapter is opened. chat_id, person: as the platform names
    them. Texts of the contract are plain: no form of any platform changes them.
    """

    channel: str
    chat_id: str
    person: str

    def opened(
        self, *, secret_is_wrong: bool = False
    ) -> AbstractAsyncContextManager[ChannelAdapter]:
        """An adapter that does not receive yet; it is closed at the end of the block."""
        ...

    def receiving(
        self, adapter: ChannelAdapter, recorder: Recorder
    ) -> AbstractAsyncContextManager[asyncio.Task[None]]:
        """Let it receive until the end of the block, wired to the platform."""
        ...

    async def say(self, text: str) -> None:
        """The person writes to us."""
        ...

    async def disturb(self) -> None:
        """Send what no platform should: junk, and kinds of events that nobody knows."""
        ...

    def unacknowledged(self) -> int:
        """How many deliveries the platform still waits for us to acknowledge, or gave up."""
        ...

    def acknowledged(self) -> int:
        """How many deliveries we have acknowledged."""
        ...

    def route(self) -> ReplyRoute:
        """The way into the person's chat, as the router freezes it for what was said last."""
        ...

    def shown(self) -> list[str]:
        """What stands in the person's chat from us, oldest first."""
        ...

    def tries(self) -> int:
        """How often somebody tried to send a message."""
        ...

    def files(self) -> list[tuple[str, bytes]]:
        """Names and bytes of the files in the person's chat that are from us."""
        ...

    def trouble_next(self, trouble: Trouble) -> None:
        """Let the next message that is sent fare so."""
        ...


@dataclass
class Recorder:
    """An `Accept` that stands for the store: it keeps what it is given, refuses, or waits."""

    messages: list[InboundMessage] = field(default_factory=list)
    offered: list[InboundMessage] = field(default_factory=list)
    refusals: int = 0
    gate: asyncio.Event | None = None

    async def __call__(self, message: InboundMessage) -> Accepted:
        self.offered.append(message)
        if self.gate is not None:
            await self.gate.wait()
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailable
        self.messages.append(message)
        return Accepted(inbox_id=len(self.messages), decision="queued", may_be_answered=False)


async def until(look: Callable[[], Any]) -> None:
    """Wait until `look()` is true; a platform has no bell for everything."""
    async with asyncio.timeout(WAIT_S):
        while not look():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def part_on(
    ground: Ground, text: str, *, key: str = "clawbot-1-0-1", **fields: Any
) -> OutboundPart:
    """A part of a reply to the person."""
    return OutboundPart(
        channel=ground.channel, route=ground.route(), key=key, part_no=0, text=text, **fields
    )


def again(part: OutboundPart) -> OutboundPart:
    """The same part, once more, after nobody could tell what became of it."""
    return replace(part, is_repeated=True)


def distinct(messages: Sequence[InboundMessage]) -> set[str]:
    """The identities of messages."""
    return {message.identity for message in messages}
