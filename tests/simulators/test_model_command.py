"""The model simulator as a command: tests drive it over HTTP from another process."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientTimeout

ROOT = Path(__file__).parents[2]
START_TIMEOUT_S = 30.0
CALL = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[tuple[dict[str, str], str, ClientSession]]:
    """The command's base URLs, its admin URL and a client; stopped by SIGTERM with exit code 0."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.simulators.model",
        *arguments,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            line = json.loads(await process.stdout.readline())
        async with ClientSession(timeout=ClientTimeout(total=20)) as http:
            yield line["base_urls"], line["admin"], http
    finally:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(START_TIMEOUT_S):
            code = await process.wait()
    assert code == 0


async def post(http: ClientSession, url: str, body: Any) -> tuple[int, str]:
    async with http.post(url, json=body) as response:
        return response.status, await response.text()


async def get(http: ClientSession, url: str) -> Any:
    async with http.get(url) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def test_the_echo_command_answers_on_every_base_url() -> None:
    async with running("--port", "0", "--echo") as (urls, admin, http):
        calls = {
            "openai-chat": ("/chat/completions", CALL),
            "openai": ("/responses", {"model": "m", "input": "hello"}),
            "anthropic": ("/v1/messages", {**CALL, "max_tokens": 5}),
            "zai": ("/chat/completions", CALL),
            "deepseek": ("/chat/completions", CALL),
        }
        assert urls.keys() == calls.keys()
        for provider, (path, body) in calls.items():
            status, text = await post(http, urls[provider] + path, body)
            assert (status, "echo: hello" in text) == (200, True), (provider, text)
        assert len(await get(http, f"{admin}/requests?at_least=5")) == 5
        assert not any((await get(http, f"{admin}/violations")).values())


async def test_a_script_sent_over_http_is_followed_and_misuse_is_reported() -> None:
    async with running() as (urls, admin, http):
        chat = urls["openai-chat"] + "/chat/completions"
        tool_call = {"name": "look", "arguments": ['{"a"', ": 1}"], "id": "c1"}
        steps = [
            {"when": "hello", "reply": {"text": ["a", "b"], "tool_calls": [tool_call]}},
            {"refusal": {"status": 429, "retry_after": 3}},
            {"marker": "never", "reply": {"text": "unused"}},
        ]
        assert (await post(http, f"{admin}/script", {"steps": steps}))[0] == 200
        status, text = await post(http, chat, CALL)
        message = json.loads(text)["choices"][0]["message"]
        assert (status, message["content"]) == (200, "ab")
        assert message["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'
        assert (await post(http, chat, CALL))[0] == 429
        assert (await post(http, chat, CALL))[0] == 500
        assert (await post(http, chat, {"model": "m", "messages": []}))[0] == 400
        found = await get(http, f"{admin}/violations")
        assert len(found["unexpected"]) == 1
        assert len(found["unused"]) == 1
        assert "no_messages" in found["violations"][0]


async def test_a_gate_holds_a_call_of_another_process_until_it_is_released() -> None:
    async with running("--echo") as (urls, admin, http):
        gate = json.loads((await post(http, f"{admin}/hold", {"when": "hello"}))[1])["gate"]
        chat = urls["openai-chat"] + "/chat/completions"
        call = asyncio.create_task(post(http, chat, CALL))
        await get(http, f"{admin}/reached?gate={gate}")
        assert (await get(http, f"{admin}/requests"))[0]["outcome"] == "open"
        assert not call.done()
        assert (await post(http, f"{admin}/release", {"gate": gate}))[0] == 200
        status, text = await call
        assert (status, "echo: hello" in text) == (200, True)


async def test_a_misspelt_script_or_an_unknown_gate_is_refused_with_the_reason() -> None:
    async with running() as (_, admin, http):
        wrong = [{"reply": {"txet": "hi"}}]
        status, text = await post(http, f"{admin}/script", {"steps": wrong})
        assert (status, "txet" in text) == (400, True)
        status, text = await post(http, f"{admin}/script", {"steps": [{"when": "x"}]})
        assert (status, "either 'reply' or 'refusal'" in text) == (400, True)
        status, text = await post(http, f"{admin}/release", {"gate": "7"})
        assert (status, "no gate '7'" in text) == (404, True)
        async with http.get(f"{admin}/requests?at_least=1&timeout_s=0.05") as response:
            assert response.status == 408
            assert "no 1 model calls" in await response.text()
