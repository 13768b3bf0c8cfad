"""From a reply's Markdown to what Feishu shows, and how large it is there. Pure: no network.

Three forms: `text` shows no Markdown; `post` shows some, in its `md` node; a card (JSON 2.0) shows
nearly all, but only a few tables, and pictures only by keys of Feishu's own. Nothing the model
writes can notify people: its `<at …>` is broken into plain text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from adapters.feishu.references import CARD, POST, TEXT
from adapters.payload import Json
from adapters.tables import render_table

MAX_SIZE = 28_000
"""Of a part, as `measure` counts: cards and posts may have 30 KB (230025); the rest is the frame
around the text, a line of progress, and what rendering adds."""

_FRAME_LIMIT_BYTES = 30 * 1024
_CHAR_WEIGHT = 3  # a card's text beyond about 10,000 characters is cut off without an error
_MAX_TABLES = 4  # more are refused (230099, sub-code 11310)
_PROGRESS_CHARS = 200
ELEMENT = "answer"
"""The id of the element that grows."""

_TAG = re.compile(r"<(?=/?\s*(?:at|person)\b)", re.IGNORECASE)
_BREAK = "<\u200b"
_IMAGE = re.compile(r"!(\[[^\]\n]*\]\([^)\n]+\))")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*$")
_PLAIN = frozenset({"paragraph_open", "paragraph_close", "inline", "text", "softbreak"})

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def measure(markdown: str) -> int:
    """The size of a part in the unit of MAX_SIZE: its bytes within JSON within JSON, or a weight
    of its characters, whichever is more.
    """
    if not markdown:
        return 0
    inner = json.dumps(markdown, ensure_ascii=False)
    outer = json.dumps(inner, ensure_ascii=False)
    return max(len(outer.encode("utf-8", "replace")), _CHAR_WEIGHT * len(markdown))


def form_of(markdown: str, wanted: str) -> str:
    """The form for a complete answer: as wanted, or by what is in it."""
    if wanted in {CARD, POST, TEXT}:
        return wanted
    tokens = _PARSER.parse(markdown)
    if any(token.type == "table_open" for token in tokens):
        return CARD
    return TEXT if _is_plain(tokens, markdown) else POST


def forms_after(form: str) -> tuple[str, ...]:
    """The forms to try in turn: one that Feishu refuses to show may do in a simpler form."""
    order = (CARD, POST, TEXT)
    return order[order.index(form) :]


def content(
    markdown: str, form: str, progress: str = "", buttons: Json | None = None
) -> tuple[str, str]:
    """The message type and content of an answer in this form; only a card has buttons."""
    if form == CARD:
        return "interactive", card(markdown, progress, buttons=buttons)
    if form == POST:
        nodes = [[{"tag": "md", "text": _with_progress(_post_text(markdown), progress)}]]
        return "post", dump_content({"zh_cn": {"content": nodes}})
    return "text", dump_content({"text": _with_progress(harmless(markdown), progress)})


def card(
    markdown: str, progress: str = "", *, streaming: bool = False, buttons: Json | None = None
) -> str:
    """A card that shows the text, and buttons below it; `streaming`: one that will grow."""
    config: dict[str, Any] = {"update_multi": True, "width_mode": "fill"}
    if streaming:
        config |= {
            "streaming_mode": True,
            "summary": {"content": _summary(markdown)},
            "streaming_config": {
                "print_step": {"default": 4},
                "print_frequency_ms": {"default": 30},
            },
        }
    text = card_text(markdown, progress)
    element = {"tag": "markdown", "element_id": ELEMENT, "content": text}
    elements = [element] if buttons is None else [element, buttons]
    return dump_content({"schema": "2.0", "config": config, "body": {"elements": elements}})


def card_reference(card_id: str) -> str:
    """The content of a message that shows a card made before."""
    return dump_content({"type": "card", "data": {"card_id": card_id}})


def closing_settings(markdown: str) -> Mapping[str, Any]:
    """The settings of a card that has ceased to grow; the summary is what chat lists show."""
    return {"config": {"streaming_mode": False, "summary": {"content": _summary(markdown)}}}


def card_text(markdown: str, progress: str = "") -> str:
    """The text of the element that grows."""
    text = _with_progress(_without_tables(markdown, keep=_MAX_TABLES), progress)
    if len(dump_content({"": text}).encode()) > _FRAME_LIMIT_BYTES:
        text = _with_progress(_escaped(markdown), progress)  # padded tables made it too large
    return text


def harmless(text: str) -> str:
    """The text in which nothing notifies anybody."""
    return _TAG.sub(_BREAK, text)


# -- Markdown --------------------------------------------------------------------------------------


def _is_plain(tokens: list[Token], markdown: str) -> bool:
    """Whether a text message shows it as it is meant."""
    inner = [child for token in tokens for child in token.children or []]
    if not {token.type for token in [*tokens, *inner]} <= _PLAIN:
        return False
    # An escape or an entity reads differently as Markdown and as it stands.
    shown = "\n".join(_inline_text(token) for token in tokens if token.type == "inline")
    return "".join(shown.split()) == "".join(markdown.split())


def _inline_text(token: Token) -> str:
    return "".join(
        "\n" if child.type == "softbreak" else child.content for child in token.children or []
    )


def _post_text(markdown: str) -> str:
    """Posts know neither headings nor tables."""
    lines = _without_tables(markdown, keep=0).split("\n")
    fenced = _fenced_lines("\n".join(lines))
    return "\n".join(
        line if number in fenced else _HEADING.sub(r"**\1**", line)
        for number, line in enumerate(lines)
    )


def _without_tables(markdown: str, *, keep: int) -> str:
    """The text with all tables but the first ones as aligned text in a code block."""
    lines = markdown.split("\n")
    tables = [
        node for node in SyntaxTreeNode(_PARSER.parse(markdown)).walk() if node.type == "table"
    ]
    for node in reversed(tables[keep:]):
        if node.map is None:
            continue
        begin, end = node.map
        indent = lines[begin][: len(lines[begin]) - len(lines[begin].lstrip())]
        code = render_table(list(_rows(node))).split("\n")
        lines[begin:end] = [indent + line for line in ("```", *code, "```")]
    return _escaped("\n".join(lines))


def _escaped(markdown: str) -> str:
    """Pictures as links (Feishu shows only its own), mentions as words."""
    lines = harmless(markdown).split("\n")
    fenced = _fenced_lines(markdown)
    return "\n".join(
        line if number in fenced else _IMAGE.sub(r"\1", line) for number, line in enumerate(lines)
    )


def _fenced_lines(markdown: str) -> set[int]:
    """The numbers of the lines that are code."""
    return {
        line
        for token in _PARSER.parse(markdown)
        if token.type in {"fence", "code_block"} and token.map is not None
        for line in range(*token.map)
    }


def _rows(table: SyntaxTreeNode) -> Iterator[list[str]]:
    for row in table.walk():
        if row.type == "tr":
            yield [_cell(cell) for cell in row.children]


def _cell(node: SyntaxTreeNode) -> str:
    return "".join(each.content for each in node.walk() if each.type in {"text", "code_inline"})


def _with_progress(text: str, progress: str) -> str:
    if not progress:
        return text
    line = harmless(" ".join(progress.split()))
    line = line if len(line) <= _PROGRESS_CHARS else f"{line[: _PROGRESS_CHARS - 1]}…"
    return f"{text}\n\n⏳ {line}" if text else f"⏳ {line}"


def _summary(markdown: str) -> str:
    return harmless(" ".join(markdown.split()))[:60]


def dump_content(value: Any) -> str:
    """The content of a message is a text that holds JSON."""
    return json.dumps(value, ensure_ascii=False)
