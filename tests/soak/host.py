"""The daemon of the soak: begun, killed, begun again, and looked at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from clawbot.errors import StoreUnavailable
from clawbot.ports import Store
from clawbot.store import processes
from tests.process.commands import Command, start
from tests.soak import household

PATIENCE_S = 180.0
FRESH_MS = 5000


class Host:
    """`clawbot run`, one after another. is_calm: set while every part works, as far as is known."""

    def __init__(self, config: Path, store: Store, channels: Collection[str]) -> None:
        self._config = config
        self._store = store
        self._wanted = {"worker", *(f"adapter {channel}" for channel in channels)}
        self.is_calm = asyncio.Event()
        self.daemon: Command | None = None
        self._begun: list[Command] = []

    @property
    def running(self) -> Command:
        """The daemon that runs, or has ended."""
        assert self.daemon is not None
        return self.daemon

    async def begin(self) -> None:
        """Start the daemon and wait until it works."""
        self.daemon = await start(self._config, "run", piped=True)
        self._begun.append(self.daemon)
        await self.until_up()

    async def until_up(self) -> None:
        """Wait until every part works on the store; then messages may come through."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(StoreUnavailable):
                await self._store.write(lambda _tx: None)
                rows = await self._store.read(processes.live)
                pids = {pid for pid, _ in self.family()}
                roles = {row.role for row in rows if row.pid in pids and row.age_ms < FRESH_MS}
                if self._wanted <= roles:
                    self.is_calm.set()
                    return
            await asyncio.sleep(0.1)
        raise AssertionError(f"the parts do not come up: {self.running.text()[-6000:]}")

    def family(self) -> list[tuple[int, str]]:
        """The daemon and its children: the id and the part of each."""
        return list(household.family(self.running.process.pid))

    async def stop(self) -> int:
        """Ask the daemon to end; its exit code."""
        self.running.process.terminate()
        async with asyncio.timeout(PATIENCE_S):
            return await self.running.process.wait()

    async def close(self) -> None:
        """Kill what still runs."""
        if self.daemon is not None and self.daemon.process.returncode is None:
            await self.daemon.kill()
        for command in self._begun:
            await command.copied()
