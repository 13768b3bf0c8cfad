"""Card JSON 2.0 as Feishu checks it: structure, size, number of tables; and what a person reads
and can press.
"""

import json
import re
from typing import Any

from .api_error import ApiError
from .tenant import Json

MAX_BYTES = 30 * 1024
MAX_TABLES = 5
MAX_DEPTH = 5
TAGS = frozenset({"markdown", "div", "hr", "img", "column_set", "column", "button", "table"})
_TABLE_RULE = re.compile(r"^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_ELEMENT_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,19}")
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
    ids: set[str] = set()
    for element in elements:
        _check_element(element, ids, 0)
    check_text(text_of(card))
    return card


def _check_element(element: object, ids: set[str], depth: int) -> None:
    """Refuse what a card of 2.0 does not have: the `action` row of 1.0, for example."""
    if not isinstance(element, dict) or depth > MAX_DEPTH:
        raise _refused(200621, "parse card json")
    tag, element_id = element.get("tag"), element.get("element_id")
    if tag not in TAGS:
        raise _refused(200861, f"unsupported tag {tag}")
    if element_id is not None:
        if not _ELEMENT_ID.fullmatch(str(element_id)) or element_id in ids:
            raise _refused(200621, f"bad element_id {element_id}")
        ids.add(element_id)
    if tag == "markdown" and not isinstance(element.get("content"), str):
        raise _refused(200621, "markdown without content")
    if tag == "button":
        _check_button(element)
    inside = element.get({"column_set": "columns", "column": "elements"}.get(str(tag), ""), [])
    if tag == "column_set" and not (
        inside and all(isinstance(each, dict) and each.get("tag") == "column" for each in inside)
    ):
        raise _refused(200621, "column_set without columns")
    for each in inside:
        _check_element(each, ids, depth + 1)


def _check_button(button: Json) -> None:
    text = button.get("text")
    if not isinstance(text, dict) or text.get("tag") not in {"plain_text", "lark_md"}:
        raise _refused(200621, "button without text")
    if not text.get("content"):
        raise _refused(200621, "button without text")
    behaviors = button.get("behaviors")
    if not isinstance(behaviors, list) or not behaviors:
        raise _refused(200621, "button without behaviors")
    for behavior in behaviors:
        kind = behavior.get("type")
        if kind == "callback" and not isinstance(behavior.get("value"), dict | str):
            raise _refused(200621, "callback without value")
        if kind not in {"callback", "open_url"}:
            raise _refused(200621, f"unknown behavior {kind}")


def _refused(code: int, why: str) -> ApiError:
    return ApiError(230099, f"Failed to create card content, ext=ErrCode: {code}; {why}")


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
    texts = [element["content"] for element in elements_of(card) if "content" in element]
    return "\n".join(map(str, texts))


def buttons_on(card: Json) -> list[tuple[str, object]]:
    """The buttons that a person can press: what stands on each, and what it sends."""
    found: list[tuple[str, object]] = []
    waiting: list[Any] = elements_of(card)[::-1]
    while waiting:
        element = waiting.pop()
        if element.get("tag") == "button":
            values = [b.get("value") for b in element["behaviors"] if b.get("type") == "callback"]
            found += [(str(element["text"]["content"]), value) for value in values]
        waiting += [*element.get("columns", []), *element.get("elements", [])][::-1]
    return found


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
