"""Growing replies on Slack: streams in threads, edits elsewhere, and the whole text in the end."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from adapters.slack.adapter import SlackAdapter
from clawbot.errors import NotSent, OutcomeUnknown
from clawbot.messages import InboundMessage, MessageRef, OutboundPart
from tests.adapters.slack_rig import Recorder, opened, part, receiving, until
from tests.simulators.slack import FOREVER, SentMessage, SlackSimulator

WHOLE = "One. Two. Three. Four."


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(bot_name="clawbot") as simulator:
        simulator.create_user("alice", user_id="U1")
        simulator.create_channel("general", ["U1"], channel_id="C1")
        yield simulator


@pytest.fixture
async def asked(slack: SlackSimulator) -> InboundMessage:
    """A question in a channel, as the adapter reads it."""
    recorder = Recorder()
    async with receiving(slack, recorder, "socket"):
        await slack.user_says("C1", "U1", "count", mention=True, order="message_only")
        await recorder.until(lambda: recorder.messages)
        await slack.wait_settled()
    return recorder.messages[0]


@pytest.fixture
async def adapter(slack: SlackSimulator, asked: InboundMessage) -> AsyncIterator[SlackAdapter]:
    async with opened(slack) as ready:
        await ready.check()
        yield ready


def reply(asked: InboundMessage, text: str, *, grows: bool = True, **fields: str) -> OutboundPart:
    return part(
        asked.chat_id,
        text,
        thread=asked.opens_thread,
        token=asked.reply_token,
        is_final=not grows,
        **fields,
    )


def shown(slack: SlackSimulator) -> SentMessage:
    """The one message that stands in the channel, which must not be a stream any more."""
    (sent,) = slack.sent("C1")
    assert not sent.streaming
    assert sent.metadata is not None, "it can be looked up"
    return sent


async def test_a_growing_reply_in_a_thread_is_streamed(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage
) -> None:
    ref = await adapter.send(reply(asked, "One."))
    await adapter.edit(ref, reply(asked, "One. Two."))
    await adapter.edit(ref, reply(asked, "One. Two. Three."))
    (sent,) = slack.sent("C1")
    assert sent.streaming
    await adapter.edit(ref, reply(asked, WHOLE, grows=False))
    sent = shown(slack)
    assert sent.revisions == ("One.", "One. Two.", "One. Two. Three.", WHOLE)
    assert sent.thread_ts == asked.opens_thread
    (start,) = slack.calls("chat.startStream")
    assert start.arguments["recipient_user_id"] == "U1"
    assert start.arguments["recipient_team_id"] == slack.workspace.team_id
    assert slack.calls("chat.update") == []


async def test_a_complete_reply_is_posted_and_so_is_one_outside_threads(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage
) -> None:
    await adapter.send(reply(asked, WHOLE, grows=False))
    chat = slack.create_dm("U1")
    ref = await adapter.send(part(chat, "One.", is_final=False))
    await adapter.edit(ref, part(chat, WHOLE))
    assert slack.calls("chat.startStream") == []
    assert [each.text for each in slack.sent(chat)] == [WHOLE]


async def test_streaming_can_be_switched_off(slack: SlackSimulator, asked: InboundMessage) -> None:
    async with opened(slack, streaming=False) as adapter:
        ref = await adapter.send(reply(asked, "One."))
        await adapter.edit(ref, reply(asked, WHOLE, grows=False))
    assert slack.calls("chat.startStream") == []
    assert shown(slack).text == WHOLE


async def test_a_thread_of_a_direct_chat_needs_no_recipient(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    chat = slack.create_dm("U1")
    root = await slack.user_says(chat, "U1", "count")
    await adapter.send(part(chat, "One.", thread=root, is_final=False))
    assert [each.streaming for each in slack.sent(chat)] == [True]


@pytest.mark.parametrize("code", ["missing_scope", "unknown_method", "channel_type_not_supported"])
async def test_where_slack_does_not_stream_the_reply_is_posted_and_slack_not_asked_again(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage, code: str
) -> None:
    slack.fail_next("chat.startStream", f"error:{code}", times=FOREVER)
    ref = await adapter.send(reply(asked, "One."))
    await adapter.edit(ref, reply(asked, WHOLE, grows=False))
    assert shown(slack).text == WHOLE
    await adapter.send(reply(asked, "more"))
    assert len(slack.calls("chat.startStream")) == 1


async def test_a_rate_limit_on_streams_leaves_the_post(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage
) -> None:
    slack.fail_next("chat.startStream", "ratelimited:30")
    ref = await adapter.send(reply(asked, "One."))
    await adapter.send(reply(asked, "other", key="k2"))
    await adapter.edit(ref, reply(asked, WHOLE, grows=False))
    assert len(slack.calls("chat.startStream")) == 1
    assert [each.text for each in slack.sent("C1")] == [WHOLE, "other"]


@pytest.mark.parametrize("fault", ["reset_after", "reset_before", "bad_json", "http:500", "html"])
@pytest.mark.parametrize("method", ["chat.appendStream", "chat.stopStream"])
async def test_after_any_doubt_the_whole_text_replaces_the_stream(
    slack: SlackSimulator,
    adapter: SlackAdapter,
    asked: InboundMessage,
    fault: str,
    method: str,
) -> None:
    ref = await adapter.send(reply(asked, "One."))
    slack.fail_next(method, fault)
    await adapter.edit(ref, reply(asked, "One. Two."))
    await adapter.edit(ref, reply(asked, "One. Two. Three."))
    for _ in range(3):
        try:
            await adapter.edit(ref, reply(asked, WHOLE, grows=False))
            break
        except (NotSent, OutcomeUnknown):
            continue  # the core tries an edit again
    assert shown(slack).shown == WHOLE


async def test_an_expired_stream_is_replaced_and_grows_on_by_edits(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage
) -> None:
    ref = await adapter.send(reply(asked, "One."))
    await slack.expire_streams()
    await adapter.edit(ref, reply(asked, "One. Two."))
    assert shown(slack).shown == "One. Two."
    await adapter.edit(ref, reply(asked, WHOLE, grows=False))
    assert shown(slack).shown == WHOLE


async def test_a_stream_that_expired_before_its_last_text_shows_it(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage
) -> None:
    ref = await adapter.send(reply(asked, "One."))
    await slack.expire_streams()
    await adapter.edit(ref, reply(asked, WHOLE, grows=False))
    assert shown(slack).shown == WHOLE


@pytest.mark.parametrize("is_open", [True, False])
async def test_another_process_ends_the_stream_with_the_whole_text(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage, is_open: bool
) -> None:
    ref = await adapter.send(reply(asked, "One."))
    if not is_open:
        await slack.expire_streams()
    async with opened(slack) as other:
        await other.edit(MessageRef(id=ref.id), reply(asked, WHOLE, grows=False))
    assert shown(slack).shown == WHOLE


async def test_a_text_that_does_not_only_grow_replaces_the_stream(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage
) -> None:
    ref = await adapter.send(reply(asked, "One. Two and a half"))
    await adapter.edit(ref, reply(asked, "One.", grows=False))
    assert shown(slack).shown == "One."


@pytest.mark.parametrize("fault", ["reset_after", "bad_json", "reset_before"])
async def test_a_stream_whose_beginning_is_in_doubt_is_found_by_its_words(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage, fault: str
) -> None:
    other = reply(asked, "One. Other.", grows=False, key="k0")
    await adapter.send(other)
    slack.fail_next("chat.startStream", fault)
    with pytest.raises(OutcomeUnknown):
        await adapter.send(reply(asked, "One. Two"))
    wanted = reply(asked, WHOLE, grows=False)
    async with opened(slack) as later:
        await later.check()
        if await later.lookup(wanted) is None:
            await later.send(wanted)
    assert [each.shown for each in slack.sent("C1")] == ["One. Other.", WHOLE]
    assert not any(each.streaming for each in slack.sent("C1"))


async def test_a_growing_stream_of_another_reply_is_not_taken_for_a_lost_one(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage
) -> None:
    await adapter.send(reply(asked, "One.", key="k0"))
    assert await adapter.lookup(reply(asked, "One. Two.")) is None


async def test_a_stop_that_is_rate_limited_is_tried_again_later(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage
) -> None:
    ref = await adapter.send(reply(asked, "One."))
    slack.fail_next("chat.stopStream", "ratelimited:1")
    with pytest.raises(NotSent) as caught:
        await adapter.edit(ref, reply(asked, WHOLE, grows=False))
    assert caught.value.retry_after_s == 1.0
    with pytest.raises(NotSent):
        await adapter.edit(ref, reply(asked, WHOLE, grows=False))
    assert len(slack.calls("chat.stopStream")) == 1

    await asyncio.sleep(caught.value.retry_after_s)  # as Slack asked for
    await adapter.edit(ref, reply(asked, WHOLE, grows=False))
    assert shown(slack).text == WHOLE


async def test_an_append_that_is_cut_off_is_in_doubt(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage
) -> None:
    ref = await adapter.send(reply(asked, "One."))
    slack.fail_next("chat.appendStream", "hang_after")
    task = asyncio.create_task(adapter.edit(ref, reply(asked, "One. Two.")))
    await until(lambda: slack.sent("C1")[0].text == "One. Two.")
    task.cancel()
    await asyncio.wait([task])
    await adapter.edit(ref, reply(asked, WHOLE, grows=False))
    assert shown(slack).shown == WHOLE


async def test_what_the_agent_does_is_said_in_the_status_of_the_thread(
    slack: SlackSimulator, adapter: SlackAdapter, asked: InboundMessage
) -> None:
    route = reply(asked, "").route
    key = ("C1", asked.opens_thread)
    await adapter.typing(route, active=True)
    assert slack.workspace.thread_status[key] == "is thinking…"
    ref = await adapter.send(reply(asked, "One."))
    await adapter.edit(ref, reply(asked, "One.", progress="reading a.py"))
    await until(lambda: slack.calls("assistant.threads.setStatus"))
    await adapter.edit(ref, reply(asked, WHOLE, grows=False))
    await adapter.typing(route, active=False)
    assert key not in slack.workspace.thread_status
    assert shown(slack).text == WHOLE
    assert "reading" not in "".join(shown(slack).revisions)
