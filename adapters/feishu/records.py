"""Messages as the API returns them (GET messages/:id): quoted ones, forwards, whole cards. Pure.

The answer for a merged forward holds everything in it, nested forwards too, as one flat list; the
order is by time, the nesting by `upper_message_id`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from adapters.feishu.cards import read_card
from adapters.feishu.contents import read_content
from adapters.feishu.facts import Facts
from adapters.feishu.words import Reader, first_id, read_mentions, trim
from adapters.payload import Json, number_of, object_of, parse, text_of

_MAX_CHARS = 20_000
_MAX_DEPTH = 5
_QUOTE_CHARS = 4_000
_CUT = "[… cut]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Words that somebody else said. is_complete: whether nothing more can be asked for."""

    text: str
    is_complete: bool = True


def told_by_card(message_id: str, facts: Facts) -> Told:
    """The whole card of a message, "" where it is not known."""
    items = facts.messages.get(message_id)
    if items is None:
        return Told(text="", is_complete=False)
    return Told(text=read_card(_body(items[0])) if items else "")


def told_by_quote(message_id: str, facts: Facts) -> Told:
    """What a quoted message says, with its author, as quote lines; "" where it is not known."""
    items = facts.messages.get(message_id)
    if items is None:
        return Told(text="", is_complete=False)
    if not items:
        return Told(text="")
    reader = Reader(facts=facts)
    text = _item(items[0], _children(message_id, items), reader, 0)
    if not text:
        return Told(text="", is_complete=reader.is_complete)
    author = _author(items[0], reader)
    head = f"quoted message of {author}:" if author else "quoted message:"
    lines = [head, *_cut(text, _QUOTE_CHARS).split("\n")]
    return Told(text="\n".join(f"> {line}" for line in lines), is_complete=reader.is_complete)


def told_by_forward(message_id: str, facts: Facts) -> Told:
    """What a merged forward holds, in order of time; "" where it is not known."""
    items = facts.messages.get(message_id)
    if items is None:
        return Told(text="", is_complete=False)
    reader = Reader(facts=facts)
    text = _forward(message_id, _children(message_id, items), reader, 0)
    return Told(text=_cut(text, _MAX_CHARS), is_complete=reader.is_complete)


def _children(root_id: str, items: Sequence[Json]) -> dict[str, list[Json]]:
    children: dict[str, list[Json]] = defaultdict(list)
    for item in items:
        upper = text_of(item.get("upper_message_id"))
        if text_of(item.get("message_id")) != root_id or upper:
            children[upper or root_id].append(item)
    for siblings in children.values():
        siblings.sort(key=lambda item: number_of(item.get("create_time")) or 0)
    return dict(children)


def _forward(message_id: str, children: dict[str, list[Json]], reader: Reader, depth: int) -> str:
    if depth >= _MAX_DEPTH or not children.get(message_id):
        return ""
    lines = ["[forwarded messages:"]
    for item in children[message_id]:
        author = _author(item, reader)
        text = _item(item, children, reader, depth + 1).replace("\n", "\n  ")
        lines.append(f"  {author}: {text}" if author else f"  {text}")
    return "\n".join([*lines, "]"])


def _item(item: Json, children: dict[str, list[Json]], reader: Reader, depth: int) -> str:
    kind = text_of(item.get("msg_type")) or text_of(item.get("message_type"))
    if item.get("deleted") is True:
        return "[recalled message]"
    if kind == "merge_forward":
        nested = _forward(text_of(item.get("message_id")), children, reader, depth)
        return nested or "[forwarded messages]"
    inner = Reader(facts=reader.facts, mentions=read_mentions(item))
    source = text_of(object_of(item.get("body")).get("content"))
    text = trim("".join(map(str, read_content(kind, source, inner).pieces)))
    reader.is_complete = reader.is_complete and inner.is_complete
    return text


def _author(item: Json, reader: Reader) -> str:
    """A name, or an app's or person's id where there is none."""
    sender = object_of(item.get("sender"))
    sender_id = first_id(sender.get("id")) or first_id(sender.get("sender_id"))
    if text_of(sender.get("sender_type")) in {"app", "bot"}:
        return reader.facts.identity.name if reader.facts.identity.is_us(sender_id) else sender_id
    return reader.name(sender_id) or sender_id


def _body(item: Json) -> Json:
    return parse(text_of(object_of(item.get("body")).get("content"))) or {}


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n{_CUT}"
