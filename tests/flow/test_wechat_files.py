"""Files that people send on WeChat and WeCom, from the chat into the work directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.flow.daemon import Daemon, run_daemon
from tests.flow.wechat_ground import (
    bot_keys,
    until_listening,
    wechat_keys,
    wecom_keys,
    write_channel,
)
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.wechat import AibotSimulator, WechatSimulator, WecomSimulator

DATA = b"\xff\xd8\xff picture \x00" * 1000


async def received(daemon: Daemon) -> list[bytes]:
    """The files in the work directories."""

    def read() -> list[bytes]:
        found = (daemon.config.state_dir / "work").glob("*/received/*")
        return [path.read_bytes() for path in found]

    return await asyncio.to_thread(read)


@asynccontextmanager
async def running(
    folder: Path, model: ModelSimulator, keys: dict[str, Any]
) -> AsyncIterator[tuple[Daemon, str]]:
    """A daemon with one channel, and where it listens."""
    config = write_channel(folder, model.base_url("openai-chat"), keys)
    async with run_daemon(config, "worker", keys["type"]) as daemon:
        yield daemon, await until_listening(keys["listen_port"])


@pytest.mark.parametrize("kind", ["image", "video"])
async def test_a_persons_file_lies_in_the_work_directory(
    tmp_path: Path, model: ModelSimulator, kind: str
) -> None:
    async with WechatSimulator() as wechat:
        keys = wechat_keys(wechat, customer_service=True, attempt_s=5.0)
        async with running(tmp_path, model, keys) as (daemon, url):
            wechat.pusher.url = f"{url}/wechat"
            model.expect(Reply(text="nice"), when=f"[{kind}")
            media_id = wechat.add_media(DATA, is_video=kind == "video")
            wechat.expire_token()
            wechat.user_sends("oAlice", kind, MediaId=media_id, PicUrl="http://127.0.0.1:9/x")
            assert await wechat.wait_sent(1) == ["nice"]
            await daemon.until_quiet()
            assert await received(daemon) == [DATA]


async def test_a_file_that_cannot_be_had_is_told_to_the_model(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with WechatSimulator() as wechat:
        keys = wechat_keys(wechat, customer_service=False, attempt_s=5.0)
        keys.pop("app_secret")
        async with running(tmp_path, model, keys) as (daemon, url):
            wechat.pusher.url = f"{url}/wechat"
            model.expect(Reply(text="I cannot see it"), when="app_secret is not set")
            wechat.user_sends("oAlice", "image", MediaId=wechat.add_media(DATA))
            assert await wechat.wait_sent(1) == ["I cannot see it"]
            await daemon.until_quiet()
            assert await received(daemon) == []


async def test_a_members_file_lies_in_the_work_directory(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with WecomSimulator() as wecom:
        keys = wecom_keys(wecom)
        async with running(tmp_path, model, keys) as (daemon, url):
            wecom.pusher.url = f"{url}/wecom"
            model.expect(Reply(text="nice"), when="[image")
            wecom.user_sends("alice", "image", MediaId=wecom.add_media(DATA))
            assert await wecom.wait_sent(1) == ["nice"]
            await daemon.until_quiet()
            assert await received(daemon) == [DATA]


@pytest.mark.parametrize("mode", ["socket", "webhook"])
async def test_a_bots_file_is_decrypted_into_the_work_directory(
    tmp_path: Path, model: ModelSimulator, mode: str
) -> None:
    async with AibotSimulator() as aibot:
        keys = bot_keys(aibot, mode)
        config = write_channel(tmp_path, model.base_url("openai-chat"), keys)
        async with run_daemon(config, "worker", "wecom_bot") as daemon:
            if mode == "webhook":
                aibot.webhook_url = await until_listening(keys["listen_port"]) + "/wecom-bot"
            else:
                await aibot.wait_linked()
            model.expect(Reply(text="read it"), when="report.pdf")
            aibot.user_sends_file("alice", "file", DATA, name="report.pdf")
            assert await aibot.wait_finished(1) == ["read it"]
            await daemon.until_quiet()
            assert await received(daemon) == [DATA]
