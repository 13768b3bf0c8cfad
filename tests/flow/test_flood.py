"""A flood in one chat: it is taken in and answered in its turn, and delays no other chat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.store import inbox
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator

FLOOD, AT_ONCE = 8, 2


@pytest.fixture
async def daemon(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> AsyncIterator[Daemon]:
    """One worker with room for four turns, two of them of one chat."""
    path = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
        extra="turns: {per_worker: 4, per_chat: 2}",
    )
    limits = "heartbeat_s: 1, lease_s: 3, grace_s: 5"
    text = path.read_text().replace(limits, f"{limits}, sender_per_minute: {FLOOD}")
    path.write_text(text)
    async with run_daemon(path, "worker", "slack") as running:
        await connect(running, slack, None)
        yield running


async def test_a_flood_of_threads_in_one_channel_delays_no_other_chat(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice, bob = slack.create_user("alice"), slack.create_user("bob")
    general, chat = slack.create_channel("general", [alice]), slack.create_dm(bob)
    gates = [model.hold(when="flood") for _ in range(FLOOD)]
    for number in range(FLOOD):
        await slack.user_says(general, alice, f"flood {number}.", mention=True)
    await daemon.until(
        inbox.count_by_state,
        lambda counts: counts == {"claimed": AT_ONCE, "queued": FLOOD - AT_ONCE},
    )
    model.expect(Reply(text="pong"), when="ping")
    await slack.user_says(chat, bob, "ping")
    await slack.wait_text("pong", channel=chat)
    counts = await daemon.store.read(inbox.count_by_state)
    assert (counts["claimed"], counts["queued"]) == (AT_ONCE, FLOOD - AT_ONCE)
    # What is over the rate is not taken, and the person told once; the flood itself is answered.
    for _ in range(3):
        await slack.user_says(general, alice, "one more", mention=True)
    await daemon.until(inbox.count_by_state, lambda counts: counts.get("refused") == 3)
    for number in range(FLOOD):
        model.expect(Reply(text=f"answer {number}."), when=f"flood {number}.")
    for gate in gates:
        gate.release()
    await daemon.until_quiet()
    texts = [message.text for message in slack.sent(general)]
    assert sorted(text for text in texts if text.startswith("answer")) == sorted(
        f"answer {number}." for number in range(FLOOD)
    )
    assert sum("I am busy" in text for text in texts) == 1
    assert len(texts) == FLOOD + 1
