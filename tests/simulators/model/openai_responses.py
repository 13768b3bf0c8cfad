"""OpenAI's Responses format."""

from typing import Any

from .answer import CallArguments, CallStart, Delta, ErrorKind, TextDelta, ThinkingDelta, pieces
from .body import Json, objects, text_of
from .conversation import Call, Conversation, Message, Result
from .openai_chat import openai_error
from .wire import CREATED_AT, Turn, frame

_SYSTEM_ROLES = {"system", "developer"}
_OVERFLOW = (
    "Your input exceeds the context window of this model. Please adjust your input and try again."
)


class ResponsesWire:
    """`POST /v1/responses`."""

    call_prefix = "call_"

    def read(self, body: Json) -> Conversation:
        """The normalised content of a request body."""
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
        split = 0
        while split < len(items) and str(items[split].get("role")) in _SYSTEM_ROLES:
            split += 1
        heads = [body.get("instructions"), *(item.get("content") for item in items[:split])]
        return Conversation(
            system="\n\n".join(text_of(head) for head in heads if head),
            messages=tuple(_message(item) for item in items[split:]),
            tools=tuple(str(tool.get("name")) for tool in objects(body.get("tools"))),
        )

    def stream(self, turn: Turn) -> "ResponsesStream":
        """A fresh streamed answer."""
        return ResponsesStream(turn)

    def whole(self, turn: Turn) -> Json:
        """The answer to a request without `stream`."""
        reply, output = turn.reply, []
        if thinking := "".join(pieces(reply.thinking)):
            output.append(_reasoning(turn, thinking))
        if text := "".join(pieces(reply.text)):
            output.append(_text_item(turn, text, "completed"))
        for index, call in enumerate(reply.tool_calls):
            item = _call_item(turn, index, call.name, "".join(call.pieces))
            output.append({**item, "status": "completed"})
        return _response(turn, _status(turn), output)

    def error(self, kind: ErrorKind, message: str, turn_id: str) -> Json:
        """OpenAI's error body; an overflow has words of its own here."""
        return openai_error(kind, message or (_OVERFLOW if kind == "overflow" else ""))

    def error_frame(self, body: Json) -> bytes:
        """An error inside a stream is an `error` event with the fields at its top."""
        error = body["error"]
        fields = {"code": error["code"] or error["type"], "message": error["message"]}
        return frame({"type": "error", "sequence_number": 0, "param": None, **fields}, "error")


class ResponsesStream:
    """The events of one streamed response: output items are opened and closed one by one."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._sequence = -1
        self._output: list[Json] = []
        self._open: Json = {}
        self._text = ""

    def opening(self) -> bytes:
        """The created and in-progress events."""
        response = _response(self._turn, "in_progress", [])
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def delta(self, delta: Delta) -> bytes:
        """One delta, with the events before it where a new item begins."""
        match delta:
            case ThinkingDelta(text):
                start = self._switch("reasoning", _reasoning(self._turn, ""))
                self._text += text
                return start + self._on_summary("response.reasoning_summary_text.delta", delta=text)
            case TextDelta(text):
                start = self._switch("message", _text_item(self._turn, "", "in_progress"))
                self._text += text
                return start + self._on_content(
                    "response.output_text.delta", delta=text, logprobs=[]
                )
            case CallStart(index, _, name):
                return self._close() + self._start(_call_item(self._turn, index, name, ""))
            case CallArguments(_, text):
                self._text += text
                return self._on_item("response.function_call_arguments.delta", delta=text)

    def closing(self) -> bytes:
        """The end of the open item and the complete response."""
        frames = self._close()
        status = _status(self._turn)
        if status == "in_progress":
            return frames
        response = _response(self._turn, status, self._output)
        return frames + self._event(f"response.{status}", response=response)

    def _switch(self, kind: str, item: Json) -> bytes:
        if self._open.get("type") == kind:
            return b""
        return self._close() + self._start(item)

    def _start(self, item: Json) -> bytes:
        self._open, self._text = item, ""
        index = len(self._output)
        frames = self._event("response.output_item.added", output_index=index, item=item)
        if item["type"] == "message":
            frames += self._on_content("response.content_part.added", part=_part(""))
        elif item["type"] == "reasoning":
            part = {"type": "summary_text", "text": ""}
            frames += self._on_summary("response.reasoning_summary_part.added", part=part)
        return frames

    def _close(self) -> bytes:
        kind, text = self._open.get("type"), self._text
        if kind is None:
            return b""
        if kind == "message":
            item = _text_item(self._turn, text, "completed")
            frames = self._on_content("response.output_text.done", text=text, logprobs=[])
            frames += self._on_content("response.content_part.done", part=_part(text))
        elif kind == "reasoning":
            item = _reasoning(self._turn, text)
            part = {"type": "summary_text", "text": text}
            frames = self._on_summary("response.reasoning_summary_text.done", text=text)
            frames += self._on_summary("response.reasoning_summary_part.done", part=part)
        else:
            item = {**self._open, "arguments": text, "status": "completed"}
            name = self._open["name"]
            frames = self._on_item(
                "response.function_call_arguments.done", name=name, arguments=text
            )
        index = len(self._output)
        frames += self._event("response.output_item.done", output_index=index, item=item)
        self._output.append(item)
        self._open = {}
        return frames

    def _on_item(self, kind: str, **fields: Any) -> bytes:
        index, item_id = len(self._output), self._open["id"]
        return self._event(kind, output_index=index, item_id=item_id, **fields)

    def _on_content(self, kind: str, **fields: Any) -> bytes:
        return self._on_item(kind, content_index=0, **fields)

    def _on_summary(self, kind: str, **fields: Any) -> bytes:
        return self._on_item(kind, summary_index=0, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._sequence += 1
        return frame({"type": kind, "sequence_number": self._sequence, **fields}, kind)


def _status(turn: Turn) -> str:
    match turn.reply.finish_reason:
        case "length" | "content_filter":
            return "incomplete"
        case "missing":
            return "in_progress"
        case _:
            return "completed"


def _response(turn: Turn, status: str, output: list[Json]) -> Json:
    usage = turn.usage
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    reason = reasons.get(turn.reply.finish_reason)
    return {
        "id": turn.id,
        "object": "response",
        "created_at": CREATED_AT,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if status == "incomplete" else None,
        "model": turn.request.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None
        if status == "in_progress"
        else {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
    }


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _text_item(turn: Turn, text: str, status: str) -> Json:
    content = [_part(text)] if status == "completed" else []
    return {
        "id": f"msg_{turn.id}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _reasoning(turn: Turn, text: str) -> Json:
    summary = [{"type": "summary_text", "text": text}] if text else []
    item: Json = {"id": f"rs_{turn.id}", "type": "reasoning", "summary": summary}
    if text and "reasoning.encrypted_content" in (turn.request.body.get("include") or []):
        item["encrypted_content"] = f"encrypted-{turn.id}"
    return item


def _call_item(turn: Turn, index: int, name: str, arguments: str) -> Json:
    return {
        "id": f"fc_{turn.id}_{index}",
        "type": "function_call",
        "call_id": turn.call_ids[index],
        "name": name,
        "arguments": arguments,
        "status": "in_progress",
    }


def _message(item: Json) -> Message:
    call_id = str(item.get("call_id"))
    match item.get("type", "message"):
        case "function_call":
            name, arguments = str(item.get("name")), str(item.get("arguments"))
            call = Call(id=call_id, name=name, arguments=arguments)
            return Message(role="assistant", tool_calls=(call,))
        case "function_call_output":
            result = Result(id=call_id, text=text_of(item.get("output")))
            return Message(role="tool", tool_results=(result,))
        case "reasoning":
            return Message(role="assistant", thinking=text_of(item.get("summary")))
        case _:
            return Message(role=str(item.get("role")), text=text_of(item.get("content")))
