"""The Feishu adapter in front of a server that is not ours: crabline's, over its long connection.

What we believe of Feishu stands in our own simulator; this shows that somebody else believes the
same. The server knows texts, direct chats, groups, fragments and answers, and no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.feishu.adapter import FeishuAdapter, open_adapter
from adapters.feishu.config import FeishuConfig
from clawbot.clock import SystemClock
from clawbot.messages import ChatType
from tests.adapters.crabline_server import START_S, Crabline, install, running
from tests.adapters.feishu_rig import QUICK, Recorder, answer_to, listening


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """The running server, in Feishu's words."""

    server: Crabline

    @property
    def manifest(self) -> dict[str, Any]:
        return self.server.manifest

    async def user_says(self, chat: str, text: str, **more: Any) -> str:
        body = {"chatId": chat, "senderId": "ou_alice", "text": text, **more}
        headers = {"Authorization": f"Bearer {self.manifest['adminToken']}"}
        return str((await self.server.inject(body, headers))["messageId"])

    def recorded(self, stage: str) -> list[dict[str, Any]]:
        """What the server notes of one kind, in order."""
        bodies = [line.get("body", {}) for line in self.server.recorded()]
        return [body for body in bodies if body.get("stage") == stage]

    async def until(self, stage: str, count: int) -> list[dict[str, Any]]:
        async with asyncio.timeout(START_S):
            while len(found := self.recorded(stage)) < count:  # noqa: ASYNC110  # a file
                await asyncio.sleep(0.02)
        return found


@pytest.fixture
async def crabline(pytestconfig: pytest.Config, tmp_path: Path) -> AsyncIterator[Tenant]:
    folder = install(pytestconfig.cache)
    async with running(folder, "feishu", recorderPath=str(tmp_path / "feishu.jsonl")) as server:
        yield Tenant(server=server)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def adapter(crabline: Tenant, recorder: Recorder) -> AsyncIterator[FeishuAdapter]:
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


async def test_it_tells_us_who_we_are(crabline: Tenant, adapter: FeishuAdapter) -> None:
    assert adapter.health().facts["open_id"] == crabline.manifest["botOpenId"]


@pytest.mark.parametrize("chat_type", ["p2p", "group"])
async def test_a_message_is_heard_acknowledged_and_answered(
    crabline: Tenant, recorder: Recorder, adapter: FeishuAdapter, chat_type: str
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
    crabline: Tenant, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    await crabline.user_says("oc_1", "x" * 1000, fragments=4, fragmentOrder=[2, 0, 3, 1])
    await recorder.until(lambda: recorder.messages)
    assert recorder.texts == ["x" * 1000]
    assert len(await crabline.until("sdk.ack", 1)) == 1


async def test_what_was_not_stored_is_answered_with_500(
    crabline: Tenant, recorder: Recorder, adapter: FeishuAdapter
) -> None:
    recorder.refusals = 1
    await crabline.user_says("oc_1", "lost")
    (ack,) = await crabline.until("sdk.ack", 1)
    assert ack["code"] == 500


async def test_the_connection_is_kept_alive(crabline: Tenant, adapter: FeishuAdapter) -> None:
    assert await crabline.until("websocket.pong", 2)
    assert adapter.health().state == "up"
