"""Commands at the root of a channel, where they name no thread."""

from __future__ import annotations

from tests.flow.daemon import Daemon
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator


async def test_a_stop_at_the_root_lists_what_runs_and_stops_nothing(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    gate = model.hold(when="long work")
    model.expect(Reply(text="finished after all"), when="long work")
    root = await slack.user_says(channel, alice, "long work", mention=True)
    await gate.reached
    await slack.slash_command(channel, alice, "/clawbot", "stop")
    await slack.user_says(channel, alice, "/stop", mention=True)
    await slack.wait_sent(2, channel=channel)
    gate.release()
    await slack.wait_text("finished after all", channel=channel)
    await daemon.until_quiet()
    listed = [message for message in slack.sent(channel) if "are running" in message.text]
    assert len(listed) == 2
    assert all(f"thread:{root}" in message.text for message in listed)


async def test_a_stop_in_the_thread_stops_its_conversation_alone(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    gates = [model.hold(when=name) for name in ("first job", "second job")]
    model.expect(Reply(text="second done"), when="second job")
    first = await slack.user_says(channel, alice, "first job", mention=True)
    await slack.user_says(channel, alice, "second job", mention=True)
    for gate in gates:
        await gate.reached
    await slack.user_says(channel, alice, "stop", thread_ts=first)
    await slack.wait_text("Stopped.", channel=channel)
    for gate in gates:
        gate.release()
    await slack.wait_text("second done", channel=channel)
    await daemon.until_quiet()
    texts = [message.text for message in slack.sent(channel)]
    assert sorted(texts) == ["Stopped.", "second done"]
