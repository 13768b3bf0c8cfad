"""The real SDK in front of the simulator: a Socket Mode client, a signed request URL, errors."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack import SlackSimulator

WAIT_S = 5.0


@asynccontextmanager
async def connected(
    slack: SlackSimulator,
    answer: Callable[[SocketModeRequest], dict[str, Any] | None] = lambda _request: {},
    *,
    ping_interval: float = 5.0,
) -> AsyncIterator[list[SocketModeRequest]]:
    """A real Socket Mode client that acks with `answer` (None: does not ack) and keeps requests."""
    seen: list[SocketModeRequest] = []

    async def listener(client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        seen.append(request)
        payload = answer(request)
        if payload is not None:
            response = SocketModeResponse(request.envelope_id, payload or None)
            await client.send_socket_mode_response(response)

    web_client = AsyncWebClient(slack.bot_token, base_url=slack.api_url)
    client = SocketModeClient(slack.app_token, web_client=web_client, ping_interval=ping_interval)
    client.socket_mode_request_listeners.append(listener)
    await client.connect()  # type: ignore[no-untyped-call]
    try:
        yield seen
    finally:
        await client.close()  # type: ignore[no-untyped-call]


def types(requests: list[SocketModeRequest]) -> list[str]:
    return [request.payload["event"]["type"] for request in requests]


async def error_of(call: Awaitable[object]) -> str:
    with pytest.raises(SlackApiError) as caught:
        await call
    return str(caught.value.response["error"])


@asynccontextmanager
async def receiver(
    slack: SlackSimulator, answers: list[int] | None = None
) -> AsyncIterator[tuple[str, list[tuple[dict[str, str], Any]]]]:
    """An app's request URL that checks signatures; `answers` are the statuses to give, then 200."""
    verifier = SignatureVerifier(slack.signing_secret)
    seen: list[tuple[dict[str, str], Any]] = []
    statuses = list(answers or [])

    async def receive(request: web.Request) -> web.Response:
        raw = await request.read()
        if not verifier.is_valid_request(raw, dict(request.headers)):
            return web.Response(status=401)
        if request.content_type == "application/json":
            body = json.loads(raw)
        else:
            body = {name: values[0] for name, values in parse_qs(raw.decode()).items()}
        if body.get("type") == "url_verification":
            return web.json_response({"challenge": body["challenge"]})
        seen.append((dict(request.headers), body))
        status = statuses.pop(0) if statuses else 200
        return web.Response(
            status=status, headers={"X-Slack-No-Retry": "1"} if status == 418 else {}
        )

    app = web.Application()
    app.router.add_post("/slack/events", receive)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events", seen
    finally:
        await runner.cleanup()
