"""The bot's menu on Feishu: its entries are said in the direct chat of who chose them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flow.daemon import Daemon
from tests.flow.feishu_ground import TRANSPORTS, feishu_daemon
from tests.simulators.feishu import FeishuSimulator
from tests.simulators.model import ModelSimulator, Reply


@pytest.fixture(params=TRANSPORTS)
async def daemon(
    tmp_path: Path, feishu: FeishuSimulator, model: ModelSimulator, request: pytest.FixtureRequest
) -> AsyncIterator[Daemon]:
    menu = {"stop": "/stop", "joke": "Tell me a joke"}
    async with feishu_daemon(tmp_path, feishu, model, request.param, menu=menu) as running:
        yield running


async def test_an_entry_stops_what_runs_in_the_direct_chat(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    chat = feishu.create_dm("alice")
    gate = model.hold(when="go")
    await feishu.user_says(chat, "alice", "go")
    await gate.reached
    chosen = await feishu.choose_in_menu("alice", "stop")
    await feishu.wait_text("Stopped.", chat=chat)
    await feishu.redeliver(chosen)
    await feishu.wait_settled()
    await daemon.until_quiet()
    assert [sent.text for sent in feishu.sent(chat)] == ["Stopped."]


async def test_an_entry_asks_in_a_chat_that_was_only_opened(
    daemon: Daemon, feishu: FeishuSimulator, model: ModelSimulator
) -> None:
    model.expect(Reply(text="Knock knock."), when="Tell me a joke")
    await feishu.choose_in_menu("bob", "joke")  # nobody knows his chat yet
    await feishu.choose_in_menu("bob", "unnamed")
    await feishu.wait_settled()
    await feishu.open_chat("bob")
    await feishu.wait_settled()
    await feishu.choose_in_menu("bob", "joke")
    await feishu.wait_text("Knock knock.", chat=feishu.create_dm("bob"))
    await daemon.until_quiet()
    assert len(feishu.sent()) == 1
    assert feishu.unacked() == []
