"""Anthropic's Messages format."""

import json
from typing import Any

from .answer import (
    CallArguments,
    CallStart,
    Delta,
    ErrorKind,
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    pieces,
)
from .anthropic_rules import blocks, thinking_signature
from .body import Json, objects, text_of
from .conversation import Call, Conversation, Message, Result
from .wire import Turn, frame

_STOP: dict[Finish, str | None] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "missing": None,
}

_ERRORS: dict[ErrorKind, tuple[str, str]] = {
    "invalid_request": ("invalid_request_error", "Invalid request."),
    "authentication": ("authentication_error", "invalid x-api-key"),
    "permission": ("permission_error", "Your API key does not have permission."),
    "not_found": ("not_found_error", "model: not found"),
    "overflow": ("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
    "rate_limit": ("rate_limit_error", "This request would exceed your rate limit."),
    "quota": ("billing_error", "Your credit balance is too low to access the Anthropic API."),
    "overloaded": ("overloaded_error", "Overloaded"),
    "server": ("api_error", "Internal server error"),
}


class AnthropicWire:
    """`POST /v1/messages`."""

    call_prefix = "toolu_"

    def read(self, body: Json) -> Conversation:
        """The normalised content of a request body."""
        return Conversation(
            system=text_of(body.get("system")),
            messages=tuple(_message(message) for message in objects(body.get("messages"))),
            tools=tuple(str(tool.get("name")) for tool in objects(body.get("tools"))),
        )

    def stream(self, turn: Turn) -> "AnthropicStream":
        """A fresh streamed answer."""
        return AnthropicStream(turn)

    def whole(self, turn: Turn) -> Json:
        """The answer to a request without `stream`."""
        reply = turn.reply
        content: list[Json] = []
        if thinking := "".join(pieces(reply.thinking)):
            signature = _signature(turn, thinking)
            content.append({"type": "thinking", "thinking": thinking, "signature": signature})
        if text := "".join(pieces(reply.text)):
            content.append({"type": "text", "text": text})
        for call, call_id in zip(reply.tool_calls, turn.call_ids, strict=True):
            arguments = _parsed(call)
            content.append(
                {"type": "tool_use", "id": call_id, "name": call.name, "input": arguments}
            )
        reason = _STOP[reply.finish_reason]
        return {**_envelope(turn), "content": content, "stop_reason": reason, "usage": _usage(turn)}

    def error(self, kind: ErrorKind, message: str, turn_id: str) -> Json:
        """Anthropic's error body."""
        error_type, usual = _ERRORS[kind]
        error = {"type": error_type, "message": message or usual}
        return {"type": "error", "error": error, "request_id": turn_id}

    def error_frame(self, body: Json) -> bytes:
        """An error inside a stream has an event name of its own."""
        return frame(body, "error")


class AnthropicStream:
    """The events of one streamed message: blocks are opened and closed one after the other."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._index = -1
        self._open = ""
        self._thinking = ""

    def opening(self) -> bytes:
        """The message start with the input usage."""
        usage = {**_usage(self._turn), "output_tokens": 1}
        message = {**_envelope(self._turn), "content": [], "stop_reason": None, "usage": usage}
        return self._event("message_start", message=message) + self._event("ping")

    def delta(self, delta: Delta) -> bytes:
        """One delta, with the block start before it where a new block begins."""
        match delta:
            case ThinkingDelta(text):
                start = self._switch("thinking", {"thinking": "", "signature": ""})
                self._thinking += text
                return start + self._delta(type="thinking_delta", thinking=text)
            case TextDelta(text):
                return self._switch("text", {"text": ""}) + self._delta(
                    type="text_delta", text=text
                )
            case CallStart(_, call_id, name):
                return self._close() + self._start(
                    "tool_use", {"id": call_id, "name": name, "input": {}}
                )
            case CallArguments(_, text):
                return self._delta(type="input_json_delta", partial_json=text)

    def closing(self) -> bytes:
        """The end of the open block, the stop reason with the final usage, the message stop."""
        frames = self._close()
        reason = _STOP[self._turn.reply.finish_reason]
        if reason is not None:
            delta = {"stop_reason": reason, "stop_sequence": None}
            usage = {"output_tokens": self._turn.usage.output_tokens}
            frames += self._event("message_delta", delta=delta, usage=usage)
        return frames + self._event("message_stop")

    def _switch(self, kind: str, block: Json) -> bytes:
        return b"" if self._open == kind else self._close() + self._start(kind, block)

    def _start(self, kind: str, block: Json) -> bytes:
        self._index += 1
        self._open = kind
        content = {"type": kind, **block}
        return self._event("content_block_start", index=self._index, content_block=content)

    def _delta(self, **delta: str) -> bytes:
        return self._event("content_block_delta", index=self._index, delta=delta)

    def _close(self) -> bytes:
        if not self._open:
            return b""
        frames = b""
        if self._open == "thinking":
            signature = _signature(self._turn, self._thinking)
            frames += self._delta(type="signature_delta", signature=signature)
        self._open = ""
        return frames + self._event("content_block_stop", index=self._index)

    def _event(self, kind: str, **fields: Any) -> bytes:
        return frame({"type": kind, **fields}, kind)


def _envelope(turn: Turn) -> Json:
    return {
        "id": turn.id,
        "type": "message",
        "role": "assistant",
        "model": turn.request.model,
        "stop_sequence": None,
    }


def _usage(turn: Turn) -> Json:
    """Anthropic counts the cached part of the prompt apart from `input_tokens`."""
    usage = turn.usage
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }


def _signature(turn: Turn, thinking: str) -> str:
    return thinking_signature(objects(turn.request.body.get("messages")), thinking)


def _parsed(call: ToolCall) -> Json:
    """The arguments as an object: only the streamed form can carry broken JSON."""
    value = json.loads("".join(call.pieces) or "{}")
    if not isinstance(value, dict):
        raise TypeError(
            f"tool call {call.name}: an unstreamed Anthropic answer cannot carry {value!r} as "
            "arguments; script an object, or let the client stream"
        )
    return value


def _message(message: Json) -> Message:
    found = blocks(message)
    return Message(
        role=str(message.get("role")),
        text="\n".join(str(block.get("text")) for block in found if block.get("type") == "text"),
        thinking="\n".join(
            str(block.get("thinking")) for block in found if block.get("type") == "thinking"
        ),
        tool_calls=tuple(
            Call(
                id=str(block.get("id")),
                name=str(block.get("name")),
                arguments=json.dumps(block.get("input")),
            )
            for block in found
            if block.get("type") == "tool_use"
        ),
        tool_results=tuple(
            Result(
                id=str(block.get("tool_use_id")),
                text=text_of(block.get("content")),
                is_error=bool(block.get("is_error")),
            )
            for block in found
            if block.get("type") == "tool_result"
        ),
    )
