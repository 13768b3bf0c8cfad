"""The rules of Anthropic's Messages API for one request body, in the provider's own words.

Pure functions; the first violation found is the one the provider would answer with.
Rules: https://docs.anthropic.com/en/api/messages and the errors users report of it.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from .body import Json, object_of, objects
from .violation import Strictness, Violation, text_violations

_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
_THINKING = ("thinking", "redacted_thinking")


def anthropic_violations(body: Json, strictness: Strictness) -> list[Violation]:
    """Every rule that `body` breaks."""
    found = [*text_violations(body), *_top_level(body)]
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        found.append(
            _broken("no_messages", "messages", "messages: at least one message is required")
        )
        return found
    if not all(isinstance(message, dict) for message in messages):
        found.append(_broken("shape", "messages", "messages: Input should be a list of objects"))
        return found
    found += _order(messages, strictness)
    for index, message in enumerate(messages):
        found += _content(message, f"messages.{index}")
    found += _pairing(messages)
    found += _tools(body, messages, strictness)
    found += _thinking_first(body, messages)
    if strictness.bound_thinking:
        found += _signatures(messages)
    return found


def blocks(message: Json) -> list[Json]:
    """The content blocks of a message; a plain string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return objects(content)


def thinking_signature(messages: list[Json], thinking: str) -> str:
    """The signature this simulator gives a thinking block that answers `messages`."""
    prefix = [[message.get("role"), _bare(blocks(message))] for message in messages]
    digest = hashlib.sha256(json.dumps([prefix, thinking], sort_keys=True).encode())
    return f"sim-{digest.hexdigest()}"


def _bare(value: Any) -> Any:
    """A JSON value without the cache marks, which may move between requests."""
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items() if key != "cache_control"}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def _broken(rule: str, path: str, message: str) -> Violation:
    return Violation(rule=rule, path=path, message=message)


def _top_level(body: Json) -> Iterator[Violation]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield _broken("no_model", "model", "model: Field required")
    max_tokens = body.get("max_tokens")
    if max_tokens is None:
        yield _broken("no_max_tokens", "max_tokens", "max_tokens: Field required")
    elif not isinstance(max_tokens, int) or max_tokens < 1:
        message = "max_tokens: Input should be greater than or equal to 1"
        yield _broken("bad_max_tokens", "max_tokens", message)
    system = body.get("system")
    if isinstance(system, list):
        for index, block in enumerate(system):
            if not isinstance(block, dict) or not str(block.get("text", "")).strip():
                message = "system: text content blocks must be non-empty"
                yield _broken("empty_text", f"system.{index}", message)
    elif system is not None and not isinstance(system, str):
        yield _broken("shape", "system", "system: Input should be a valid string or list")


def _order(messages: list[Json], strictness: Strictness) -> Iterator[Violation]:
    for index, message in enumerate(messages):
        role = str(message.get("role"))
        if role == "system":
            text = (
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` '
                'parameter, not "system" as an input message role.'
            )
            yield _broken("system_inside", f"messages.{index}", text)
        elif role not in {"user", "assistant"}:
            text = f"messages.{index}.role: Input should be 'user' or 'assistant'"
            yield _broken("bad_role", f"messages.{index}", text)
        if strictness.merged_neighbours and index and role == str(messages[index - 1].get("role")):
            text = f'messages: roles must alternate, but found multiple "{role}" roles in a row'
            yield _broken("neighbours", f"messages.{index}", text)
    if messages[0].get("role") != "user":
        text = 'messages: first message must use the "user" role'
        yield _broken("first_not_user", "messages.0", text)
    if messages[-1].get("role") == "assistant" and not strictness.allow_prefill:
        text = (
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message."
        )
        yield _broken("prefill", f"messages.{len(messages) - 1}", text)


def _content(message: Json, path: str) -> Iterator[Violation]:
    content = message.get("content")
    if not isinstance(content, str | list):
        yield _broken("shape", path, f"{path}.content: Input should be a valid list")
        return
    if not content:
        text = f"{path}: all messages must have non-empty content"
        yield _broken("empty_message", path, text)
        return
    role = message.get("role")
    for index, block in enumerate(blocks(message)):
        place = f"{path}.content.{index}"
        kind = str(block.get("type"))
        if kind == "text":
            if not str(block.get("text") or "").strip():
                text = "messages: text content blocks must be non-empty"
                yield _broken("empty_text", place, text)
        elif kind == "tool_use":
            yield from _tool_use(block, role, place)
        elif kind == "tool_result":
            yield from _tool_result(block, role, place)
        elif kind in _THINKING and role != "assistant":
            text = f"{place}: `{kind}` blocks are only allowed in `assistant` messages"
            yield _broken("misplaced_block", place, text)


def _tool_use(block: Json, role: Any, place: str) -> Iterator[Violation]:
    if role != "assistant":
        text = f"{place}: `tool_use` blocks can only be in `assistant` messages"
        yield _broken("misplaced_block", place, text)
    if not _ID.match(str(block.get("id") or "")):
        text = f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        yield _broken("bad_id", place, text)
    if not _NAME.match(str(block.get("name") or "")):
        text = f"{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        yield _broken("bad_name", place, text)
    if not isinstance(block.get("input"), dict):
        text = f"{place}.tool_use.input: Input should be a valid dictionary"
        yield _broken("arguments", place, text)


def _tool_result(block: Json, role: Any, place: str) -> Iterator[Violation]:
    if role != "user":
        text = f"{place}: `tool_result` blocks can only be in `user` messages"
        yield _broken("misplaced_block", place, text)
    content = block.get("content")
    if block.get("is_error") and not content:
        text = f"{place}: content cannot be empty if `is_error` is true"
        yield _broken("empty_error", place, text)
    for part in objects(content):
        if part.get("type") == "text" and not part.get("text"):
            text = "messages: text content blocks must be non-empty"
            yield _broken("empty_text", place, text)


def _ids(message: Json, kind: str, key: str) -> list[str]:
    return [str(block.get(key)) for block in blocks(message) if block.get("type") == kind]


def _pairing(messages: list[Json]) -> Iterator[Violation]:
    known: set[str] = set()
    for index, message in enumerate(messages):
        path = f"messages.{index}"
        calls = _ids(message, "tool_use", "id")
        for position, call_id in enumerate(calls):
            if call_id in known or call_id in calls[:position]:
                yield _broken("duplicate_id", path, "messages: `tool_use` ids must be unique")
        known.update(calls)
        following = messages[index + 1] if index + 1 < len(messages) else {}
        answered = _ids(following, "tool_result", "tool_use_id")
        unanswered = [call_id for call_id in calls if call_id not in answered]
        if unanswered:
            text = (
                f"{path}: `tool_use` ids were found without `tool_result` blocks immediately "
                f"after: {', '.join(unanswered)}. Each `tool_use` block must have a corresponding "
                "`tool_result` block in the next message."
            )
            yield _broken("unanswered_call", path, text)
        yield from _results(message, messages[index - 1] if index else {}, path)


def _results(message: Json, previous: Json, path: str) -> Iterator[Violation]:
    open_ids = _ids(previous, "tool_use", "id")
    seen: set[str] = set()
    other_block_seen = False
    for position, block in enumerate(blocks(message)):
        if block.get("type") != "tool_result":
            other_block_seen = True
            continue
        call_id = str(block.get("tool_use_id"))
        place = f"{path}.content.{position}"
        if call_id not in open_ids:
            text = (
                f"{place}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the "
                "previous message."
            )
            yield _broken("unknown_result", place, text)
        elif call_id in seen:
            text = (
                f"{place}: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {call_id}"
            )
            yield _broken("duplicate_result", place, text)
        if other_block_seen:
            text = f"{place}: `tool_result` blocks must come before all other content"
            yield _broken("results_not_first", place, text)
        seen.add(call_id)


def _tools(body: Json, messages: list[Json], strictness: Strictness) -> Iterator[Violation]:
    tools = objects(body.get("tools"))
    names = [str(tool.get("name")) for tool in tools]
    if len(set(names)) < len(names):
        yield _broken("duplicate_tool", "tools", "tools: Tool names must be unique.")
    if body.get("tool_choice") and not tools:
        text = "tool_choice: tool_choice may only be specified while providing tools"
        yield _broken("choice_without_tools", "tool_choice", text)
    used = any(
        str(block.get("type")) in {"tool_use", "tool_result"}
        for message in messages
        for block in blocks(message)
    )
    if used and not tools and strictness.tools_with_history:
        text = "Requests which include `tool_use` or `tool_result` blocks must define tools"
        yield _broken("tools_missing", "tools", text)


def _thinking_first(body: Json, messages: list[Json]) -> Iterator[Violation]:
    """With thinking enabled, the tool turn being continued must begin with its thinking."""
    if object_of(body.get("thinking")).get("type") != "enabled":
        return
    if not _ids(messages[-1], "tool_result", "tool_use_id"):
        return
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") != "assistant":
            continue
        first = next(iter(blocks(messages[index])), {}).get("type")
        if first not in _THINKING:
            text = (
                f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, "
                f"but found `{first}`. When `thinking` is enabled, a final `assistant` message "
                "must start with a thinking block (preceeding the lastmost set of `tool_use` and "
                "`tool_result` blocks)."
            )
            yield _broken("thinking_missing", f"messages.{index}", text)
        return


def _signatures(messages: list[Json]) -> Iterator[Violation]:
    for index, message in enumerate(messages):
        for position, block in enumerate(blocks(message)):
            if block.get("type") != "thinking":
                continue
            expected = thinking_signature(messages[:index], str(block.get("thinking", "")))
            if block.get("signature") != expected:
                place = f"messages.{index}.content.{position}"
                text = f"{place}: Invalid `signature` in `thinking` block"
                yield _broken("signature", place, text)
