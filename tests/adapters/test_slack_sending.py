"""Posting, editing and looking up on Slack, and what every failure is called."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from adapters.slack.adapter import SlackAdapter
from clawbot.errors import ChannelBroken, NotSent, OutcomeUnknown, Rejected
from clawbot.messages import MessageRef, ReplyRoute
from clawbot.ports import ChannelAdapter, Editor, Enricher, HealthReporter, Lookup, Typing
from tests.adapters.slack_rig import Recorder, opened, part, receiving
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
    text = "龙" * 1000 + "&" * 100 + "x" * 300
    assert adapter.limits.max_size - 100 <= adapter.measure(text) <= adapter.limits.max_size
    chat = slack.create_dm("U1")
    ref = await adapter.send(part(chat, text, progress="工具" * 300))
    await adapter.edit(ref, part(chat, text, progress="工具&" * 300))
    (sent,) = slack.sent(chat)
    assert all(len(each.encode()) <= 4000 for each in sent.revisions)
    assert "…" in sent.text


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
        with pytest.raises(Rejected, match=code):
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


@pytest.mark.parametrize("fault", ["http:500", "ratelimited:1", "error:missing_scope"])
async def test_a_question_that_failed_is_no_answer(
    slack: SlackSimulator, adapter: SlackAdapter, fault: str
) -> None:
    slack.fail_next("conversations.history", fault)
    with pytest.raises(NotSent):
        await adapter.lookup(part("C1", "answer"))


async def test_the_status_is_shown_in_threads_and_its_failure_disturbs_nobody(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    root = await slack.user_says("C1", "U1", "hello")
    route = ReplyRoute(chat_id="C1", thread=root)
    await adapter.typing(route, active=True)
    await adapter.typing(ReplyRoute(chat_id="C1"), active=True)
    await adapter.typing(route, active=False)
    assert [call.arguments["status"] for call in slack.calls("assistant.threads.setStatus")] == [
        "is thinking…",
        "",
    ]
    slack.fail_next("assistant.threads.setStatus", "error:missing_scope")
    await adapter.typing(route, active=True)
    await adapter.typing(route, active=True)
    assert len(slack.calls("assistant.threads.setStatus")) == 3


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
