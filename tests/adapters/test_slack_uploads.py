"""Files to Slack: three steps, of which only the last is seen, and what each failure means."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from adapters.slack.adapter import SlackAdapter, open_adapter
from clawbot.errors import NotSent, OutcomeUnknown, Rejected
from clawbot.messages import OutboundFile, OutboundPart
from clawbot.ports import Uploader
from tests.adapters.slack_rig import HandClock, config, opened, part
from tests.simulators.slack import SlackSimulator

BYTES = bytes(range(256)) * 40
RESERVE, BRING, SHARE = (
    "files.getUploadURLExternal",
    "files.upload",
    "files.completeUploadExternal",
)


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(bot_name="clawbot") as simulator:
        simulator.create_user("alice", user_id="U1")
        simulator.create_channel("general", ["U1"], channel_id="C1")
        yield simulator


@pytest.fixture
async def adapter(slack: SlackSimulator) -> AsyncIterator[SlackAdapter]:
    async with opened(slack) as ready:
        await ready.check()
        yield ready


def file_part(
    chat_id: str = "C1",
    *,
    name: str = "plan <a> & b.pdf",
    key: str = "k1",
    thread: str | None = None,
) -> OutboundPart:
    file = OutboundFile(name=name, mime="application/pdf", size_bytes=len(BYTES), blob="b1")
    return part(chat_id, "could not be sent", key=key, thread=thread, file=file)


@pytest.mark.parametrize("in_thread", [True, False])
async def test_a_file_stands_in_the_thread_under_its_name_with_its_bytes(
    slack: SlackSimulator, adapter: SlackAdapter, in_thread: bool
) -> None:
    assert isinstance(adapter, Uploader)
    root = await slack.user_says("C1", "U1", "hello")
    thread = root if in_thread else None
    await adapter.upload(file_part(thread=thread), BYTES)
    (sent,) = slack.sent_files("C1")
    assert (sent.name, sent.title) == ("plan <a> & b.pdf", "plan <a> & b.pdf")
    assert sent.content == BYTES
    assert sent.thread_ts == thread
    assert "could not be sent" not in slack.sent("C1")[0].shown
    (brought,) = slack.calls(BRING)
    assert not brought.arguments["has_token"], "the URL is a secret of its own"


@pytest.mark.parametrize("step", [RESERVE, BRING])
@pytest.mark.parametrize(
    "fault", ["reset_before", "reset_after", "http:500", "http:404", "slow:1", "ratelimited:3"]
)
async def test_what_fails_before_the_last_step_is_surely_not_sent(
    slack: SlackSimulator,
    adapter: SlackAdapter,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    fault: str,
) -> None:
    if fault.startswith("slow"):
        monkeypatch.setattr("adapters.slack.api.CALL_TIMEOUT_S", 0.2)
        await adapter.close()  # the next call opens a session with this time-out
    slack.fail_next(step, fault, times=2)  # aiohttp may repeat what an idle connection broke
    with pytest.raises(NotSent) as caught:
        await adapter.upload(file_part(), BYTES)
    if (step, fault) == (RESERVE, "ratelimited:3"):
        assert caught.value.retry_after_s == 3.0
    assert slack.sent_files() == []
    slack.clear_faults()
    monkeypatch.undo()
    await adapter.close()
    await adapter.upload(file_part(), BYTES)
    assert [each.content for each in slack.sent_files()] == [BYTES]


@pytest.mark.parametrize(
    ("step", "fault", "code"),
    [
        (RESERVE, "error:missing_scope", "missing_scope"),
        (RESERVE, "error:file_uploads_disabled", "file_uploads_disabled"),
        (BRING, "http:413", "upload_http_413"),
        (SHARE, "error:is_archived", "is_archived"),
        (SHARE, "error:restricted_action", "restricted_action"),
    ],
)
async def test_what_slack_refuses_for_good_is_rejected(
    slack: SlackSimulator, adapter: SlackAdapter, step: str, fault: str, code: str
) -> None:
    slack.fail_next(step, fault)
    with pytest.raises(Rejected) as caught:
        await adapter.upload(file_part(), BYTES)
    assert caught.value.code == code
    assert slack.sent_files() == []


@pytest.mark.parametrize(
    ("fault", "is_there"),
    [
        ("reset_after", True),
        ("bad_json", True),
        ("html", True),
        ("reset_before", False),
        ("http:503", False),
        ("error:internal_error", False),
    ],
)
async def test_the_outcome_of_the_last_step_is_looked_up(
    slack: SlackSimulator, adapter: SlackAdapter, fault: str, is_there: bool
) -> None:
    root = await slack.user_says("C1", "U1", "hello")
    await adapter.upload(file_part(thread=root, key="twin"), BYTES)
    slack.fail_next(SHARE, fault)
    wanted = file_part(thread=root)
    with pytest.raises(OutcomeUnknown):
        await adapter.upload(wanted, BYTES)
    async with opened(slack) as another:  # which knows nothing of the first attempt
        await another.check()
        found = await another.lookup(wanted)
        assert (found is not None) is is_there
        if found is None:
            await another.upload(wanted, BYTES)
    assert len(slack.sent_files("C1")) == 2, "its twin, and once itself"


async def test_the_last_step_may_never_be_answered(
    slack: SlackSimulator, adapter: SlackAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.slack.api.CALL_TIMEOUT_S", 0.5)
    await adapter.close()
    slack.fail_next(SHARE, "hang_after")
    with pytest.raises(OutcomeUnknown):
        await adapter.upload(file_part(), BYTES)
    assert await adapter.lookup(file_part()) is not None


@pytest.mark.parametrize("step", [RESERVE, BRING, SHARE])
async def test_an_upload_that_is_given_up_in_the_middle_is_sent_once_in_the_end(
    slack: SlackSimulator, adapter: SlackAdapter, step: str
) -> None:
    slack.fail_next(step, "hang_after")
    task = asyncio.create_task(adapter.upload(file_part(), BYTES))
    await slack.wait_for(lambda: [call for call in slack.calls(step) if call.processed])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    found = await adapter.lookup(file_part())
    assert (found is not None) is (step == SHARE)
    if found is None:
        await adapter.upload(file_part(), BYTES)
    assert [each.content for each in slack.sent_files()] == [BYTES]


async def test_a_file_without_its_key_is_known_by_its_name_and_size(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    await adapter.upload(file_part(key="another"), BYTES)
    slack.fail_next(SHARE, "error:invalid_blocks")
    slack.fail_next(SHARE, "reset_after")
    with pytest.raises(OutcomeUnknown):
        await adapter.upload(file_part(), BYTES)
    found = await adapter.lookup(file_part())
    assert found is not None
    assert found.id == f"C1:{slack.sent('C1')[-1].ts}"
    assert slack.sent("C1")[-1].blocks == ()
    assert await adapter.lookup(file_part(name="other.pdf", key="k2")) is None


async def test_files_keep_the_pace_of_their_channel(slack: SlackSimulator) -> None:
    """One pace per channel counts for files too, and what Slack refused is not asked again."""
    clock = HandClock()
    slack.create_channel("random", ["U1"], channel_id="C2")
    adapter = open_adapter("slack", config(slack), clock)
    try:
        began = clock.time_s
        for number in range(6):
            await adapter.upload(file_part(key=f"k{number}"), BYTES)
        assert clock.time_s - began == pytest.approx(2.0), "a burst of four, then one a second"
        slack.fail_next(SHARE, "ratelimited:30")
        for _ in range(2):
            with pytest.raises(NotSent) as caught:
                await adapter.upload(file_part(key="late"), BYTES)
            assert caught.value.retry_after_s == pytest.approx(30, abs=2)
        await adapter.upload(file_part("C2"), BYTES)
        assert len(slack.calls(SHARE)) == 8, "Slack is not asked again before"
    finally:
        await adapter.close()
