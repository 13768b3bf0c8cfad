"""Growing replies in channels, from the model to the thread."""

from __future__ import annotations

from tests.flow.daemon import Daemon
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator


async def test_a_reply_is_streamed_into_its_thread(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    gate = model.hold(when="tell me", after=2)
    model.expect(Reply(text=("One. ", "**Two.** ", "Three.")), when="tell me")
    root = await slack.user_says(channel, alice, "tell me", mention=True)
    await gate.reached
    await slack.wait_text("**Two.**", channel=channel)
    (sent,) = slack.sent(channel)
    assert sent.streaming
    gate.release()
    await slack.wait_text("Three.", channel=channel)
    await daemon.until_quiet()
    (sent,) = slack.sent(channel)
    assert (sent.text, sent.thread_ts) == ("One. **Two.** Three.", root)
    assert not sent.streaming
    assert slack.workspace.thread_status == {}


async def test_a_stopped_reply_ends_its_stream_with_what_was_said(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    gate = model.hold(when="tell me", after=1)
    model.expect(Reply(text=("Half an answer ", "and the rest.")), when="tell me")
    root = await slack.user_says(channel, alice, "tell me", mention=True)
    await gate.reached
    await slack.wait_text("Half an answer", channel=channel)
    await slack.user_says(channel, alice, "!stop", thread_ts=root)
    await slack.wait_text("Stopped.", channel=channel)
    await daemon.until_quiet()
    gate.release()
    sent = slack.sent(channel)
    assert not any(message.streaming for message in sent)
    assert sent[0].shown.startswith("Half an answer")
    assert "the rest" not in sent[0].shown


async def test_an_adapter_that_is_replaced_finishes_the_stream_of_the_one_before(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator, transport: str
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    gate = model.hold(when="tell me", after=1)
    model.expect(Reply(text=("One. ", "Two.")), when="tell me")
    await slack.user_says(channel, alice, "tell me", mention=True)
    await gate.reached
    await slack.wait_text("One.", channel=channel)
    daemon.running["slack"][0].cancel()
    await daemon.start("slack")
    gate.release()
    await slack.wait_text("Two.", channel=channel)
    await daemon.until_quiet()
    (sent,) = slack.sent(channel)
    assert sent.shown == "One. Two."
    assert not sent.streaming


async def test_a_long_answer_comes_in_messages_that_each_read_well(
    daemon: Daemon, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    channel = slack.create_channel("general", [alice])
    code = "\n".join(f"    value_{number} = {number}  # 龙" for number in range(600))
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | <@U{n}> |" for n in range(50))
    answer = f"# Title\n\n```python\n{code}\n```\n\n{table}\n\nThe end."
    pieces = tuple(answer[start : start + 500] for start in range(0, len(answer), 500))
    model.expect(Reply(text=pieces), when="all of it")
    root = await slack.user_says(channel, alice, "all of it", mention=True)
    await slack.wait_text("The end.", channel=channel, timeout_s=30)
    await daemon.until_quiet()
    sent = slack.sent(channel)
    assert len(sent) >= 2
    for message in sent:
        assert message.thread_ts == root
        assert not message.streaming
        assert message.shown.count("```") % 2 == 0
        assert len(message.shown) <= 12_000
    whole = "\n".join(message.shown for message in sent)
    assert all(whole.count(f"value_{number} = ") == 1 for number in range(600))
    assert "<@U" not in whole
