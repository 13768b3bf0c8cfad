"""Several adapter processes of one channel, side by side in this one, on one store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from clawbot import parts
from clawbot.store import processes
from tests.flow.conftest import free_port
from tests.flow.daemon import Daemon

STOP_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """One of them. port: where it listens, if it does."""

    port: int
    stopping: asyncio.Event
    running: asyncio.Task[None]

    async def stop(self) -> None:
        """Let it drain and end; may be called twice."""
        self.stopping.set()
        await asyncio.wait_for(self.running, STOP_S)


async def start_front(daemon: Daemon, channel: str, stack: AsyncExitStack) -> Front:
    """One more; it ends with the stack."""
    port, section = free_port(), daemon.config.channels[channel]
    keys = section.adapter_config.model_copy(update={"listen_port": port})
    changed = replace(section, adapter_config=keys)
    # Opening the next ones holds up the heartbeats of those that live: all have one event loop.
    limits = daemon.config.limits.model_copy(update={"lease_s": 60.0})
    config = daemon.config.model_copy(update={"channels": {channel: changed}, "limits": limits})
    opened = parts.adapter_part(config, daemon.store, f"front-{port}", channel)
    part, stop = await stack.enter_async_context(opened), asyncio.Event()
    front = Front(port=port, stopping=stop, running=asyncio.create_task(part.run(stop)))
    stack.push_async_callback(front.stop)
    return front


@asynccontextmanager
async def fronts(daemon: Daemon, channel: str, count: int) -> AsyncIterator[list[Front]]:
    """So many, which live; whether they are connected is for the caller to see."""
    async with AsyncExitStack() as stack:
        made = [await start_front(daemon, channel, stack) for _ in range(count)]
        role = f"adapter {channel}"
        await daemon.until(
            processes.live, lambda rows: sum(row.role == role for row in rows) == count
        )
        yield made
