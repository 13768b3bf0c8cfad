"""The Slack adapter in front of the Slack simulator, with an `accept` that only records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from adapters.slack.adapter import SlackAdapter, open_adapter
from adapters.slack.config import SlackConfig
from adapters.slack.socket import Timings
from clawbot.clock import SystemClock
from clawbot.errors import StoreUnavailable
from clawbot.messages import Accepted, InboundMessage, OutboundPart, ReplyRoute
from clawbot.ports import Accept
from tests.simulators.slack import SlackSimulator

# Short enough for tests, long enough for a loaded machine.
QUICK = Timings(connect_s=1.0, ping_s=5.0, watch_s=0.05, drain_s=1.0, steady_s=0.2, backoff_s=0.05)


class HandClock:
    """A clock on which waiting takes no time."""

    def __init__(self) -> None:
        self.time_s = 1_000_000.0

    def now_ms(self) -> int:
        return int(self.time_s * 1000)

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.time_s += max(seconds, 0.0)


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


def config(slack: SlackSimulator, **keys: Any) -> SlackConfig:
    """A config that points at the simulator."""
    chosen = {
        "bot_token": SecretStr(slack.bot_token),
        "app_token": SecretStr(slack.app_token),
        "signing_secret": SecretStr(slack.signing_secret),
        "api_base_url": slack.api_url,
        "listen_port": 0,
    }
    return SlackConfig(**(chosen | keys))


def part(chat_id: str, text: str, *, key: str = "k1", **fields: Any) -> OutboundPart:
    """A part of a reply; `thread` and `token` go into its route."""
    route = ReplyRoute(
        chat_id=chat_id, thread=fields.pop("thread", None), token=fields.pop("token", None)
    )
    return OutboundPart(channel="slack", route=route, key=key, part_no=0, text=text, **fields)


@asynccontextmanager
async def opened(
    slack: SlackSimulator, timings: Timings = QUICK, **keys: Any
) -> AsyncIterator[SlackAdapter]:
    """An adapter that is not receiving."""
    adapter = open_adapter("slack", config(slack, **keys), SystemClock(), timings=timings)
    try:
        yield adapter
    finally:
        await adapter.close()


@asynccontextmanager
async def receiving(
    slack: SlackSimulator, recorder: Recorder, mode: str, timings: Timings = QUICK
) -> AsyncIterator[SlackAdapter]:
    """An adapter that receives in this mode, wired to the simulator."""
    async with opened(slack, timings, mode=mode) as adapter, listening(adapter, recorder):
        if mode == "http":
            await slack.use_http(adapter.health().facts["listening"])
        yield adapter


@asynccontextmanager
async def listening(adapter: SlackAdapter, recorder: Accept) -> AsyncIterator[asyncio.Task[None]]:
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
