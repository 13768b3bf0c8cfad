"""Card JSON 2.0 as Feishu checks it: structure, size, number of tables; and what a person reads."""

import json
import re
from typing import Any

from .api_error import ApiError
from .tenant import Json

MAX_BYTES = 30 * 1024
MAX_TABLES = 5
_TABLE_RULE = re.compile(r"^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_FOREIGN_IMAGE = re.compile(r"!\[[^\]]*\]\(https?://")


def parse_card(text: str) -> Json:
    """The card in a text. Raise ApiError as Feishu does."""
    if len(text.encode()) > MAX_BYTES:
        raise ApiError(230025)
    try:
        card = json.loads(text)
    except ValueError as error:
        raise ApiError(230001, "content is not a valid JSON") from error
    if not isinstance(card, dict) or card.get("schema") != "2.0":
        raise ApiError(
            230099, "Failed to create card content, ext=ErrCode: 200621; parse card json"
        )
    elements = card.get("body", {}).get("elements")
    if not isinstance(elements, list) or not elements:
        raise ApiError(230099, "Failed to create card content, ext=ErrCode: 200621; no elements")
    check_text(text_of(card))
    return card


def check_text(text: str) -> None:
    """Refuse what the Markdown element does not show."""
    if len(tables_in(text)) > MAX_TABLES:
        raise ApiError(
            230099,
            "Failed to create card content, ext=ErrCode: 11310; card table number over limit",
        )
    if any(_FOREIGN_IMAGE.search(line) for line in _outside_code(text)):
        raise ApiError(230099, "Failed to create card content, ext=ErrCode: 11248; bad image key")


def tables_in(text: str) -> list[int]:
    """The lines of the rules of Markdown tables outside code."""
    found, before = [], ""
    for number, line in enumerate(_outside_code(text)):
        if "|" in before and "-" in line and _TABLE_RULE.match(line):
            found.append(number)
        before = line
    return found


def _outside_code(text: str) -> list[str]:
    """The lines, with those of code blocks empty."""
    lines, in_code = [], False
    for line in text.split("\n"):
        is_fence = _FENCE.match(line) is not None
        lines.append("" if in_code or is_fence else line)
        in_code ^= is_fence
    return lines


def elements_of(card: Json) -> list[Json]:
    """The elements of a card."""
    elements: list[Json] = card.get("body", {}).get("elements", [])
    return elements


def text_of(card: Json) -> str:
    """What a person reads on it."""
    return "\n".join(str(element.get("content", "")) for element in elements_of(card))


def find_element(card: Json, element_id: str) -> Json:
    """The element with this id. Raise ApiError."""
    for element in elements_of(card):
        if element.get("element_id") == element_id:
            return element
    raise ApiError(300314, "element not found")


def readable(kind: str, content: str) -> str:
    """What a person reads of a message's content (a card by reference is read elsewhere)."""
    body: Any = json.loads(content)
    if kind == "text":
        return str(body.get("text", ""))
    if kind == "post":
        document = next(iter(body.values()))
        return "\n".join(
            "".join(str(node.get("text", "")) for node in line) for line in document["content"]
        )
    return text_of(body) if kind == "interactive" else content
