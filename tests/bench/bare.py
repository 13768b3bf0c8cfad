"""The yardstick: receive, one model call, post. It keeps nothing.

`python -m tests.bench.bare MODEL_BASE_URL API_URL` prints its URL and serves.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import aiohttp
import uvloop
from aiohttp import web
from pydantic import SecretStr
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelRequest, UserPromptPart

from clawbot.agent.dialects import dialect_of
from clawbot.agent.endpoint import Endpoint
from clawbot.agent.models import HttpClients
from clawbot.agent.openai_models import build_model
from tests.bench.load import BOT_TOKEN


class Bare:
    """The pipeline, with the connections that it shares between messages."""

    def __init__(self, model_url: str, api_url: str, clients: HttpClients) -> None:
        dialect = dialect_of("openai-chat", None)
        assert dialect is not None
        endpoint = Endpoint(
            provider="openai-chat",
            dialect=dialect,
            base_url=model_url,
            is_own=True,
            api_key=SecretStr("made-up"),
            http_client=clients.for_url(model_url),
        )
        self._model = build_model(endpoint, "echo")
        self._post_url = f"{api_url}/api/chat.postMessage"
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {BOT_TOKEN}"})
        self._answering: set[asyncio.Task[None]] = set()

    async def receive(self, request: web.Request) -> web.Response:
        """Acknowledge at once and answer in the background, as bots of this kind do."""
        payload = await request.json()
        task = asyncio.create_task(self._answer(payload["event"]))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        return web.Response()

    async def _answer(self, event: dict[str, Any]) -> None:
        messages = [ModelRequest(parts=[UserPromptPart(content=event["text"])])]
        async with model_request_stream(self._model, messages) as stream:
            async for _ in stream:
                pass
            text = stream.get().text
        post = {"channel": event["channel"], "text": text}
        async with self._session.post(self._post_url, json=post) as response:
            await response.read()

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


async def serve(model_url: str, api_url: str) -> None:
    """Serve until a signal."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    clients = HttpClients()
    bare = Bare(model_url, api_url, clients)
    app = web.Application()
    app.router.add_post("/slack/events", bare.receive)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events\n")
    sys.stdout.flush()
    await stopped.wait()
    await runner.cleanup()
    await bare.close()
    await clients.aclose()


if __name__ == "__main__":
    uvloop.run(serve(*sys.argv[1:]))
