"""Stories of trouble that other bots had on Feishu, told to this one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.flow.feishu_ground import TRANSPORTS, feishu_daemon
from tests.simulators.feishu import FeishuSimulator
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.model.conversation import RecordedRequest

HOURS_MS = 3 * 3_600_000
QUESTION = re.compile(r"question \d")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_copies_at_the_same_moment_are_answered_once(
    tmp_path: Path, feishu: FeishuSimulator, model: ModelSimulator, transport: str
) -> None:
    async with feishu_daemon(tmp_path, feishu, model, transport) as daemon:
        chat = feishu.create_dm("alice")
        model.expect(Reply(text="once"), when="hello")
        feishu.hold_events()
        said = await feishu.user_says(chat, "alice", "hello")
        for as_new in ({}, {"new_event_id": True}, {"new_message_id": True}):
            await feishu.redeliver(feishu.deliveries(said)[0], **as_new)
        feishu.release_events()
        await feishu.wait_settled()
        await feishu.wait_text("once")
        await daemon.until_quiet()
    assert [sent.text for sent in feishu.sent(chat)] == ["once"]
    assert feishu.unacked() == []


async def test_what_is_hours_old_is_answered_once_and_marked(
    tmp_path: Path, feishu: FeishuSimulator
) -> None:
    """Feishu tells what was said while nobody listened, much later and all at once."""
    chat = feishu.create_dm("alice")
    feishu.hold_events()
    for number in range(5):
        said = await feishu.user_says(chat, "alice", f"question {number}")
        message = feishu.deliveries(said)[0].payload["event"]["message"]
        message["create_time"] = str(int(message["create_time"]) - HOURS_MS)
        await feishu.redeliver(feishu.deliveries(said)[0], new_event_id=True)
    async with (
        ModelSimulator(responder=answer) as model,
        feishu_daemon(tmp_path, feishu, model) as daemon,
    ):
        feishu.release_events()
        await feishu.wait_settled()
        for number in range(5):
            await feishu.wait_text(f"question {number}")
        await daemon.until_quiet()
        asked = [request.last_user_text for request in model.requests]
    answered = [words for sent in feishu.sent(chat) for words in QUESTION.findall(sent.text)]
    assert sorted(answered) == [f"question {number}" for number in range(5)]
    marks = sum(text.count("sent 180 minutes before it arrived") for text in asked)
    assert marks == 5


def answer(request: RecordedRequest) -> Reply:
    return Reply(text="about " + ", ".join(QUESTION.findall(request.last_user_text)))
