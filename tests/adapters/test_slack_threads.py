"""Reading the thread in which the bot was called."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from adapters.slack.adapter import SlackAdapter
from clawbot.messages import InboundMessage
from clawbot.ports import ThreadReader
from tests.adapters.slack_rig import Recorder, opened, part, receiving
from tests.simulators.slack import SlackSimulator


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(bot_name="clawbot") as simulator:
        simulator.create_user("alice", user_id="U1")
        simulator.create_channel("general", ["U1"], channel_id="C1", with_bot=False)
        yield simulator


@pytest.fixture
async def adapter(slack: SlackSimulator) -> AsyncIterator[SlackAdapter]:
    async with opened(slack) as ready:
        await ready.check()
        yield ready


async def called(slack: SlackSimulator, root: str) -> InboundMessage:
    """The question with which somebody calls the bot into a thread."""
    recorder = Recorder()
    await slack.invite("C1", slack.bot.id)
    async with receiving(slack, recorder, "socket"):
        await slack.user_says("C1", "U1", "help", thread_ts=root, mention=True)
        await recorder.until(lambda: any(each.text == "help" for each in recorder.messages))
        await slack.wait_settled()
    return next(each for each in recorder.messages if each.text == "help")


async def test_the_root_and_the_newest_replies_are_read(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    assert isinstance(adapter, ThreadReader)
    root = await slack.user_says("C1", "U1", "the root")
    for number in range(450):
        await slack.user_says("C1", "U1", f"n{number}", thread_ts=root)
    asked = await called(slack, root)
    await slack.user_says("C1", "U1", "later", thread_ts=root)
    found = await adapter.earlier(asked.raw, 5)
    assert [each.text for each in found] == ["the root", "n446", "n447", "n448", "n449"]
    assert {each.sender.name for each in found} == {"alice"}
    assert {each.thread for each in found} == {root}
    assert len({each.identity for each in found}) == 5
    assert not any(set(each.transport_ids) & set(asked.transport_ids) for each in found)


@pytest.mark.parametrize("fault", ["ratelimited:60", "http:500", "error:missing_scope", "html"])
async def test_what_was_read_before_a_failure_is_kept(
    slack: SlackSimulator, adapter: SlackAdapter, fault: str
) -> None:
    root = await slack.user_says("C1", "U1", "the root")
    for number in range(250):
        await slack.user_says("C1", "U1", f"n{number}", thread_ts=root)
    asked = await called(slack, root)
    slack.fail_next("conversations.replies", "slow:0")
    slack.fail_next("conversations.replies", fault)
    found = await adapter.earlier(asked.raw, 3)
    assert [each.text for each in found] == ["the root", "n197", "n198"]
    slack.fail_next("conversations.replies", fault)
    assert await adapter.earlier(asked.raw, 3) == ()


async def test_what_the_bot_said_before_is_told_as_its_own(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    await slack.invite("C1", slack.bot.id)
    await adapter.send(part("C1", "good morning"))
    root = slack.sent("C1")[0].ts
    asked = await called(slack, root)
    (found,) = await adapter.earlier(asked.raw, 10)
    assert (found.sender.name, found.sender.is_bot, found.text) == ("clawbot", True, "good morning")


async def test_a_root_message_has_no_thread_to_read(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    root = await slack.user_says("C1", "U1", "the root")
    asked = await called(slack, root)
    payload = json.loads(asked.raw)
    payload["event"]["thread_ts"] = payload["event"]["ts"]
    assert await adapter.earlier(replace(asked, raw=json.dumps(payload)).raw, 10) == ()
    del payload["event"]["thread_ts"]
    assert await adapter.earlier(json.dumps(payload), 10) == ()
    assert slack.calls("conversations.replies") == []
