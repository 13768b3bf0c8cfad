"""Block Kit and attachments read as passages of wire text, so that one reader serves all.

Unknown blocks and elements are skipped: Slack adds some every year. Not a Block Kit validator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from adapters.payload import Json, object_of, objects_of, text_of
from adapters.slack.words import Passage, escape, passages_of

_MAX_DEPTH = 6  # a forward of a forward of a …
_LITERAL = re.compile(r"<(?![@#!][^<>\s][^<>]*>)|(?<!<)&(?!(?:amp|lt|gt);)")
_UNCLOSED = re.compile(r"(<[@#!][^<>]*>)|>")
_TOKENS = {
    "user": ("@", "user_id"),
    "channel": ("#", "channel_id"),
    "usergroup": ("!subteam^", "usergroup_id"),
    "broadcast": ("!", "range"),
}
_READABLE = ("text", "fallback", "value")  # of other elements: date, color, and what may come
_BULLETS = ("•", "◦", "▪")


def read_blocks(blocks: object, depth: int = 0) -> list[Passage]:
    """What a person reads in a message's blocks, in order."""
    passages: list[Passage] = []
    for block in objects_of(blocks):
        match block.get("type"):
            case "rich_text":
                passages += _rich_text(block, depth)
            case "section" | "header":
                texts = [block.get("text"), *objects_of(block.get("fields"))]
                passages += _lines([_text_object(each) for each in texts])
            case "context":
                passages += _lines([" ".join(_context(block))])
            case "markdown":
                passages += _lines([_from_markdown(text_of(block.get("text")))])
            case "image":
                passages += _lines([_image(block)])
            case "video":
                passages += _lines([_text_object(block.get("title"))])
            case "table":
                passages += _lines(list(_table_rows(block, depth)))
            case _:
                passages += _lines([_text_object(block.get("text"))])
    return passages


def has_quote(blocks: object) -> bool:
    """Whether a rich text quote is in the blocks: its structure says more than the flat text."""
    elements = [
        each
        for block in objects_of(blocks)
        if block.get("type") == "rich_text"
        for each in objects_of(block.get("elements"))
    ]
    return any(each.get("type") == "rich_text_quote" or each.get("border") for each in elements)


def read_attachments(attachments: object, depth: int = 0) -> list[Passage]:
    """Forwarded and linked messages, and the legacy attachments of other apps. All of it counts as
    quoted. Previews of ordinary links are left out: the address is in the text already.
    """
    passages: list[Passage] = []
    if depth > _MAX_DEPTH:
        return passages
    for attachment in objects_of(attachments):
        if is_forward(attachment) or attachment.get("is_msg_unfurl") is True:
            passages += _message(attachment, depth)
        elif not attachment.get("from_url") and not attachment.get("original_url"):
            passages += _legacy(attachment, depth)
    return [Passage(source=each.source, quoted=True) for each in passages]


def is_forward(attachment: Json) -> bool:
    """Whether the sender forwarded a message, not merely its link."""
    return attachment.get("is_share") is True


def _lines(sources: list[str]) -> list[Passage]:
    return [passage for source in sources if source for passage in passages_of(source)]


def _text_object(value: object) -> str:
    """A text composition object (or bare text) as wire text."""
    if isinstance(value, str):
        return escape(value)
    text = object_of(value)
    content = text_of(text.get("text"))
    return content if text.get("type") == "mrkdwn" else escape(content)


def _context(block: Json) -> Iterator[str]:
    for element in objects_of(block.get("elements")):
        yield _image(element) if element.get("type") == "image" else _text_object(element)


def _image(block: Json) -> str:
    title = _text_object(block.get("title")) or escape(text_of(block.get("alt_text")))
    return f"[image: {title}]" if title else "[image]"


def _from_markdown(text: str) -> str:
    """A markdown block is not escaped by its author; only its mention tokens are tokens."""
    text = _LITERAL.sub(lambda match: "&lt;" if match[0] == "<" else "&amp;", text)
    return _UNCLOSED.sub(lambda match: match[1] or "&gt;", text)


def _table_rows(block: Json, depth: int) -> Iterator[str]:
    rows = block.get("rows")
    for row in rows if isinstance(rows, list) else []:
        yield " | ".join(_cell(cell, depth) for cell in objects_of(row))


def _cell(cell: Json, depth: int) -> str:
    if cell.get("type") == "rich_text":
        return " ".join(each.source for each in _rich_text(cell, depth)).replace("\n", " ")
    value = cell.get("text", cell.get("value"))
    return escape(str(value)) if isinstance(value, str | int | float) else ""


def _rich_text(block: Json, depth: int) -> list[Passage]:
    passages: list[Passage] = []
    if depth > _MAX_DEPTH:
        return passages
    for element in objects_of(block.get("elements")):
        match element.get("type"):
            case "rich_text_quote":
                source, quoted = _inline(element), True
            case "rich_text_preformatted":
                source, quoted = f"```{_inline(element)}```", bool(element.get("border"))
            case "rich_text_list":
                source, quoted = _list(element), bool(element.get("border"))
            case _:
                source, quoted = _inline(element), False
        if not source:
            continue
        if quoted:
            source = "\n".join(f"&gt; {line}" for line in source.split("\n"))
        passages.append(Passage(source=source, quoted=quoted))
    return passages


def _list(element: Json) -> str:
    indent = element.get("indent")
    level = indent if isinstance(indent, int) and 0 < indent < 10 else 0
    offset = element.get("offset")
    number = (offset if isinstance(offset, int) else 0) + 1
    lines: list[str] = []
    for item in objects_of(element.get("elements")):
        mark = f"{number}." if element.get("style") == "ordered" else _BULLETS[level % 3]
        lines.append(f"{'    ' * level}{mark} {_inline(item)}")
        number += 1
    return "\n".join(lines)


def _inline(element: Json) -> str:
    return "".join(_piece(each) for each in objects_of(element.get("elements")))


def _piece(element: Json) -> str:
    """One inline element as wire text; an id becomes the token that the client would write."""
    kind = text_of(element.get("type"))
    if kind in _TOKENS:
        prefix, key = _TOKENS[kind]
        return f"<{prefix}{_id(element, key)}>"
    if kind == "text":
        return _styled(escape(text_of(element.get("text"))), object_of(element.get("style")))
    if kind == "link":
        return _link(element)
    if kind == "emoji":
        tone = element.get("skin_tone")
        suffix = f":skin-tone-{tone}:" if isinstance(tone, int) else ""
        return f":{_id(element, 'name')}:{suffix}"
    return escape(next((text for key in _READABLE if (text := text_of(element.get(key)))), ""))


def _id(element: Json, key: str) -> str:
    return re.sub(r"[<>|&]", "", text_of(element.get(key)))


def _link(element: Json) -> str:
    url = escape(text_of(element.get("url"))).replace("|", "%7C")
    label = escape(text_of(element.get("text")))
    if not url:
        return label
    return f"<{url}|{label}>" if label else f"<{url}>"


def _styled(text: str, style: Json) -> str:
    """Code and strike change the meaning and keep their marks; bold and italic do not."""
    if not text.strip():
        return text
    if style.get("code") is True:
        return f"`{text}`"
    return f"~{text}~" if style.get("strike") is True else text


def _message(attachment: Json, depth: int) -> list[Passage]:
    """A forwarded or linked message, every line marked as a quote."""
    passages: list[Passage] = []
    for holder in objects_of(attachment.get("message_blocks")):
        message = object_of(holder.get("message"))
        passages += read_blocks(message.get("blocks"), depth + 1)
        passages += read_attachments(message.get("attachments"), depth + 1)
    source = "\n".join(each.source for each in passages)
    source = source or text_of(attachment.get("text"))
    if not source:
        source = "\n".join(each.source for each in read_blocks(attachment.get("blocks"), depth + 1))
    if not source and is_forward(attachment):
        source = escape(text_of(attachment.get("fallback")))
    if not source:
        return []
    author = text_of(attachment.get("author_name")) or text_of(attachment.get("author_subname"))
    channel = text_of(attachment.get("channel_name"))
    kind = "forwarded" if is_forward(attachment) else "linked"
    by = f" from {author}" if author else ""
    where = f" in #{channel}" if channel else ""
    quote = "\n".join(f"&gt; {line}" for line in source.split("\n"))
    return [Passage(source=f"{escape(f'[{kind} message{by}{where}]')}\n{quote}")]


def _legacy(attachment: Json, depth: int) -> list[Passage]:
    """A secondary attachment, as alert bots still write them."""
    fields = [
        f"{text_of(each.get('title'))}: {text_of(each.get('value'))}"
        for each in objects_of(attachment.get("fields"))
    ]
    title = escape(text_of(attachment.get("title")))
    parts = [text_of(attachment.get("pretext")), title, text_of(attachment.get("text")), *fields]
    passages = [*_lines(parts), *read_blocks(attachment.get("blocks"), depth + 1)]
    return passages or _lines([text_of(attachment.get("fallback"))])
