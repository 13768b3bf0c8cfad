"""OpenAI's Chat Completions format, and the error bodies of the providers that imitate it."""

from .answer import CallArguments, CallStart, Delta, ErrorKind, TextDelta, ThinkingDelta, pieces
from .body import Json, object_of, objects, text_of
from .conversation import Call, Conversation, Message, Result
from .wire import CREATED_AT, Turn, frame

_SYSTEM_ROLES = {"system", "developer"}

_ERRORS: dict[ErrorKind, tuple[str, str | None, str]] = {
    "invalid_request": ("invalid_request_error", None, "Invalid request."),
    "authentication": (
        "invalid_request_error",
        "invalid_api_key",
        (
            "Incorrect API key provided: sk-***. You can find your API key at "
            "https://platform.openai.com/account/api-keys."
        ),
    ),
    "permission": ("invalid_request_error", "model_access_denied", "You do not have access."),
    "not_found": ("invalid_request_error", "model_not_found", "The model does not exist."),
    "overflow": (
        "invalid_request_error",
        "context_length_exceeded",
        (
            "This model's maximum context length is 128000 tokens. However, your messages "
            "resulted in more tokens. Please reduce the length of the messages."
        ),
    ),
    "rate_limit": ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    "quota": ("insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
    "overloaded": ("server_error", "server_is_overloaded", "The server is currently overloaded."),
    "server": ("server_error", None, "The server had an error while processing your request."),
}

# Zhipu's error object has a numeric code and no type: https://docs.z.ai/api-reference/api-code
_ZAI_CODES: dict[ErrorKind, str] = {
    "invalid_request": "1214",
    "authentication": "1002",
    "permission": "1220",
    "not_found": "1211",
    "overflow": "1261",
    "rate_limit": "1302",
    "quota": "1113",
    "overloaded": "1305",
    "server": "500",
}


def openai_error(kind: ErrorKind, message: str) -> Json:
    """OpenAI's error body."""
    error_type, code, usual = _ERRORS[kind]
    error = {"message": message or usual, "type": error_type, "param": None, "code": code}
    return {"error": error}


class ChatWire:
    """`POST /v1/chat/completions`."""

    call_prefix = "call_"

    def read(self, body: Json) -> Conversation:
        """The normalised content of a request body."""
        messages = objects(body.get("messages"))
        split = 0
        while split < len(messages) and str(messages[split].get("role")) in _SYSTEM_ROLES:
            split += 1
        tools = [object_of(tool.get("function")).get("name") for tool in objects(body.get("tools"))]
        return Conversation(
            system="\n\n".join(text_of(message.get("content")) for message in messages[:split]),
            messages=tuple(_message(message) for message in messages[split:]),
            tools=tuple(str(name) for name in tools),
        )

    def stream(self, turn: Turn) -> "ChatStream":
        """A fresh streamed answer."""
        return ChatStream(turn)

    def whole(self, turn: Turn) -> Json:
        """The answer to a request without `stream`."""
        reply = turn.reply
        message: Json = {"role": "assistant", "content": "".join(pieces(reply.text)) or None}
        if reply.thinking:
            message["reasoning_content"] = "".join(pieces(reply.thinking))
        if reply.tool_calls:
            message["tool_calls"] = [
                _call(call_id, call.name, "".join(call.pieces))
                for call, call_id in zip(reply.tool_calls, turn.call_ids, strict=True)
            ]
        else:
            message["content"] = message["content"] or ""
        choice = {"index": 0, "message": message, "finish_reason": _finish(turn)}
        return {
            "id": turn.id,
            "object": "chat.completion",
            "created": CREATED_AT,
            "model": turn.request.model,
            "choices": [choice],
            "usage": _usage(turn),
        }

    def error(self, kind: ErrorKind, message: str, turn_id: str) -> Json:
        """OpenAI's error body."""
        return openai_error(kind, message)

    def error_frame(self, body: Json) -> bytes:
        """An error inside a stream is a plain data event."""
        return frame(body)


class ZaiWire(ChatWire):
    """Zhipu's imitation: same answers, its own error codes."""

    def error(self, kind: ErrorKind, message: str, turn_id: str) -> Json:
        """Zhipu's error body."""
        usual = openai_error(kind, message)["error"]["message"]
        return {"error": {"code": _ZAI_CODES[kind], "message": usual}, "request_id": turn_id}


class ChatStream:
    """The chunks of one streamed chat completion."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def opening(self) -> bytes:
        """The role chunk."""
        return self._chunk({"role": "assistant", "content": ""})

    def delta(self, delta: Delta) -> bytes:
        """One chunk."""
        match delta:
            case ThinkingDelta(text):
                return self._chunk({"reasoning_content": text})
            case TextDelta(text):
                return self._chunk({"content": text})
            case CallStart(index, call_id, name):
                return self._chunk({"tool_calls": [{"index": index, **_call(call_id, name, "")}]})
            case CallArguments(index, text):
                function = {"arguments": text}
                return self._chunk({"tool_calls": [{"index": index, "function": function}]})

    def closing(self) -> bytes:
        """The finish chunk, the usage chunk if it was asked for, and the end mark."""
        frames = self._chunk({}, _finish(self._turn))
        options = object_of(self._turn.request.body.get("stream_options"))
        if options.get("include_usage"):
            usage = {**self._envelope(), "choices": [], "usage": _usage(self._turn)}
            frames += frame(usage)
        return frames + b"data: [DONE]\n\n"

    def _chunk(self, delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return frame({**self._envelope(), "choices": [choice]})

    def _envelope(self) -> Json:
        return {
            "id": self._turn.id,
            "object": "chat.completion.chunk",
            "created": CREATED_AT,
            "model": self._turn.request.model,
        }


def _call(call_id: str, name: str, arguments: str) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _finish(turn: Turn) -> str | None:
    reason = turn.reply.finish_reason
    return None if reason == "missing" else reason


def _usage(turn: Turn) -> Json:
    usage = turn.usage
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _message(message: Json) -> Message:
    role = str(message.get("role"))
    text = text_of(message.get("content"))
    if role == "tool":
        result = Result(id=str(message.get("tool_call_id")), text=text)
        return Message(role=role, tool_results=(result,))
    return Message(
        role=role,
        text=text,
        thinking=str(message.get("reasoning_content") or ""),
        tool_calls=tuple(_read_call(call) for call in objects(message.get("tool_calls"))),
    )


def _read_call(call: Json) -> Call:
    function = object_of(call.get("function"))
    return Call(
        id=str(call.get("id")),
        name=str(function.get("name")),
        arguments=str(function.get("arguments")),
    )
