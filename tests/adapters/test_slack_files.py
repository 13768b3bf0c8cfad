"""Loading files from Slack."""

from collections.abc import AsyncIterator

import pytest

from adapters.slack.adapter import SlackAdapter
from adapters.slack.files import is_slack_url
from clawbot.errors import NotLoaded
from clawbot.messages import Attachment
from clawbot.ports import Downloader
from tests.adapters.slack_rig import Recorder, opened, receiving
from tests.simulators.slack import SlackSimulator, Upload

BYTES = bytes(range(256)) * 1000


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(bot_name="clawbot") as simulator:
        simulator.create_user("alice", user_id="U1")
        yield simulator


@pytest.fixture
async def adapter(slack: SlackSimulator) -> AsyncIterator[SlackAdapter]:
    async with opened(slack) as ready:
        yield ready


async def sent_file(slack: SlackSimulator, name: str = "a.bin") -> Attachment:
    recorder = Recorder()
    async with receiving(slack, recorder, "socket"):
        chat = slack.create_dm("U1")
        await slack.user_says(chat, "U1", "see", files=[Upload(name=name, content=BYTES)])
        await recorder.until(lambda: recorder.messages)
        await slack.wait_settled()
    (attachment,) = recorder.messages[0].attachments
    return attachment


async def test_a_file_is_loaded_with_the_token_of_the_bot(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    assert isinstance(adapter, Downloader)
    attachment = await sent_file(slack)
    assert await adapter.download(attachment, len(BYTES)) == BYTES


async def test_a_file_that_is_too_large_is_not_loaded(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    attachment = await sent_file(slack)
    with pytest.raises(NotLoaded, match="larger than 1,000 bytes"):
        await adapter.download(attachment, 1000)
    assert slack.calls("files.download") == []
    understated = Attachment(kind="file", name="x", source=attachment.source, size_bytes=10)
    with pytest.raises(NotLoaded, match="larger than 1,000 bytes"):
        await adapter.download(understated, 1000)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("html", "files:read"),
        ("http:500", "HTTP 500"),
        ("http:404", "HTTP 404"),
        ("reset_before", "broke off"),
    ],
)
async def test_what_is_not_the_file_is_not_taken_for_it(
    slack: SlackSimulator, adapter: SlackAdapter, fault: str, reason: str
) -> None:
    attachment = await sent_file(slack)
    slack.fail_next("files.download", fault, times=2)  # a broken connection is tried again
    with pytest.raises(NotLoaded, match=reason):
        await adapter.download(attachment, len(BYTES))


@pytest.mark.parametrize(
    ("url", "is_ours"),
    [
        ("https://files.slack.com/files-pri/T1-F1/a.png", True),
        ("https://files.slack-gov.com/files-pri/T1-F1/a.png", True),
        ("https://slack.example/files-pri/a.png", False),
        ("https://files.slack.com.example/a.png", False),
        ("http://files.slack.com/a.png", False),
        ("https://files.slack.com:8443/a.png", False),
        ("https://drive.google.com/a", False),
        ("https://evil.example/.slack.com", False),
        ("https://files.slack.com@evil.example/a", False),
        ("https://[bad", False),
        ("file:///etc/passwd", False),
        ("http://127.0.0.1:1/files", False),
    ],
)
def test_the_token_goes_to_slack_alone(url: str, is_ours: bool) -> None:
    assert is_slack_url(url, "https://slack.com/api/") is is_ours


async def test_a_file_that_another_service_keeps_is_not_asked_for(
    slack: SlackSimulator, adapter: SlackAdapter
) -> None:
    foreign = Attachment(kind="file", name="x", source="http://127.0.0.1:9/secret")
    with pytest.raises(NotLoaded, match="another service"):
        await adapter.download(foreign, 1000)
