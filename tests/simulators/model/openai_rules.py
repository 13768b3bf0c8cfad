"""The rules of OpenAI's Chat Completions and Responses APIs for one request body.

Pure functions, in the provider's own words. The dialects of compatible providers (Zhipu, DeepSeek)
are switches of `Strictness`.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from .body import Json, object_of, objects
from .violation import Strictness, Violation, text_violations

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_ROLES = {"system", "developer", "user", "assistant", "tool"}
_CHAT_ID_CHARS = 40
_RESPONSES_ID_CHARS = 64


def chat_violations(body: Json, strictness: Strictness) -> list[Violation]:
    """Every rule of Chat Completions that `body` breaks."""
    found = [*text_violations(body), *_model(body)]
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        text = (
            "Invalid 'messages': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead."
        )
        return [*found, _broken("no_messages", "messages", text)]
    if not all(isinstance(message, dict) for message in messages):
        return [
            *found,
            _broken("shape", "messages", "Invalid type for 'messages': expected objects."),
        ]
    for index, message in enumerate(messages):
        found += _chat_message(message, f"messages[{index}]", strictness)
    found += _chat_pairing(messages, strictness)
    if not any(message.get("role") == "user" for message in messages):
        text = "Invalid 'messages': at least one message with role 'user' is required."
        found.append(_broken("no_user", "messages", text))
    if messages[-1].get("role") == "assistant" and not strictness.allow_prefill:
        text = "Expected last role User or Tool for serving but got assistant"
        found.append(_broken("prefill", f"messages[{len(messages) - 1}]", text))
    used = any(message.get("tool_calls") or message.get("role") == "tool" for message in messages)
    names = [object_of(tool.get("function")).get("name") for tool in objects(body.get("tools"))]
    return [*found, *_tools(body, names, strictness, used_in_history=used)]


def responses_violations(body: Json, strictness: Strictness) -> list[Violation]:
    """Every rule of the Responses API that `body` breaks."""
    found = [*text_violations(body), *_model(body)]
    items = body.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list) or not items:
        text = "Missing required parameter: 'input'."
        return [*found, _broken("no_messages", "input", text)]
    if not all(isinstance(item, dict) for item in items):
        return [*found, _broken("shape", "input", "Invalid type for 'input': expected objects.")]
    for index, item in enumerate(items):
        found += _responses_item(item, f"input[{index}]", strictness)
    found += _responses_pairing(items, strictness)
    if not any(item.get("role") == "user" for item in items):
        text = "Invalid 'input': at least one message with role 'user' is required."
        found.append(_broken("no_user", "input", text))
    if items[-1].get("role") == "assistant" and not strictness.allow_prefill:
        text = "Expected last role User or Tool for serving but got assistant"
        found.append(_broken("prefill", f"input[{len(items) - 1}]", text))
    used = any(str(item.get("type", "")).startswith("function_call") for item in items)
    names = [
        tool.get("name") for tool in objects(body.get("tools")) if tool.get("type") == "function"
    ]
    return [*found, *_tools(body, names, strictness, used_in_history=used)]


def _broken(rule: str, path: str, message: str) -> Violation:
    return Violation(rule=rule, path=path, message=message)


def _model(body: Json) -> Iterator[Violation]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield _broken("no_model", "model", "you must provide a model parameter")


def _is_empty(content: Any) -> bool:
    """Whether a content says nothing: no text, and no part other than text."""
    if isinstance(content, str):
        return not content.strip()
    if isinstance(content, list):
        return all(isinstance(part, dict) and part.get("text") == "" for part in content)
    return content is None


def _chat_message(message: Json, path: str, strictness: Strictness) -> Iterator[Violation]:
    role = str(message.get("role"))
    content = message.get("content")
    calls = message.get("tool_calls")
    if role not in _ROLES:
        yield _broken("bad_role", path, f"Invalid value: '{role}'. Supported values are: {_ROLES}.")
    may_be_null = role == "assistant" and bool(calls) and not strictness.content_required
    if content is None and not may_be_null:
        text = f"Invalid value for 'content': expected a string, got null. (param {path}.content)"
        yield _broken("null_content", path, text)
    elif role != "tool" and not calls and _is_empty(content):
        yield _broken(
            "empty_message", path, f"Invalid '{path}.content': message must not be empty."
        )
    if calls is None:
        return
    if role != "assistant" or not isinstance(calls, list) or not calls:
        yield _broken("bad_calls", path, f"[] is too short - '{path}.tool_calls'")
        return
    for index, call in enumerate(objects(calls)):
        function = object_of(call.get("function"))
        place = f"{path}.tool_calls[{index}]"
        yield from _call(
            call.get("id"), function, place=place, id_chars=_CHAT_ID_CHARS, strictness=strictness
        )
    if strictness.reasoning_content and not isinstance(message.get("reasoning_content"), str):
        text = "The `reasoning_content` in the thinking mode must be passed back to the API."
        yield _broken("reasoning_content", path, text)


def _call(
    call_id: Any, function: Json, *, place: str, id_chars: int, strictness: Strictness
) -> Iterator[Violation]:
    if not isinstance(call_id, str) or not call_id:
        text = f"Invalid '{place}.id': empty string. Expected a string with minimum length 1."
        yield _broken("bad_id", place, text)
    elif len(call_id) > id_chars:
        text = (
            f"Invalid '{place}.id': string too long. Expected a string with maximum length "
            f"{id_chars}, but got a string with length {len(call_id)} instead."
        )
        yield _broken("bad_id", place, text)
    if not _NAME.match(str(function.get("name") or "")):
        text = f"Invalid '{place}.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
        yield _broken("bad_name", place, text)
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        text = f"Invalid type for '{place}.arguments': expected a string."
        yield _broken("arguments", place, text)
    elif strictness.json_arguments and not _is_json_object(arguments):
        text = f"Invalid '{place}.arguments': expected a string holding a JSON object."
        yield _broken("arguments", place, text)


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _chat_pairing(messages: list[Json], strictness: Strictness) -> Iterator[Violation]:
    waiting: list[str] = []  # calls of the newest assistant message that have no result yet
    answered: list[str] = []
    known: set[str] = set()
    asked_at = ""
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        if message.get("role") == "tool":
            call_id = str(message.get("tool_call_id"))
            if call_id in waiting:
                waiting.remove(call_id)
                answered.append(call_id)
            elif call_id in answered:
                text = f"Duplicate value for 'tool_call_id' of '{call_id}' in {path}."
                yield _broken("duplicate_result", path, text)
            else:
                text = (
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    "preceeding message with 'tool_calls'."
                )
                yield _broken("unknown_result", path, text)
            continue
        yield from _unanswered_chat(waiting, asked_at)
        calls = message.get("tool_calls")
        waiting = [str(call.get("id")) for call in objects(calls)]
        answered, asked_at = [], path
        yield from _duplicates(waiting, known, path, strictness)
        known.update(waiting)
    yield from _unanswered_chat(waiting, asked_at)


def _unanswered_chat(waiting: list[str], path: str) -> Iterator[Violation]:
    if waiting:
        text = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(waiting)}"
        )
        yield _broken("unanswered_call", path, text)


def _duplicates(
    ids: list[str], known: set[str], path: str, strictness: Strictness
) -> Iterator[Violation]:
    for position, call_id in enumerate(ids):
        repeated = strictness.unique_ids and call_id in known
        if repeated or call_id in ids[:position]:
            yield _broken("duplicate_id", path, f"Duplicate tool call id '{call_id}' in {path}.")


def _responses_item(item: Json, path: str, strictness: Strictness) -> Iterator[Violation]:
    kind = str(item.get("type", "message"))
    if kind == "message":
        if str(item.get("role")) not in _ROLES - {"tool"}:
            yield _broken("bad_role", path, f"Invalid value: '{item.get('role')}'.")
        if item.get("content") is None:
            yield _broken("null_content", path, f"Missing required parameter: '{path}.content'.")
        elif _is_empty(item["content"]):
            text = f"Invalid '{path}.content': message must not be empty."
            yield _broken("empty_message", path, text)
    elif kind == "function_call":
        yield from _call(
            item.get("call_id"),
            item,
            place=path,
            id_chars=_RESPONSES_ID_CHARS,
            strictness=strictness,
        )
    elif kind == "function_call_output" and not isinstance(item.get("output"), str | list):
        yield _broken("null_content", path, f"Missing required parameter: '{path}.output'.")


def _responses_pairing(items: list[Json], strictness: Strictness) -> Iterator[Violation]:
    waiting: list[str] = []
    known: set[str] = set()
    answered: set[str] = set()
    for index, item in enumerate(items):
        kind, path = str(item.get("type", "message")), f"input[{index}]"
        call_id = str(item.get("call_id"))
        if kind == "function_call":
            if call_id in waiting or (strictness.unique_ids and call_id in known):
                yield _broken("duplicate_id", path, f"Duplicate call id '{call_id}' in {path}.")
            waiting.append(call_id)
            known.add(call_id)
            answered.discard(call_id)
        elif kind == "function_call_output":
            if call_id in waiting:
                waiting.remove(call_id)
                answered.add(call_id)
            elif call_id in answered:
                text = f"Duplicate output for function call '{call_id}' in {path}."
                yield _broken("duplicate_result", path, text)
            else:
                text = f"No tool call found for function call output with call_id {call_id}."
                yield _broken("unknown_result", path, text)
        elif kind == "message":
            yield from _unanswered_items(waiting, path)
            waiting = []
        elif kind == "reasoning" and not _is_followed(items, index):
            text = (
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required "
                "following item."
            )
            yield _broken("reasoning_alone", path, text)
    yield from _unanswered_items(waiting, "input")


def _is_followed(items: list[Json], index: int) -> bool:
    following = items[index + 1] if index + 1 < len(items) else {}
    return str(following.get("type")) in {"function_call", "reasoning"} or (
        following.get("role") == "assistant"
    )


def _unanswered_items(waiting: list[str], path: str) -> Iterator[Violation]:
    for call_id in waiting:
        text = f"No tool output found for function call {call_id}."
        yield _broken("unanswered_call", path, text)


def _tools(
    body: Json, names: list[Any], strictness: Strictness, *, used_in_history: bool
) -> Iterator[Violation]:
    if len(set(map(str, names))) < len(names):
        yield _broken("duplicate_tool", "tools", "Invalid 'tools': tool names must be unique.")
    for index, name in enumerate(names):
        if not _NAME.match(str(name or "")):
            text = f"Invalid 'tools[{index}].name': string does not match pattern."
            yield _broken("bad_name", f"tools[{index}]", text)
    if body.get("tool_choice") and not body.get("tools"):
        text = (
            "Invalid value for 'tool_choice': "
            "'tool_choice' is only allowed when 'tools' are specified."
        )
        yield _broken("choice_without_tools", "tool_choice", text)
    if used_in_history and not body.get("tools") and strictness.tools_with_history:
        text = "Requests whose history holds tool calls must define tools."
        yield _broken("tools_missing", "tools", text)
