"""The daemon in front of the WeChat and WeCom simulators."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from clawbot import parts
from tests.flow.conftest import free_port
from tests.flow.daemon import Daemon
from tests.simulators.wechat import AibotSimulator, WechatSimulator, WecomSimulator


def write_channel(folder: Path, model_url: str, keys: Mapping[str, Any]) -> Path:
    """A config with one channel, named as its type, on which everybody may talk."""
    everyone = {"dm": ["*"], "groups": ["*"], "senders": ["*"]}
    config = {
        "state_dir": str(folder / "state"),
        "model": "openai-chat:scripted",
        "providers": {"openai-chat": {"base_url": model_url, "api_key": "made-up"}},
        "web": {"enabled": False},
        "limits": {"heartbeat_s": 1, "lease_s": 3, "grace_s": 2},
        "channels": {keys["type"]: {"allow": everyone, **keys}},
    }
    path = folder / "clawbot.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    return path


def wechat_keys(
    wechat: WechatSimulator, *, customer_service: bool, attempt_s: float
) -> dict[str, Any]:
    """The keys of an Official Account that reaches the simulator."""
    keys: dict[str, Any] = {
        "type": "wechat",
        "app_id": wechat.app_id,
        "token": wechat.token,
        "customer_service": customer_service,
        "app_secret": wechat.app_secret,
        "api_base_url": wechat.api_url,
        "listen_port": free_port(),
        "hold_s": attempt_s - 0.4,
    }
    if wechat.pusher.account.mode != "plain":
        keys["encoding_aes_key"] = wechat.aes_key
    return keys


async def until_listening(port: int, timeout_s: float = 20.0) -> str:
    """Wait until somebody serves the port; the URL of the callbacks there."""
    async with asyncio.timeout(timeout_s):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            writer.close()
            return f"http://127.0.0.1:{port}"


def wecom_keys(wecom: WecomSimulator, **more: Any) -> dict[str, Any]:
    """The keys of a WeCom app that reaches the simulator."""
    return {
        "type": "wecom",
        "corp_id": wecom.corp_id,
        "agent_id": wecom.agent_id,
        "secret": wecom.secret,
        "token": wecom.token,
        "encoding_aes_key": wecom.aes_key,
        "api_base_url": wecom.api_url,
        "listen_port": free_port(),
        **more,
    }


def bot_keys(aibot: AibotSimulator, mode: str, **more: Any) -> dict[str, Any]:
    """The keys of a WeCom AI bot that reaches the simulator."""
    return {
        "type": "wecom_bot",
        "mode": mode,
        "bot_id": aibot.bot_id,
        "secret": aibot.secret,
        "token": aibot.token,
        "encoding_aes_key": aibot.aes_key,
        "socket_url": aibot.socket_url,
        "listen_port": free_port(),
        **more,
    }


@asynccontextmanager
async def second_adapter(daemon: Daemon) -> AsyncIterator[str]:
    """Another adapter process of the same account on the same store; its callback URL."""
    port = free_port()
    section = daemon.config.channels["wechat"]
    keys = section.adapter_config.model_copy(update={"listen_port": port})
    channel = replace(section, adapter_config=keys)
    config = daemon.config.model_copy(update={"channels": {"wechat": channel}})
    async with parts.adapter_part(config, daemon.store, "second", "wechat") as part:
        stop = asyncio.Event()
        running = asyncio.create_task(part.run(stop))
        try:
            yield await until_listening(port) + "/wechat"
        finally:
            stop.set()
            await asyncio.wait_for(running, 10)
