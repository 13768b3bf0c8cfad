"""Chat requests as the library makes them, without the SDK's second look at every field.

Before it sends a request the SDK walks through it by the types of its fields, to rename and
reformat what needs that. Nothing of a chat request does, and the walk holds up the event loop for
a quarter of a millisecond a message: a session of 200 messages cost 50 ms a call. The JSON is
written here too, by a faster encoder: two dozen tools are a long text.
"""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI, AsyncStream, Omit
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic_core import to_json


class PlainCompletions:
    """Stands in for `client.chat.completions`; it knows `create` alone."""

    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client

    async def create(
        self,
        *,
        stream: bool,
        extra_headers: dict[str, str] | None = None,
        extra_body: dict[str, Any] | None = None,
        timeout: Any,  # noqa: ASYNC109  # the SDK's name of its own setting
        **fields: Any,
    ) -> ChatCompletion | AsyncStream[ChatCompletionChunk]:
        """POST /chat/completions with the fields that are given. Raises as the SDK does."""
        body = {name: value for name, value in fields.items() if not isinstance(value, Omit)}
        return await self._client.post(
            "/chat/completions",
            content=to_json({**body, "stream": stream, **(extra_body or {})}),
            options={"headers": extra_headers or {}, "timeout": timeout},
            cast_to=ChatCompletion,
            stream=stream,
            stream_cls=AsyncStream[ChatCompletionChunk],
        )
