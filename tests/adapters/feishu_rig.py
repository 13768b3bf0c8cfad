"""The Feishu adapter in front of the Feishu simulator, with an `accept` that only records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from adapters.feishu.adapter import FeishuAdapter, open_adapter
from adapters.feishu.config import FeishuConfig
from adapters.feishu.long_connection import Timings
from clawbot.clock import SystemClock
from clawbot.errors import StoreUnavailable
from clawbot.messages import Accepted, InboundMessage, OutboundPart, ReplyRoute
from clawbot.ports import Accept, Clock
from tests.simulators.feishu import FeishuSimulator

# Short enough for tests, long enough for a loaded machine.
QUICK = Timings(
    connect_s=2.0,
    ping_s=5.0,
    least_ping_s=0.05,
    silence_s=5.0,
    drain_s=1.0,
    steady_s=0.2,
    backoff_s=0.05,
    max_backoff_s=0.5,
)


@dataclass
class Recorder:
    """Stands for the store: keeps what it was given, or is told to refuse or to hold it."""

    messages: list[InboundMessage] = field(default_factory=list)
    refusals: int = 0
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, message: InboundMessage) -> Accepted:
        if message.text in self.gates:
            await self.gates[message.text].wait()
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailable
        self.messages.append(message)
        self.changed.set()
        return Accepted(inbox_id=len(self.messages), decision="queued")

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]

    async def until(self, look: Callable[[], Any]) -> None:
        """Wait until `look()` is true of what was accepted."""
        async with asyncio.timeout(10):
            while not look():
                self.changed.clear()
                await self.changed.wait()


def config(feishu: FeishuSimulator, **keys: Any) -> FeishuConfig:
    """A config that points at the simulator."""
    chosen = {
        "domain": feishu.base_url,
        "app_id": feishu.app_id,
        "app_secret": SecretStr(feishu.app_secret),
        "encrypt_key": SecretStr(feishu.encrypt_key) if feishu.encrypt_key else None,
        "verification_token": SecretStr(feishu.verification_token),
        "listen_port": 0,
    }
    return FeishuConfig(**(chosen | keys))


def part(chat_id: str, text: str, *, key: str = "clawbot-1-0-1", **fields: Any) -> OutboundPart:
    """A part of a reply; what belongs to its route goes there."""
    route = ReplyRoute(
        chat_id=chat_id,
        thread=fields.pop("thread", None),
        reply_to=fields.pop("reply_to", None),
        token=fields.pop("token", None),
        can_edit=True,
    )
    return OutboundPart(channel="feishu", route=route, key=key, part_no=0, text=text, **fields)


def answer_to(message: InboundMessage, text: str, **fields: Any) -> OutboundPart:
    """A part on the route that the router would freeze for a message."""
    return part(
        message.chat_id,
        text,
        thread=message.thread or message.opens_thread,
        reply_to=message.reply_to,
        token=message.reply_token,
        **fields,
    )


@asynccontextmanager
async def opened(
    feishu: FeishuSimulator,
    timings: Timings = QUICK,
    clock: Clock | None = None,
    **keys: Any,
) -> AsyncIterator[FeishuAdapter]:
    """An adapter that is not receiving."""
    clock = clock or SystemClock()
    adapter = open_adapter("feishu", config(feishu, **keys), clock, timings=timings)
    try:
        yield adapter
    finally:
        await adapter.close()


@asynccontextmanager
async def receiving(
    feishu: FeishuSimulator, recorder: Recorder, mode: str, timings: Timings = QUICK, **keys: Any
) -> AsyncIterator[FeishuAdapter]:
    """An adapter that receives in this mode, wired to the simulator."""
    async with (
        opened(feishu, timings, mode=mode, **keys) as adapter,
        listening(adapter, recorder),
    ):
        if mode == "webhook":
            await feishu.use_webhook(adapter.health().facts["listening"])
        yield adapter


@asynccontextmanager
async def listening(adapter: FeishuAdapter, recorder: Accept) -> AsyncIterator[asyncio.Task[None]]:
    """Let an adapter receive until the end of the block, in the task that is given."""
    task = asyncio.create_task(adapter.receive(recorder))
    try:
        await until(lambda: task.done() or adapter.health().state == "up")
        if task.done():
            task.result()
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(look: Callable[[], Any], timeout_s: float = 10.0) -> None:
    """Poll a state that has no bell of its own."""
    async with asyncio.timeout(timeout_s):
        while not look():  # noqa: ASYNC110  # health has no bell
            await asyncio.sleep(0.01)
