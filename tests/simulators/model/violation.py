"""A broken wire rule, the switches that decide which rules hold, and the rule about text itself."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule: its short name, the place in the body, the provider's own words."""

    rule: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.path}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strictness:
    """Rules that only some providers enforce, or that are a caller's own invariant.

    `context_tokens` is the size of the context window in estimated tokens, None for no limit.
    """

    merged_neighbours: bool = True  # Anthropic accepts same-role neighbours and merges them itself
    allow_prefill: bool = False  # older Anthropic models and OpenAI accept a last assistant message
    unique_ids: bool = True  # OpenAI accepts an id again on a later turn; Anthropic never does
    json_arguments: bool = True  # OpenAI takes any text as arguments, many gateways do not
    tools_with_history: bool = True  # Anthropic and gateways: tool history needs a tools array
    bound_thinking: bool = True  # Anthropic's newer models: a signature binds what stood before it
    content_required: bool = False  # Zhipu refuses a null or absent content
    reasoning_content: bool = False  # DeepSeek thinking mode: calls carry reasoning_content back
    context_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedViolation:
    """A broken rule and the number of the request that broke it."""

    request: int
    violation: Violation

    def __str__(self) -> str:
        return f"request {self.request}: {self.violation}"


def text_violations(body: dict[str, Any]) -> list[Violation]:
    """Texts that no provider's JSON parser accepts: lone surrogates and NUL."""
    whole = json.dumps(body, ensure_ascii=False)
    if "\\u0000" not in whole and not _SURROGATE.search(whole):
        return []  # as nearly always, without a walk through the schemas of all tools
    found = []
    for path, text in _texts(body, ""):
        if "\x00" in text:
            found.append(
                Violation(rule="nul", path=path, message="Invalid body: NUL character in a string.")
            )
        if _SURROGATE.search(text):
            message = "Invalid body: failed to parse JSON value: lone surrogate in a string."
            found.append(Violation(rule="surrogate", path=path, message=message))
    return found


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{path}.{key}", str(key)
            yield from _texts(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")


def estimated_tokens(value: Any) -> int:
    """A rough token count of all texts in a JSON value: 4 ASCII characters, or 1 other, each."""
    total = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            size = len(item)
            ascii_count = size if item.isascii() else len(item.encode("ascii", "ignore"))
            total += ascii_count // 4 + (size - ascii_count) + 1
        elif isinstance(item, dict):
            waiting += map(str, item)
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return total
