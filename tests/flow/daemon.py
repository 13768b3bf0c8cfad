"""The daemon of a flow test: its real parts in this process, on a real store and real config."""

from __future__ import annotations

import asyncio
import contextlib
import textwrap
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from clawbot import parts
from clawbot.config import Config, load_config
from clawbot.parts.worker import open_worker
from clawbot.ports import Part, Store, Tool, Unit
from clawbot.store import inbox, outbox

T = TypeVar("T")

WAIT_S = 20.0


def write_config(folder: Path, *, slack: str, model_url: str, extra: str = "") -> Path:
    """A config with one Slack channel; `slack` is the YAML of its own keys."""
    path = folder / "clawbot.yaml"
    path.write_text(
        "\n".join(
            [
                f"state_dir: {folder / 'state'}",
                "model: openai-chat:scripted",
                "providers:",
                f"  openai-chat: {{base_url: {model_url}, api_key: made-up}}",
                "web: {enabled: false}",
                "limits: {heartbeat_s: 1, lease_s: 3, grace_s: 5}",
                textwrap.dedent(extra).strip(),
                "channels:",
                "  slack:",
                "    allow: {dm: ['*'], groups: ['*'], senders: ['*']}",
                textwrap.indent(textwrap.dedent(slack).strip(), "    "),
            ]
        ),
        encoding="utf-8",
    )
    return path


@dataclass(slots=True)
class Daemon:
    """Parts that run side by side in this process, each to be stopped or killed on its own."""

    config: Config
    store: Store
    tools: Sequence[Tool] = ()
    running: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = field(default_factory=dict)

    async def start(self, name: str) -> None:
        """Start a part: `worker`, `worker-2`, or the name of a channel."""
        stop = asyncio.Event()
        task = asyncio.create_task(self._run(name, stop), name=f"part {name}")
        self.running[name] = (task, stop)

    async def _run(self, name: str, stop: asyncio.Event) -> None:
        process_id = f"{name}-{id(stop)}"
        opened = (
            open_worker(self.config, self.store, process_id, self.tools)
            if name.startswith("worker")
            else parts.adapter_part(self.config, self.store, process_id, name)
        )
        async with opened as part:
            await _as_part(part).run(stop)

    async def kill(self, name: str) -> None:
        """End a part where it stands; it finishes nothing that it has begun."""
        task, _ = self.running.pop(name)
        task.cancel()
        await asyncio.wait([task], timeout=WAIT_S)

    async def stop(self, name: str) -> None:
        """Let a part drain and end."""
        task, stop = self.running.pop(name)
        stop.set()
        await asyncio.wait_for(task, WAIT_S)

    async def close(self) -> None:
        """End all parts."""
        for _, stop in self.running.values():
            stop.set()
        for task, _ in self.running.values():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, WAIT_S)
        await self.store.close()

    async def until(self, unit: Unit[T], is_right: Callable[[T], bool]) -> T:
        """Read until what is read is right."""
        async with asyncio.timeout(WAIT_S):
            while True:
                found = await self.store.read(unit)
                if is_right(found):
                    return found
                await asyncio.sleep(0.02)

    async def until_quiet(self) -> None:
        """Wait until every accepted message has ended and every reply is settled."""
        open_rows = {"received", "queued", "claimed"}
        await self.until(inbox.count_by_state, lambda counts: not open_rows & counts.keys())
        open_rows = {"streaming", "pending", "sending"}
        await self.until(outbox.count_by_state, lambda counts: not open_rows & counts.keys())


def _as_part(part: Part) -> Part:
    return part


@asynccontextmanager
async def run_daemon(
    config_path: Path, *names: str, tools: Sequence[Tool] = ()
) -> AsyncIterator[Daemon]:
    """The daemon with these parts started; its workers have further `tools`."""
    async with AsyncExitStack() as stack:
        config = await asyncio.to_thread(load_config, config_path)
        store = await parts.open_store(config)
        daemon = Daemon(config=config, store=store, tools=tools)
        stack.push_async_callback(daemon.close)
        for name in names:
            await daemon.start(name)
        yield daemon
