"""Posting, editing and looking up on Slack, and what every failure is called."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from adapters.slack.adapter import SlackAdapter, open_adapter
from clawbot.errors import ChannelBroken, NotSent, OutcomeUnknown, Rejected
from clawbot.messages import MessageRef
from clawbot.ports import ChannelAdapter, Editor, Enricher, HealthReporter, Lookup, Typing
from tests.adapters.slack_rig import HandClock, Recorder, config, opened, part, receiving
from tests.simulators.slack import SlackSimulator


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(bot_name="clawbot") as simulator:
        simulator.create_user("alice", user_id="U1")
        simulator.create_channel("general", ["U1"], channel_id="C1")
        yield simulator


@pytest.fixture
async def adapter(slack: SlackSimulator) -> AsyncIterator[SlackAdapter]:
    async with opened(slack) as ready:
        yield ready


def test_the_adapter_has_the_seams_that_the_core_looks_for() -> None:
    for seam in (Editor, Enricher, HealthReporter, Lookup, Typing):
        assert issubclass(SlackAdapter, seam)
    needed = {name for name in vars(ChannelAdapter) if not name.startswith("_")}
    assert {"check", "receive", "send", "measure", "close"} <= needed <= set(dir(SlackAdapter))


async def test_a_reply_stands_in_its_thread_without_previews(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    root = await slack.user_says("C1", "U1", "hello")
    ref = await adapter.send(part("C1", "**hi** <!channel>", thread=root))
    (sent,) = slack.sent("C1")
    assert sent.text == "*hi* &lt;!channel&gt;"
    assert sent.thread_ts == root
    assert ref == MessageRef(id=f"C1:{sent.ts}")
    (call,) = slack.calls("chat.postMessage")
    assert call.arguments["unfurl_links"] is False


async def test_a_growing_reply_is_replaced_whole_and_loses_its_progress_line(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    chat = slack.create_dm("U1")
    ref = await adapter.send(part(chat, "Let me", progress="reading <a.py>", is_final=False))
    await adapter.edit(ref, part(chat, "Let me see: *done*."))
    (sent,) = slack.sent(chat)
    assert sent.revisions == ("Let me\n\n⏳ reading &lt;a.py&gt;", "Let me see: _done_.")
    assert sent.shown == "Let me see: *done*."
    assert sent.metadata["event_payload"] == {"key": "k1"}


@pytest.mark.parametrize("in_channel", [True, False])
async def test_the_reply_to_slash_words_in_a_channel_tells_the_thread_that_it_begins(
    slack: SlackSimulator, adapter: SlackAdapter, in_channel: bool
) -> None:
    chat = "C1" if in_channel else slack.create_dm("U1")
    ref = await adapter.send(part(chat, "hi", token="slash"))
    (sent,) = slack.sent(chat)
    assert sent.thread_ts is None
    assert ref.thread == (sent.ts if in_channel else None)


async def test_any_full_part_can_be_posted_and_edited(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    await slack.user_says(slack.create_dm("U1"), "U1", "I am alice")
    text = "龙" * 1000 + "&" * 100 + "@alice " * 40 + "<!here>" * 40 + "x" * 8700
    assert adapter.limits.max_size - 100 <= adapter.measure(text) <= adapter.limits.max_size
    chat = slack.create_dm("U1")
    ref = await adapter.send(part(chat, text, progress="工具" * 300))
    await adapter.edit(ref, part(chat, text + "!", progress="工具&" * 300))
    (sent,) = slack.sent(chat)
    assert all(len(each.encode()) <= 4000 for each in sent.revisions)
    assert sent.edits == 1
    assert sent.shown.count("x") == 8700


async def test_a_refused_block_is_sent_as_text_without_one(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    chat = slack.create_dm("U1")
    long = "# Title\n\n" + "word " * 1500
    slack.fail_next("chat.postMessage", "error:invalid_blocks")
    slack.fail_next("chat.update", "error:invalid_blocks")
    ref = await adapter.send(part(chat, long))
    (sent,) = slack.sent(chat)
    assert sent.blocks == ()
    assert sent.text.startswith("*Title*")
    assert sent.text.count("word") == 1500
    await adapter.edit(ref, part(chat, long + "end"))
    assert slack.sent(chat)[0].text.endswith("word end"), "longer than chat.update takes as text"


@pytest.mark.parametrize("code", ["message_not_found", "edit_window_closed", "cant_update_message"])
async def test_a_last_text_that_cannot_be_edited_in_is_sent_anew_and_once(
    slack: SlackSimulator, adapter: SlackAdapter, code: str
) -> None:
    chat = slack.create_dm("U1")
    ref = await adapter.send(part(chat, "half", is_final=False))
    slack.fail_next("chat.update", f"error:{code}", times=3)
    await adapter.edit(ref, part(chat, "half and", is_final=False))
    assert [each.text for each in slack.sent(chat)] == ["half"]
    for _ in range(2):
        await adapter.edit(ref, part(chat, "half and half"))
    assert [each.text for each in slack.sent(chat)] == ["half", "half and half"]


async def test_a_revision_that_cannot_be_shown_is_no_message_of_its_own(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    ref = await adapter.send(part("C1", "May I?"))
    slack.fail_next("chat.update", "error:message_not_found")
    with pytest.raises(Rejected):
        await adapter.edit(ref, part("C1", "Approved.", is_revision=True))
    assert [each.text for each in slack.sent("C1")] == ["May I?"]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("ratelimited:3", NotSent),
        ("error:ratelimited", NotSent),
        ("error:is_archived", Rejected),
        ("error:msg_too_long", Rejected),
        ("error:fatal_error", OutcomeUnknown),
        ("http:500", OutcomeUnknown),
        ("http:503", OutcomeUnknown),
        ("http:404", NotSent),
        ("reset_before", OutcomeUnknown),
        ("reset_after", OutcomeUnknown),
        ("bad_json", OutcomeUnknown),
        ("html", OutcomeUnknown),
    ],
)
async def test_each_failure_says_whether_the_message_may_be_there(
    slack: SlackSimulator, adapter: SlackAdapter, fault: str, kind: type[Exception]
) -> None:
    chat = slack.create_dm("U1")
    slack.fail_next("chat.postMessage", fault)
    with pytest.raises(kind) as caught:
        await adapter.send(part(chat, "hello"))
    assert len(slack.calls("chat.postMessage")) == 1, "nothing is repeated in the adapter"
    if fault == "ratelimited:3":
        assert caught.value.retry_after_s == 3.0  # type: ignore[attr-defined]
    if kind is Rejected:
        assert caught.value.code == fault.partition(":")[2]  # type: ignore[attr-defined]
    assert adapter.health().state != "broken"


async def test_a_server_that_is_not_there_took_nothing(slack: SlackSimulator) -> None:
    async with opened(slack, api_base_url="http://127.0.0.1:9/api/") as adapter:
        with pytest.raises(NotSent):
            await adapter.send(part("C1", "hello"))


async def test_a_server_that_never_answers_may_have_taken_it(
    slack: SlackSimulator, adapter: SlackAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.slack.api.CALL_TIMEOUT_S", 0.3)
    chat = slack.create_dm("U1")
    slack.fail_next("chat.postMessage", "hang_after")
    with pytest.raises(OutcomeUnknown):
        await adapter.send(part(chat, "hello"))
    assert len(slack.sent(chat)) == 1


@pytest.mark.parametrize("code", ["token_revoked", "invalid_auth", "account_inactive"])
async def test_a_refused_account_becomes_visible_and_ends_the_receiving(
    slack: SlackSimulator, code: str
) -> None:
    async with opened(slack) as adapter:
        task = asyncio.create_task(adapter.receive(Recorder()))
        await slack.wait_connected()
        await slack.revoke_token("bot", error=code)
        with pytest.raises(NotSent, match=code):
            await adapter.send(part("C1", "hello"))
        health = adapter.health()
        assert health.state == "broken"
        assert code in health.detail
        with pytest.raises(ChannelBroken, match=code):
            await asyncio.wait_for(task, 10)


@pytest.mark.parametrize("in_thread", [True, False])
@pytest.mark.parametrize("fault", ["reset_after", "bad_json"])
async def test_a_message_of_unknown_outcome_is_found_by_its_key(
    slack: SlackSimulator, adapter: SlackAdapter, in_thread: bool, fault: str
) -> None:
    root = await slack.user_says("C1", "U1", "hello")
    thread = root if in_thread else None
    await adapter.send(part("C1", "first", key="other", thread=thread))
    slack.fail_next("chat.postMessage", fault)
    wanted = part("C1", "answer", key="wanted", thread=thread)
    with pytest.raises(OutcomeUnknown):
        await adapter.send(wanted)
    found = await adapter.lookup(wanted)
    assert found is not None
    assert found.id == f"C1:{slack.sent('C1')[-1].ts}"
    assert await adapter.lookup(part("C1", "answer", key="absent", thread=thread)) is None


async def test_a_key_is_found_behind_many_newer_messages(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    root = await slack.user_says("C1", "U1", "hello")
    wanted = part("C1", "answer", key="wanted", thread=root)
    for _ in range(230):
        await slack.user_says("C1", "U1", "and more", thread_ts=root)
    sent = await adapter.send(wanted)
    assert await adapter.lookup(wanted) == sent
    assert len(slack.calls("conversations.replies")) == 2


@pytest.mark.parametrize("method", ["conversations.history", "conversations.replies"])
async def test_it_is_looked_for_from_the_first_try_on(
    slack: SlackSimulator, adapter: SlackAdapter, method: str
) -> None:
    root = await slack.user_says("C1", "U1", "hello")
    thread = root if method == "conversations.replies" else None
    tried_ms = int(float(root) * 1000) - 3_600_000
    assert await adapter.lookup(part("C1", "answer", thread=thread, tried_ms=tried_ms)) is None
    (call,) = slack.calls(method)
    assert 0 < tried_ms / 1000 - float(call.arguments["oldest"]) <= 600, "clocks differ a little"


@pytest.mark.parametrize("fault", ["http:500", "ratelimited:1", "error:missing_scope"])
async def test_a_question_that_failed_is_no_answer(
    slack: SlackSimulator, adapter: SlackAdapter, fault: str
) -> None:
    slack.fail_next("conversations.history", fault)
    with pytest.raises(NotSent):
        await adapter.lookup(part("C1", "answer"))


async def test_what_is_found_shows_the_text_of_now(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    chat = slack.create_dm("U1")
    slack.fail_next("chat.postMessage", "reset_after")
    with pytest.raises(OutcomeUnknown):
        await adapter.send(part(chat, "half", is_final=False))
    assert await adapter.lookup(part(chat, "half and half")) is not None
    assert [each.text for each in slack.sent(chat)] == ["half and half"]


async def test_known_people_are_mentioned_and_nobody_else(slack: SlackSimulator) -> None:
    recorder = Recorder()
    async with receiving(slack, recorder, "socket") as adapter:
        await slack.user_says("C1", "U1", "hello", mention=True)
        await recorder.until(lambda: recorder.messages)
        await adapter.enrich(recorder.messages[0].raw)
        await adapter.send(part("C1", "@alice: `@alice` @bob @here <@U1> <@U2> <!channel>"))
    (sent,) = slack.sent("C1")
    assert re.findall(r"<[@!]\w*>", sent.text) == ["<@U1>", "<@U1>"]
    assert re.findall(r"<[@!]\w*>", sent.shown) == ["<@U1>", "<@U1>"]
    assert "`@alice`" in sent.shown
    assert not re.search(r"@here\b", sent.shown)


async def test_posts_to_one_channel_keep_a_pace_that_other_channels_do_not_wait_for(
    slack: SlackSimulator,
) -> None:
    clock = HandClock()
    began = clock.time_s
    slack.create_channel("random", ["U1"], channel_id="C2")
    adapter = open_adapter("slack", config(slack), clock)
    try:
        for number in range(6):
            await adapter.send(part("C1", f"n{number}"))
        assert clock.time_s - began == pytest.approx(2.0), "a burst of four, then one a second"
        await adapter.send(part("C2", "other"))
        assert clock.time_s - began == pytest.approx(2.0)
        slack.fail_next("chat.postMessage", "ratelimited:30")
        for _ in range(2):
            with pytest.raises(NotSent) as caught:
                await adapter.send(part("C1", "late"))
            assert caught.value.retry_after_s == pytest.approx(30, abs=2)
        await adapter.send(part("C2", "not limited"))
        assert len(slack.calls("chat.postMessage")) == 9, "Slack is not asked again before"
        clock.time_s += 31
        await adapter.send(part("C1", "late"))
    finally:
        await adapter.close()


async def test_a_conversation_goes_there_and_back(slack: SlackSimulator) -> None:
    recorder = Recorder()
    async with receiving(slack, recorder, "socket") as adapter:
        ts = await slack.user_says("C1", "U1", "hello", mention=True, order="message_only")
        await recorder.until(lambda: recorder.messages)
        message = recorder.messages[0]
        await adapter.send(part(message.chat_id, "hi", thread=message.opens_thread))
        await slack.user_says("C1", "U1", "and?", thread_ts=ts)
        await recorder.until(lambda: len(recorder.messages) == 2)
        assert recorder.messages[1].thread == message.opens_thread
        await slack.wait_settled()
        assert recorder.texts == ["hello", "and?"], "own posts are not heard"
