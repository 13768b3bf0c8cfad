"""From our own request to the model library's messages, and from its response to our own reply.

Pure. The rules that providers enforce with HTTP 400 are kept here for all of them at once: results
directly after their calls and before any text, neighbours of one role merged, the user first and
last, nothing empty, every id unique and legal, nothing that is not JSON. What a request holds is
decided elsewhere; this only makes it legal, whatever it is given.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import ModelRequest as WireRequest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from clawbot.agent.dialects import Dialect
from clawbot.agent.steps import Exchange, Step, group
from clawbot.agent.thinking import level_within
from clawbot.history import Entry, EntryKind, ModelReply, ModelRequest, ToolCall, ToolSpec, Usage
from clawbot.text import clean

EARLIER_LEFT_OUT = "[the earlier conversation is left out]"
GO_ON = "[go on]"
NO_RESULT = "The tool call was interrupted and has no result."
NO_OUTPUT = "(no output)"

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]")
_Said = ThinkingPart | TextPart | ToolCallPart
_FINISH = {"stop": "stop", "length": "length", "tool_call": "tool_calls"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """A request in the model library's terms.

    mark: stands for everything that a signed piece of thinking is bound to; "" where nothing is
        signed.
    """

    messages: list[ModelMessage]
    parameters: ModelRequestParameters
    settings: ModelSettings
    mark: str


def to_wire(request: ModelRequest, dialect: Dialect, model: str) -> Wired:
    """Make the messages, tools and settings of one call of `model`."""
    units = group(request.entries)
    tools = request.tools or tuple(_used_tools(units))
    settings: dict[str, object] = {"max_tokens": request.max_output_tokens, **dialect.settings}
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    if tools and not (request.tools and request.may_use_tools):
        # Tools may not be used now, but history with tool calls is refused without an array.
        settings["tool_choice"] = "none"
    system = clean(request.system)
    seal = _Seal(model, system, tools) if dialect.thinking == "signed" else None
    draft = _Draft(dialect=dialect, seal=seal)
    for unit in units:
        if isinstance(unit, Step):
            draft.add_step(unit)
        else:
            draft.add_text(_user_text(unit))
    messages = draft.finish()
    if (level := level_within(request.thinking, request.max_output_tokens)) is not None:
        settings |= _thinking_settings(level, messages, dialect)
    if level not in {None, "off"}:
        settings.pop("temperature", None)  # who thinks is refused one
    return Wired(
        messages=messages,
        parameters=ModelRequestParameters(
            function_tools=[_tool_definition(tool) for tool in tools],
            instruction_parts=[InstructionPart(content=system)] if system.strip() else [],
        ),
        settings=ModelSettings(**settings),  # type: ignore[typeddict-item]  # keys of providers
        mark=seal.mark if seal else "",
    )


def _thinking_settings(
    level: str, messages: Sequence[ModelMessage], dialect: Dialect
) -> dict[str, object]:
    """How much a model shall think, in the model library's terms."""
    if level == "off" or (dialect.thinking == "signed" and _lacks_its_thinking(messages)):
        return {"thinking": False}
    return {dialect.effort_setting or "thinking": level}


def _lacks_its_thinking(messages: Sequence[ModelMessage]) -> bool:
    """Whether this goes on with calls whose thinking cannot be sent back: then the model must not
    think on, or the request is refused.
    """
    newest = messages[-1]
    if not any(isinstance(part, ToolReturnPart) for part in newest.parts):
        return False
    before = messages[-2] if len(messages) > 1 else None
    return not (isinstance(before, ModelResponse) and isinstance(before.parts[0], ThinkingPart))


def to_reply(response: ModelResponse, wired: Wired) -> ModelReply:
    """What a whole response says. Its finish reason must be one of those that end a reply."""
    thoughts = [part for part in response.parts if isinstance(part, ThinkingPart)]
    signature = ""
    # Several signed pieces cannot be told apart once they are one text: then none is sent back.
    if len(thoughts) == 1 and thoughts[0].signature and not _is_redacted(thoughts[0]):
        signature = f"{wired.mark}:{thoughts[0].signature}"
    calls = tuple(
        ToolCall(
            call_id=clean(part.tool_call_id),
            tool=clean(part.tool_name),
            arguments=_arguments_text(part.args),
        )
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )
    finish = _FINISH.get(response.finish_reason or "", "stop")
    return ModelReply(
        text=clean(response.text or ""),
        thinking=clean("\n\n".join(part.content for part in thoughts if part.content)),
        signature=signature,
        tool_calls=calls,
        usage=usage_of(response),
        finish_reason="tool_calls" if calls and finish == "stop" else finish,
    )


def usage_of(response: ModelResponse) -> Usage | None:
    """What a response cost; None where the provider does not say."""
    usage = response.usage
    if not (usage.input_tokens or usage.output_tokens):
        return None
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cache_read_tokens,
        cache_written_tokens=usage.cache_write_tokens,
    )


class _Seal:
    """Names a prefix of a request by a digest, so that signed thinking is sent back only after it.

    Providers refuse a signed piece once system, tools or any message before it has changed, as
    compaction, a new instruction or another model make it.
    """

    def __init__(self, model: str, system: str, tools: Iterable[ToolSpec]) -> None:
        self._digest = hashlib.sha256(repr((model, system, [tool.text for tool in tools])).encode())

    def cover(self, message: ModelMessage) -> None:
        """Let the prefix reach to this message."""
        for part in message.parts:
            said = (
                part.part_kind,
                getattr(part, "content", None),
                getattr(part, "tool_name", None),
                getattr(part, "args", None),
                getattr(part, "tool_call_id", None),
                getattr(part, "signature", None),
            )
            self._digest.update(repr(said).encode())

    @property
    def mark(self) -> str:
        """The name of the prefix so far."""
        return self._digest.hexdigest()[:16]


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The messages so far: alternating, with the user's side of the newest one still open."""

    dialect: Dialect
    seal: _Seal | None
    messages: list[ModelMessage] = field(default_factory=list)
    results: list[ToolReturnPart] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    answer: ModelResponse | None = None
    ids: set[str] = field(default_factory=set)

    def add_text(self, text: str) -> None:
        """Add to the user's side."""
        if text.strip():
            self._close_answer()
            self.texts.append(text)

    def add_step(self, step: Step) -> None:
        """Add an answer and the results of its calls."""
        texts = [text for entry in step.texts if (text := clean(entry.text)).strip()]
        if not texts and not step.exchanges:
            return
        if self.answer is None:
            if not self.messages and not self.texts:
                self.texts.append(EARLIER_LEFT_OUT)
            self._close_user_side()
        calls = [self._call(exchange) for exchange in step.exchanges]
        said = self._text(texts, has_calls=bool(calls))
        parts: list[_Said] = [*self._thinking(step), *said, *calls]
        if self.answer is None:
            self.answer = ModelResponse(parts=parts)
        else:
            self.answer = _joined(self.answer, parts)
        if calls:
            self._close_answer()
            self.results = [
                _result(exchange, call)
                for exchange, call in zip(step.exchanges, calls, strict=True)
            ]

    def finish(self) -> list[ModelMessage]:
        """The whole conversation, ending on the user's side."""
        self._close_answer()
        if not self.results and not self.texts:
            self.texts.append(GO_ON if self.messages else EARLIER_LEFT_OUT)
        self._close_user_side()
        return self.messages

    def _close_user_side(self) -> None:
        parts: list[ToolReturnPart | UserPromptPart] = [*self.results]
        if self.texts:
            parts.append(UserPromptPart(content="\n\n".join(self.texts)))
        self.results, self.texts = [], []
        if parts:
            self._append(WireRequest(parts=parts))

    def _close_answer(self) -> None:
        if self.answer is not None:
            answer, self.answer = self.answer, None
            self._append(answer)

    def _append(self, message: ModelMessage) -> None:
        if self.seal is not None:
            self.seal.cover(message)
        self.messages.append(message)

    def _thinking(self, step: Step) -> list[ThinkingPart]:
        if self.dialect.thinking == "field":
            thoughts = [clean(entry.text) for entry in step.thinking]
            must_stand = self.dialect.needs_thinking_with_calls and step.exchanges
            if any(thoughts) or must_stand:
                return [ThinkingPart(content="\n\n".join(filter(None, thoughts)))]
        # Signed thinking opens an answer of its own; joined to an earlier one it would be moved.
        if self.seal is not None and len(step.thinking) == 1 and self.answer is None:
            entry = step.thinking[0]
            mark, _, signature = entry.signature.partition(":")
            if signature and mark == self.seal.mark:
                name = self.dialect.name
                return [ThinkingPart(content=entry.text, signature=signature, provider_name=name)]
        return []

    def _text(self, texts: list[str], *, has_calls: bool) -> list[TextPart]:
        if texts:
            return [TextPart(content="\n\n".join(texts))]
        return [TextPart(content="")] if has_calls and self.dialect.needs_text else []

    def _call(self, exchange: Exchange) -> ToolCallPart:
        call = exchange.call
        return ToolCallPart(
            tool_name=_tool_name(call.tool),
            args=_legal_arguments(call.arguments),
            tool_call_id=self._unique_id(call.call_id),
        )

    def _unique_id(self, wanted: str) -> str:
        number = len(self.ids)
        chosen = wanted
        while not self.dialect.call_ids.fullmatch(chosen) or chosen in self.ids:
            number += 1
            chosen = f"call_{number}"
        self.ids.add(chosen)
        return chosen


def _joined(answer: ModelResponse, parts: Sequence[_Said]) -> ModelResponse:
    """One answer of two that stand side by side: thinking, text and calls each once, in order."""
    every = [*answer.parts, *parts]
    thoughts = [part.content for part in every if isinstance(part, ThinkingPart)]
    texts = [part.content for part in every if isinstance(part, TextPart) and part.content]
    first = answer.parts[0]
    thinking = [first] if isinstance(first, ThinkingPart) and first.signature else []
    if not thinking and thoughts:
        thinking = [ThinkingPart(content="\n\n".join(filter(None, thoughts)))]
    calls = [part for part in every if isinstance(part, ToolCallPart)]
    return ModelResponse(parts=[*thinking, TextPart(content="\n\n".join(texts)), *calls])


def _result(exchange: Exchange, call: ToolCallPart) -> ToolReturnPart:
    result = exchange.result
    text = clean(result.text) if result else NO_RESULT
    failed = result is None or result.is_error
    return ToolReturnPart(
        tool_name=call.tool_name,
        content=text if text.strip() else NO_OUTPUT,
        tool_call_id=call.tool_call_id,
        outcome="failed" if failed else "success",
    )


def _user_text(entry: Entry) -> str:
    """One entry of the user's side; what people did not write themselves stands in a tag."""
    text = clean(entry.text)
    if entry.kind is EntryKind.USER or not text.strip():
        return text
    if entry.is_thought:
        return f"<thoughts>\n{text}\n</thoughts>"
    return f"<{entry.kind.value}>\n{text}\n</{entry.kind.value}>"


def _used_tools(units: Iterable[Entry | Step]) -> Iterable[ToolSpec]:
    """Stand-ins for the tools that a history mentions."""
    names = dict.fromkeys(
        _tool_name(exchange.call.tool)
        for unit in units
        if isinstance(unit, Step)
        for exchange in unit.exchanges
    )
    for name in names:
        schema: dict[str, object] = {"type": "object", "properties": {}}
        yield ToolSpec(name=name, description="Not available now.", parameters=schema)


@functools.lru_cache(maxsize=1024)
def _tool_definition(tool: ToolSpec) -> ToolDefinition:
    """Always the same object for a tool, so that models know it again (`RepeatedTools`)."""
    return ToolDefinition(
        name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
    )


def _tool_name(name: str) -> str:
    """A legal name; models call tools that do not exist by any name."""
    return name if _TOOL_NAME.fullmatch(name) else _NO_NAME_CHARACTERS.sub("_", name)[:64] or "_"


def _arguments_text(arguments: object) -> str:
    if isinstance(arguments, str):
        return clean(arguments)
    return clean(json.dumps(arguments, ensure_ascii=False)) if arguments else ""


def _legal_arguments(text: str) -> str:
    """A JSON object, for providers and gateways that parse it; broken text becomes its value."""
    if not text.strip():
        return "{}"
    try:
        value = json.loads(text)
        strict = json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return json.dumps({"invalid_arguments": clean(text)}, ensure_ascii=False)
    if not isinstance(value, dict):
        return json.dumps({"invalid_arguments": clean(text)}, ensure_ascii=False)
    # What the model wrote is repeated as it was, unless it hides what JSON parsers refuse.
    return text if clean(text) == text and "\\u" not in text else _without_escapes(strict)


def _without_escapes(strict: str) -> str:
    """The same object without NUL and lone surrogates, which were escaped in the text."""
    return json.dumps(_cleaned(json.loads(strict)), ensure_ascii=False)


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _is_redacted(thought: ThinkingPart) -> bool:
    return thought.id == "redacted_thinking"
