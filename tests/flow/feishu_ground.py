"""The daemon in front of the Feishu simulator, over either transport."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clawbot.ports import Tool
from clawbot.store import processes
from tests.flow.daemon import Daemon, run_daemon
from tests.simulators.feishu import FeishuSimulator
from tests.simulators.model import ModelSimulator

TRANSPORTS = ["long_connection", "webhook"]


def feishu_keys(feishu: FeishuSimulator, transport: str, **keys: Any) -> dict[str, Any]:
    """The keys of a channel that reaches the simulator."""
    own = {
        "type": "feishu",
        "mode": transport,
        "domain": feishu.base_url,
        "app_id": feishu.app_id,
        "app_secret": feishu.app_secret,
        "encrypt_key": feishu.encrypt_key,
        "verification_token": feishu.verification_token,
        "listen_port": 0,
    }
    return own | keys


@asynccontextmanager
async def feishu_daemon(
    folder: Path,
    feishu: FeishuSimulator,
    model: ModelSimulator,
    transport: str = "long_connection",
    *,
    tools: Sequence[Tool] = (),
    limits: Mapping[str, Any] | None = None,
    **keys: Any,
) -> AsyncIterator[Daemon]:
    """A worker with these further tools and a Feishu channel, connected."""
    provider = {"base_url": model.base_url("openai-chat"), "api_key": "made-up"}
    everyone = {"dm": ["*"], "groups": ["*"], "senders": ["*"]}
    config = {
        "state_dir": str(folder / "state"),
        "model": "openai-chat:scripted",
        "providers": {"openai-chat": provider},
        "web": {"enabled": False},
        "limits": {"heartbeat_s": 1, "lease_s": 3, "grace_s": 2, **(limits or {})},
        "channels": {"feishu": {"allow": everyone, **feishu_keys(feishu, transport, **keys)}},
    }
    path = folder / "clawbot.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    async with run_daemon(path, "worker", "feishu", tools=tools) as daemon:
        await connect(daemon, feishu, transport)
        yield daemon


async def connect(daemon: Daemon, feishu: FeishuSimulator, transport: str) -> None:
    """Wait until the simulator's events reach the channel."""
    if transport == "webhook":
        before = "" if feishu.webhook is None else feishu.webhook.url  # of a process that ended

        def fresh(status: dict[str, Any]) -> list[str]:
            return [url for url in _urls(status) if url != before]

        status = await daemon.until(processes.status_rows, lambda found: bool(fresh(found)))
        await feishu.use_webhook(fresh(status)[0])
    else:
        await feishu.wait_connected()


def _urls(status: dict[str, Any]) -> list[str]:
    """Where channels that are up listen."""
    rows = (row for row in status["channels"] if row["state"] == "up")
    return [row["facts"]["listening"] for row in rows if "listening" in (row["facts"] or {})]
