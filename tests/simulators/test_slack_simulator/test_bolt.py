"""slack_bolt as it is usually written, against the simulator, on both transports."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack import SlackSimulator


def robot(slack: SlackSimulator, client: AsyncWebClient) -> AsyncApp:
    app = AsyncApp(client=client, signing_secret=slack.signing_secret)

    @app.event("app_mention")
    async def mentioned(event: dict[str, Any], say: Any) -> None:
        await say(f"you said {event['text']}", thread_ts=event["ts"])

    @app.command("/robot")
    async def command(ack: Any, respond: Any) -> None:
        await ack("wait…")
        await respond("done", response_type="in_channel")

    @app.event(re.compile(".*"))
    async def anything(event: dict[str, Any]) -> None:
        assert event["type"] == "message"

    return app


@asynccontextmanager
async def over_socket_mode(slack: SlackSimulator, app: AsyncApp) -> AsyncIterator[None]:
    handler = AsyncSocketModeHandler(app, slack.app_token)
    await handler.connect_async()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]


@asynccontextmanager
async def over_http(slack: SlackSimulator, app: AsyncApp) -> AsyncIterator[None]:
    runner = web.AppRunner(app.server(port=0, path="/slack/events").web_app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await slack.use_http(f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events")
    try:
        yield
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("serving", [over_socket_mode, over_http])
async def test_bolt_answers_a_mention_in_its_thread_and_a_command_in_the_channel(
    slack: SlackSimulator, client: AsyncWebClient, serving: Any
) -> None:
    async with serving(slack, robot(slack, client)):
        ts = await slack.user_says("general", "alice", "hello", mention=True)
        answer = await slack.wait_text("you said")
        await slack.slash_command("general", "alice", "robot")
        done = await slack.wait_text("done")
        await slack.wait_settled()
    assert answer.thread_ts == ts
    assert done.thread_ts is None
    assert [message.text for message in slack.ephemerals()] == ["wait…"]
    assert {each.attempts for each in slack.acked()} == {1}
    assert slack.unacked() == []
