"""Chat requests that go out as they were made."""

from __future__ import annotations

import json
from typing import Any

import httpx2
from openai import NOT_GIVEN, AsyncOpenAI, omit

from clawbot.agent.openai_requests import PlainCompletions


async def sent_by(make: Any, **fields: Any) -> tuple[httpx2.Request, dict[str, Any]]:
    """The request that one call makes."""
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, text="data: [DONE]\n\n")

    transport = httpx2.MockTransport(answer)
    async with httpx2.AsyncClient(transport=transport) as http:
        client = AsyncOpenAI(api_key="made-up", base_url="http://127.0.0.1/v1", http_client=http)
        stream = await make(client).create(stream=True, **fields)
        async for _ in stream:
            pass
    return seen[0], json.loads(seen[0].content)


FIELDS: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function"}]},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "tool_choice": omit,
    "max_tokens": 5,
    "stream_options": {"include_usage": True},
    "temperature": omit,
    "timeout": NOT_GIVEN,
    "extra_headers": {"X-Of-Mine": "yes"},
    "extra_body": {"thinking": {"type": "disabled"}},
}


async def test_the_request_is_the_one_that_the_sdk_would_send() -> None:
    plain, plain_body = await sent_by(PlainCompletions, **FIELDS)
    own, own_body = await sent_by(lambda client: client.chat.completions, **FIELDS)
    assert plain_body == own_body
    assert plain.url == own.url
    assert {**plain.headers} == {**own.headers}
