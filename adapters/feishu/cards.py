"""Interactive cards as text. Pure.

A card arrives as the client would draw it (lists of nodes), as card JSON 1.0 (`elements`), as 2.0
(`body.elements`), or as one of these in a text (`user_dsl`). Often the event holds only the line
that asks for a newer client; the API knows the card (`card_msg_content_type=user_card_content`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from adapters.feishu.words import trim
from adapters.payload import Json, list_of, object_of, objects_of, parse, text_of

MAX_CHARS = 20_000
_MAX_DEPTH = 20
_UPGRADE = ("请升级至最新版本客户端", "upgrade to the latest version")
_WRAPPERS = ("user_dsl", "json_card", "card", "content", "data")
_LABELS = ("title", "subtitle", "header", "text", "content", "i18n_elements", "placeholder")
_NESTED = ("fields", "elements", "columns", "actions", "body", "options", "extra", "items")
_INLINE = frozenset({"text", "a", "at", "emotion", "lark_md", "plain_text", "md"})


def read_card(content: Json) -> str:
    """The words of a card in reading order, "" if it shows none or only asks for an upgrade."""
    lines = list(_lines(_card(content), 0))
    text = trim("\n".join(line for line in lines if line))
    return text[:MAX_CHARS]


def is_degraded(text: str) -> bool:
    """Whether a line is Feishu's stand-in for a card that a client cannot draw."""
    return any(part.lower() in text.lower() for part in _UPGRADE)


def _card(content: Json) -> Json:
    """The card itself, out of what it may be wrapped in."""
    card = content
    for _ in range(_MAX_DEPTH):
        if any(key in card for key in ("elements", "body", "header", "i18n_elements")):
            return card
        inner = next((found for key in _WRAPPERS if (found := _object(card.get(key)))), None)
        if inner is None:
            return card
        card = inner
    return card


def _object(value: Any) -> Json | None:
    return (object_of(value) or None) if not isinstance(value, str) else parse(value)


def _lines(node: Any, depth: int) -> Iterator[str]:
    """One line an element; the nodes of one drawn line are joined."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(node, str):
        if not is_degraded(node):
            yield trim(node)
    elif isinstance(node, list):
        if node and all(_is_inline(each) for each in node):
            yield trim(" ".join(line for each in node for line in _lines(each, depth + 1) if line))
        else:
            for each in node:
                yield from _lines(each, depth + 1)
    elif isinstance(node, dict):
        yield from _element(node, depth)


def _is_inline(node: Any) -> bool:
    return isinstance(node, dict) and text_of(node.get("tag")) in _INLINE


def _element(node: Json, depth: int) -> Iterator[str]:
    tag = text_of(node.get("tag"))
    if tag == "table":
        yield from _table(node)
    elif tag == "a":
        text, href = text_of(node.get("text")), text_of(node.get("href"))
        yield f"{text} ({href})" if text and href and text != href else text or href
    elif tag == "at":
        yield f"@{text_of(node.get('user_name')) or text_of(node.get('user_id'))}"
    elif tag in {"img", "img_combination"}:
        yield "[image]"
    elif tag == "hr":
        yield "---"
    else:
        if tag == "button":
            yield f"[{trim(' '.join(_lines(node.get('text'), depth + 1)))}]"
            return
        for key in _LABELS:
            value = node.get(key)
            if key == "i18n_elements":
                value = next(iter(object_of(value).values()), None)
            yield from _lines(value, depth + 1)
        for key in _NESTED:
            yield from _lines(node.get(key), depth + 1)


def _table(node: Json) -> Iterator[str]:
    columns = objects_of(node.get("columns"))
    names = [text_of(column.get("name")) for column in columns]
    yield " | ".join(
        text_of(column.get("display_name")) or name
        for column, name in zip(columns, names, strict=True)
    )
    for row in objects_of(node.get("rows")):
        yield " | ".join(_cell(row.get(name)) for name in names)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(
            text_of(each.get("text")) or _cell(each.get("content"))
            if isinstance(each, dict)
            else _cell(each)
            for each in list_of(value)
        )
    return "" if value is None else json.dumps(value, ensure_ascii=False)
