"""The yardstick: receive, one model call, post. It keeps nothing.

`python -m tests.bench.bare MODEL_BASE_URL API_URL [--like REQUEST.json] [--tuned]` prints its URL
and serves. It calls the model through the library as its manual shows; `--tuned` through the client
that clawbot has made faster for itself. It sends the message alone; with `--like` what that chat
request holds as well, instructions and tools.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
from aiohttp import web
from pydantic import SecretStr
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import InstructionPart, ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from clawbot.agent.dialects import dialect_of
from clawbot.agent.endpoint import Endpoint
from clawbot.agent.models import HttpClients
from clawbot.agent.openai_models import build_model
from tests.bench.load import BOT_TOKEN

API_KEY = "made-up"


class Bare:
    """The pipeline, with the connections that it shares between messages."""

    def __init__(self, model: OpenAIChatModel, api_url: str, like: dict[str, Any] | None) -> None:
        self._model = model
        self._parameters, self._settings = _more_of(like or {})
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
        async with model_request_stream(
            self._model,
            messages,
            model_settings=self._settings,
            model_request_parameters=self._parameters,
        ) as stream:
            async for _ in stream:
                pass
            text = stream.get().text
        post = {"channel": event["channel"], "text": text}
        async with self._session.post(self._post_url, json=post) as response:
            await response.read()

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


def _more_of(like: dict[str, Any]) -> tuple[ModelRequestParameters, ModelSettings]:
    """What a recorded chat request holds beside its messages, in the library's terms."""
    functions = [tool["function"] for tool in like.get("tools", ())]
    first = like["messages"][0] if like else {"role": ""}
    system = [InstructionPart(content=first["content"])] if first["role"] == "system" else []
    settings = ModelSettings()
    if most := like.get("max_tokens") or like.get("max_completion_tokens"):
        settings["max_tokens"] = most
    return (
        ModelRequestParameters(
            function_tools=[
                ToolDefinition(
                    name=function["name"],
                    description=function["description"],
                    parameters_json_schema=function["parameters"],
                )
                for function in functions
            ],
            instruction_parts=system,
        ),
        settings,
    )


def _tuned_model(model_url: str, clients: HttpClients) -> OpenAIChatModel:
    """The model as clawbot's workers have it."""
    dialect = dialect_of("openai-chat", None)
    assert dialect is not None
    endpoint = Endpoint(
        provider="openai-chat",
        dialect=dialect,
        base_url=model_url,
        is_own=True,
        api_key=SecretStr(API_KEY),
        http_client=clients.for_url(model_url),
    )
    model = build_model(endpoint, "echo")
    assert isinstance(model, OpenAIChatModel)
    return model


async def serve(chosen: argparse.Namespace, like: dict[str, Any] | None) -> None:
    """Serve until a signal."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    clients = HttpClients()
    if chosen.tuned:
        model = _tuned_model(chosen.model_url, clients)
    else:
        provider = OpenAIProvider(base_url=chosen.model_url, api_key=API_KEY)
        model = OpenAIChatModel("echo", provider=provider)
    bare = Bare(model, chosen.api_url, like)
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


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bare")
    parser.add_argument("model_url")
    parser.add_argument("api_url")
    parser.add_argument("--like", type=Path)
    parser.add_argument("--tuned", action="store_true")
    chosen = parser.parse_args()
    like = None if chosen.like is None else json.loads(chosen.like.read_text())
    uvloop.run(serve(chosen, like))


if __name__ == "__main__":
    main()
