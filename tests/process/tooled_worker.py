"""`clawbot worker` with the tools of the tests: `… tests.process.tooled_worker --config PATH`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clawbot import parts
from clawbot.config import load_config
from clawbot.logs import configure_logs
from clawbot.part_process import run_part
from clawbot.parts.worker import open_worker
from clawbot.ports import Part
from tests.tools import Children, Deploy, Echo, Wait


async def work(path: Path) -> int:
    config = await asyncio.to_thread(load_config, path)
    configure_logs(config.log, config.secrets())

    @asynccontextmanager
    async def open_part(process_id: str) -> AsyncIterator[Part]:
        store = await parts.open_store(config)
        try:
            tools = (Echo(), Wait(), Deploy(), Children())
            async with open_worker(config, store, process_id, tools) as worker:
                yield worker
        finally:
            await store.close()

    drain_s = config.limits.grace_s + 5
    return await run_part("worker", open_part, os.environ, drain_s=drain_s, linger_s=1)


if __name__ == "__main__":
    sys.exit(asyncio.run(work(Path(sys.argv[-1]))))
