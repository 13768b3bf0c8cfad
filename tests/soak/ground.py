"""The ground of a soak: simulators, config and store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from clawbot import parts
from clawbot.config import load_config
from tests.flow.conftest import free_port
from tests.matrix.matrix import make_database, write_config
from tests.matrix.platforms import PLATFORMS
from tests.matrix.talk import answer
from tests.postgres import Cluster
from tests.simulators.model import ModelSimulator
from tests.soak.host import Host
from tests.soak.run import Report, Soak
from tests.soak.troubles import Troubles


async def soak(
    folder: Path,
    *,
    minutes: float,
    seed: int,
    names: Sequence[str],
    cluster: Cluster | None,
    workers: int = 2,
    first: Sequence[str] = (),
) -> Report:
    """One run; the store is a file in the folder, or a database of the cluster. first: what fails
    first, in this order.
    """
    report = Report(store="SQLite" if cluster is None else "PostgreSQL", minutes=minutes)
    more: dict[str, object] = {
        "workers": workers,
        "web": {"port": free_port()},
        "limits": {
            "heartbeat_s": 2,
            "lease_s": 8,
            "grace_s": 10,
            "sender_per_minute": 0,
            "chat_per_minute": 0,
        },
    }
    if cluster is not None:
        more["database"] = await asyncio.to_thread(make_database, cluster)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ModelSimulator(answer))
        platforms = {name: await stack.enter_async_context(PLATFORMS[name]()) for name in names}
        config = write_config(
            folder, model.base_url("openai-chat"), list(platforms.values()), **more
        )
        store = await parts.open_store(await asyncio.to_thread(load_config, config))
        stack.push_async_callback(store.close)
        host = Host(config, store, [each.channel for each in platforms.values()])
        troubles = Troubles(host, platforms, seed, cluster)
        await Soak(config, store, platforms, report, host, troubles).run(minutes, first)
        report.problems += [f"illegal request: {each}" for each in model.violations]
    return report
