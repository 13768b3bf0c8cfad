"""Whatever fails on the way to Slack: one answer, whole, in one message."""

from __future__ import annotations

import pytest

from clawbot.store import outbox
from tests.flow.daemon import Daemon
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator

WHOLE = "One. Two. Three."


@pytest.fixture(params=["socket"])
def transport(request: pytest.FixtureRequest) -> str:
    """What is sent does not depend on how events arrive."""
    return str(request.param)


@pytest.mark.parametrize("fault", ["reset_after", "reset_before", "bad_json", "http:502", "html"])
@pytest.mark.parametrize(
    "method", ["chat.startStream", "chat.appendStream", "chat.stopStream", "chat.update"]
)
async def test_a_growing_answer_ends_whole_and_once(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, method: str, fault: str
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    slack.fail_next(method, fault)
    if method == "chat.update":  # which comes into play when a stream fails
        slack.fail_next("chat.appendStream", "http:502")
    gate = model.hold(when="count", after=2)
    model.expect(Reply(text=("One. ", "Two. ", "Three.")), when="count")
    await slack.user_says(channel, alice, "count", mention=True)
    await gate.reached
    await slack.wait_text("One.", channel=channel)
    gate.release()
    await slack.wait_for(
        lambda: [each.shown for each in slack.sent(channel)] == [WHOLE],
        what="the whole answer, once",
        timeout_s=20,
    )
    await daemon.until_quiet()
    assert [each.shown for each in slack.sent(channel)] == [WHOLE]
    assert not slack.sent(channel)[0].streaming
    assert await daemon.store.read(outbox.count_by_state) == {"sent": 1}


@pytest.mark.parametrize(
    "fault", ["reset_after", "reset_before", "bad_json", "http:502", "ratelimited:1"]
)
async def test_a_posted_answer_is_posted_once(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, fault: str
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    slack.fail_next("chat.postMessage", fault)
    model.expect(Reply(text=WHOLE), when="count")
    await slack.user_says(chat, alice, "count")
    await slack.wait_text(WHOLE, channel=chat, timeout_s=20)
    await daemon.until_quiet()
    assert [each.shown for each in slack.sent(chat)] == [WHOLE]
    assert await daemon.store.read(outbox.count_by_state) == {"sent": 1}


async def test_a_channel_that_is_archived_meanwhile_holds_up_no_other(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    closed = slack.create_channel("closed", [alice])
    opened = slack.create_channel("opened", [alice])
    slack.fail_next("chat.postMessage", "error:is_archived")
    slack.fail_next("chat.startStream", "error:is_archived")
    model.expect(Reply(text="unheard"), when="first")
    await slack.user_says(closed, alice, "first", mention=True)
    await daemon.until(outbox.count_by_state, lambda counts: counts == {"dead": 1})
    model.expect(Reply(text="heard"), when="second")
    await slack.user_says(opened, alice, "second", mention=True)
    await slack.wait_text("heard", channel=opened)
    await daemon.until_quiet()
