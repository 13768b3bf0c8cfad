"""The Slack adapter in HTTP mode in front of a server that is not ours: crabline's.

What we believe of Slack stands in our own simulator; this shows that somebody else believes the
same. The server knows signed events, posts and histories, and neither edits nor streams.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.slack.adapter import SlackAdapter, open_adapter
from adapters.slack.config import SlackConfig
from clawbot.clock import SystemClock
from clawbot.errors import NotSent
from clawbot.messages import ChatType, InboundMessage
from tests.adapters.crabline_server import Crabline, install, running
from tests.adapters.slack_rig import QUICK, HandClock, Recorder, listening, part
from tests.flow.conftest import free_port

BOT = "UCRABBOT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The running server, in Slack's words, and the port where it looks for us."""

    server: Crabline
    port: int

    async def user_says(self, channel: str, text: str, **more: Any) -> str:
        """Let alice write; returns the ts."""
        body = {"channel": channel, "user": "UALICE", "text": text, **more}
        headers = {"X-Crabline-Admin-Token": self.server.manifest["adminToken"]}
        return str((await self.server.inject(body, headers))["message"]["ts"])

    def posts(self) -> list[dict[str, Any]]:
        """What we posted, in order."""
        return [
            line["body"]
            for line in self.server.recorded()
            if line.get("path") == "/api/chat.postMessage" and line.get("accepted")
        ]

    def config(self) -> SlackConfig:
        manifest = self.server.manifest
        return SlackConfig(
            mode="http",
            bot_token=SecretStr(manifest["botToken"]),
            signing_secret=SecretStr(manifest["signingSecret"]),
            api_base_url=manifest["endpoints"]["apiRoot"],
            listen_port=self.port,
        )


@pytest.fixture
async def workspace(pytestconfig: pytest.Config, tmp_path: Path) -> AsyncIterator[Workspace]:
    folder, port = install(pytestconfig.cache), free_port()
    async with running(
        folder,
        "slack",
        recorderPath=str(tmp_path / "slack.jsonl"),
        eventsRequestUrl=f"http://127.0.0.1:{port}/slack/events",
        chatPostMessageRateLimit={"remaining": 3, "retryAfterSeconds": 7},
    ) as server:
        yield Workspace(server=server, port=port)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def adapter(workspace: Workspace, recorder: Recorder) -> AsyncIterator[SlackAdapter]:
    made = open_adapter("slack", workspace.config(), SystemClock(), timings=QUICK)
    try:
        async with listening(made, recorder):
            yield made
    finally:
        await made.close()


async def heard(recorder: Recorder, count: int = 1) -> InboundMessage:
    await recorder.until(lambda: len(recorder.messages) >= count)
    return recorder.messages[count - 1]


async def test_it_tells_us_who_we_are(adapter: SlackAdapter) -> None:
    assert adapter.health().facts["user_id"] == BOT


async def test_a_direct_message_is_heard_and_answered(
    workspace: Workspace, recorder: Recorder, adapter: SlackAdapter
) -> None:
    ts = await workspace.user_says("D000000001", "a &lt; b 你好")
    message = await heard(recorder)
    assert (message.identity, message.text) == (f"D000000001:{ts}", "a < b 你好")
    assert (message.chat_type, message.thread) == (ChatType.DM, None)
    completed = await adapter.enrich(message.raw)
    assert completed.sender.name == "UALICE", "the server knows no names"
    await adapter.send(part(message.chat_id, "**yes** & no"))
    (sent,) = workspace.posts()
    assert sent["channel"] == "D000000001"
    assert sent["text"] == "*yes* &amp; no"
    assert sent["blocks"] == [{"type": "markdown", "text": "**yes** & no"}]
    assert sent.get("thread_ts") is None


async def test_a_mention_in_a_channel_and_its_thread_stay_together(
    workspace: Workspace, recorder: Recorder, adapter: SlackAdapter
) -> None:
    root = await workspace.user_says("C000000001", f"<@{BOT}> what is it?")
    asked = await heard(recorder)
    assert (asked.mentioned, asked.text, asked.opens_thread) == (True, "what is it?", root)
    assert asked.chat_type is ChatType.GROUP
    await adapter.send(part("C000000001", "a crab", thread=asked.opens_thread))
    await workspace.user_says("C000000001", "and why?", threadTs=root)
    more = await heard(recorder, 2)
    assert (more.text, more.thread, more.mentioned) == ("and why?", root, False)
    (sent,) = workspace.posts()
    assert sent["thread_ts"] == root
    earlier = await adapter.earlier(more.raw, 10)
    assert [each.text for each in earlier] == ["what is it?", "a crab"]


async def test_what_was_sent_is_found_by_its_key(
    workspace: Workspace, recorder: Recorder, adapter: SlackAdapter
) -> None:
    root = await workspace.user_says("C000000001", f"<@{BOT}> hello")
    await heard(recorder)
    sent = await adapter.send(part("C000000001", "hi", thread=root, key="k1"))
    clock = HandClock()
    clock.time_s = 1_700_000_000.0  # that server's time
    asking = open_adapter("slack", workspace.config(), clock)
    try:
        assert await asking.lookup(part("C000000001", "hi", thread=root, key="k1")) == sent
        assert await asking.lookup(part("C000000001", "hi", thread=root, key="k2")) is None
        assert await asking.lookup(part("C000000001", "hi", key="k1")) is None
    finally:
        await asking.close()


async def test_its_rate_limit_is_kept(
    workspace: Workspace, recorder: Recorder, adapter: SlackAdapter
) -> None:
    await workspace.user_says("D000000001", "hello")
    await heard(recorder)
    for number in range(3):
        await adapter.send(part("D000000001", f"n{number}"))
    with pytest.raises(NotSent) as caught:
        await adapter.send(part("D000000001", "one too many"))
    assert caught.value.retry_after_s == 7.0


async def test_what_was_not_stored_comes_again(
    workspace: Workspace, recorder: Recorder, adapter: SlackAdapter
) -> None:
    recorder.refusals = 1
    await workspace.user_says("D000000001", "hello")
    assert (await heard(recorder)).text == "hello"
