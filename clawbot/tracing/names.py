"""What each kind of span is called and tells: OpenTelemetry's conventions for generative AI, as far
as they go; what they have no name for begins with `clawbot.`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from clawbot.history import Entry, EntryKind, ModelReply, ModelRequest, ToolCall, Usage
from clawbot.observation import Observation
from clawbot.tracing.spans import Span, Value, span

MOST_MESSAGES = 100
"""How many messages of a request a trace with content holds, the newest."""


@contextmanager
def step_span(number: int) -> Iterator[None]:
    """One step of a turn: a model call and the calls of tools that it asks for."""
    with span(f"step {number + 1}") as own:
        if own is not None:
            own.set({"clawbot.step": number})
        yield


@contextmanager
def agent_span(name: str) -> Iterator[Span | None]:
    """An agent that works below the one of the turn."""
    with span(f"invoke_agent {name}") as own:
        if own is not None:
            own.set({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name})
        yield own


@contextmanager
def model_span(model: str, request: ModelRequest) -> Iterator[Span | None]:
    """One call of a model, from the wait for the provider's limits on."""
    provider, _, name = model.partition(":")
    with span(f"chat {name or model}", "client") as own:
        if own is not None:
            own.set(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": provider,
                    "gen_ai.request.model": name or model,
                    "gen_ai.request.max_tokens": request.max_output_tokens,
                    "gen_ai.request.temperature": request.temperature,
                    "gen_ai.request.stream": True,
                    "clawbot.request.messages": len(request.entries),
                }
            )
            own.set_content("gen_ai.system_instructions", lambda: [_text(request.system)])
            own.set_content("gen_ai.input.messages", lambda: _messages(request.entries))
        yield own


def answered(own: Span | None, reply: ModelReply, usage: Usage) -> None:
    """What a model call came to."""
    if own is None:
        return
    own.set({"gen_ai.response.finish_reasons": (reply.finish_reason,), **spent(usage)})
    own.set_content("gen_ai.output.messages", lambda: [_answer(reply)])


def first_chunk(own: Span | None) -> None:
    """A model call has begun to answer."""
    if own is not None:
        seconds = (own.trace.now_ns() - own.started_ns) / 1e9
        own.set({"gen_ai.response.time_to_first_chunk": round(seconds, 6)})


@contextmanager
def tool_span(call: ToolCall) -> Iterator[Span | None]:
    """One call of a tool."""
    with span(f"execute_tool {call.tool}") as own:
        if own is not None:
            own.set(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": call.tool,
                    "gen_ai.tool.call.id": call.call_id,
                    "gen_ai.tool.type": "function",
                }
            )
            own.set_content("gen_ai.tool.call.arguments", lambda: _read(call.arguments))
        yield own


def observed(own: Span | None, seen: Observation) -> None:
    """What a tool came to."""
    if own is None:
        return
    own.set({"clawbot.result.chars": len(seen.text)})
    own.set_content("gen_ai.tool.call.result", lambda: seen.text)
    if seen.is_error:
        own.fail("tool_error")


def spent(usage: Usage) -> Mapping[str, Value | None]:
    """Tokens and their price; a price that is not known is left out."""
    cost = usage.cost_nanos
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_written_tokens or None,
        "clawbot.cost_usd": None if cost is None else cost / 1e9,
    }


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "content": text}


def _messages(entries: Sequence[Entry]) -> list[object]:
    """The entries of a request as the conventions lay messages out."""
    messages: list[object] = []
    for entry in entries[-MOST_MESSAGES:]:
        if entry.kind is EntryKind.TOOL_RESULT:
            part = {"type": "tool_call_response", "id": entry.call_id, "response": entry.text}
            messages.append({"role": "tool", "parts": [part]})
        elif entry.kind is EntryKind.TOOL_CALL:
            call = ToolCall(call_id=entry.call_id, tool=entry.tool, arguments=entry.arguments)
            messages.append({"role": "assistant", "parts": [_call(call)]})
        elif entry.kind in {EntryKind.ASSISTANT, EntryKind.THINKING}:
            kind = "reasoning" if entry.kind is EntryKind.THINKING else "text"
            part = {"type": kind, "content": entry.text}
            messages.append({"role": "assistant", "parts": [part]})
        else:
            messages.append({"role": "user", "parts": [_text(entry.text)]})
    return messages


def _answer(reply: ModelReply) -> object:
    parts: list[object] = []
    if reply.thinking:
        parts.append({"type": "reasoning", "content": reply.thinking})
    if reply.text:
        parts.append(_text(reply.text))
    parts += [_call(call) for call in reply.tool_calls]
    return {"role": "assistant", "parts": parts, "finish_reason": reply.finish_reason}


def _call(call: ToolCall) -> object:
    arguments = _read(call.arguments)
    return {"type": "tool_call", "id": call.call_id, "name": call.tool, "arguments": arguments}


def _read(arguments: str) -> object:
    """Arguments as a value, so that a secret is known by its key."""
    try:
        value: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return value
