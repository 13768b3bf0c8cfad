"""From Markdown to Slack's mrkdwn: what notifications, search and old clients show. Pure.

Slack's mrkdwn is no Markdown: `*bold*`, `_italic_`, `~strike~`, `<url|label>`; no headings, tables
or nesting; marks count only at word boundaries, which Chinese text does not have. Nothing the model
writes can notify people: its `<!channel>` and `<@U1>` are escaped into plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from adapters.slack.words import escape
from adapters.tables import render_table

TEXT_LIMIT_BYTES = 4_000
"""chat.update refuses longer text (msg_too_long); users measured UTF-8 bytes, not characters."""

_BOUNDARY = "\u200b"
_RULE = "─" * 12
_BULLETS = ("•", "◦", "▪")
_MARKS = {"strong": "*", "em": "_", "s": "~"}
_BREAKS = frozenset({"softbreak", "hardbreak"})
_UNINDENTED = frozenset({"bullet_list", "ordered_list", "fence", "code_block", "table"})
_CUT = "\n```\n…"
_TORN = re.compile(r"(?:<[^<>\n]*|&[a-z]{0,3})$")
_SAFE_URL = re.compile(r"(?:https?://|mailto:|tel:)[^\s<>]+", re.IGNORECASE)

# CommonMark counts full-width punctuation as punctuation, so `**注意：**内容` is not bold by its
# rules, though every model writes it so. As private-use characters they count as letters.
_CJK_PUNCTUATION = "，。、：；！？…—～·「」『』（）《》〈〉【】〔〕“”‘’"
_SHIELD = {ord(char): 0x10F000 + index for index, char in enumerate(_CJK_PUNCTUATION)}
_UNSHIELD = {code: char for char, code in zip(_CJK_PUNCTUATION, _SHIELD.values(), strict=True)}

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def render(markdown: str) -> str:
    """The text as mrkdwn, ready for chat.postMessage."""
    tokens = _PARSER.parse(markdown.translate(_SHIELD))
    text = _blocks(SyntaxTreeNode(tokens).children).translate(_UNSHIELD).strip("\n")
    return text or escape(markdown)


def render_short(markdown: str, *, reserve_bytes: int = 0) -> str:
    """As `render`, cut at a line to what chat.update takes, less a reserve; code that is cut is
    closed.
    """
    text = render(markdown)
    limit = TEXT_LIMIT_BYTES - reserve_bytes
    if size(text) <= limit:
        return text
    room = limit - size(_CUT)
    cut = text.encode("utf-8", "replace")[:room].decode(errors="ignore")
    line_end = cut.rfind("\n", len(cut) // 2)
    cut = cut[:line_end] if line_end > 0 else _TORN.sub("", cut)
    return cut + ("\n```\n…" if cut.count("```") % 2 else "\n…")


def size(text: str) -> int:
    """Bytes on the wire."""
    return len(text.encode("utf-8", "replace"))


# -- blocks ----------------------------------------------------------------------------------------


def _blocks(nodes: Sequence[SyntaxTreeNode], *, separator: str = "\n\n", level: int = 0) -> str:
    return separator.join(text for node in nodes if (text := _block(node, level)))


def _block(node: SyntaxTreeNode, level: int) -> str:
    match node.type:
        case "inline":
            text = _inline(node.children)
        case "heading":
            text = _wrap(_inline(node.children[0].children, frozenset("*")), "*")
        case "fence" | "code_block":
            text = _code(node.content)
        case "table":
            text = _code(render_table(list(_rows(node))))
        case "bullet_list" | "ordered_list":
            text = _list(node, level)
        case "blockquote":
            text = _quote(_blocks(node.children))
        case "hr":
            text = _RULE
        case _:
            text = _blocks(node.children) if node.children else escape(node.content)
    return text


def _quote(text: str) -> str:
    """Slack has one level of quotes only."""
    return "\n".join(f"> {line.removeprefix('> ')}" for line in text.split("\n"))


def _code(content: str) -> str:
    content = escape(content.rstrip("\n")).replace("```", f"``{_BOUNDARY}`")
    return f"```\n{content}\n```"


def _list(node: SyntaxTreeNode, level: int) -> str:
    number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
    lines: list[str] = []
    for item in node.children:
        mark = _BULLETS[level % len(_BULLETS)] if number is None else f"{number}."
        lines.append(f"{'    ' * level}{mark} {_item(item, level)}")
        number = None if number is None else number + 1
    return "\n".join(lines)


def _item(item: SyntaxTreeNode, level: int) -> str:
    """A list item; its further lines are indented, except code and deeper lists."""
    indent = "    " * level + "   "
    parts: list[str] = []
    for child in item.children:
        text = _block(child, level + 1)
        if child.type in _UNINDENTED:
            parts.append(text)
        else:
            first = "" if not parts else indent
            parts.append(first + text.replace("\n", f"\n{indent}"))
    return "\n".join(parts)


def _rows(table: SyntaxTreeNode) -> Iterator[list[str]]:
    for row in table.walk():
        if row.type == "tr":
            yield [_plain(cell.children).translate(_UNSHIELD) for cell in row.children]


# -- inline ----------------------------------------------------------------------------------------


def _inline(nodes: Sequence[SyntaxTreeNode], inside: frozenset[str] = frozenset()) -> str:
    """Join inline nodes; a mark next to a letter is kept apart by a zero-width boundary.

    inside: the marks that are open already; Slack does not nest a mark in itself.
    """
    text = ""
    was_marked = False
    for node in nodes:
        piece, is_marked = _piece(node, inside)
        if not piece:
            continue
        if text and (is_marked or was_marked) and _joins(text[-1]) and _joins(piece[0]):
            text += _BOUNDARY
        text += piece
        was_marked = is_marked
    return text


def _joins(char: str) -> bool:
    """Whether Slack sees no word boundary beside this character."""
    return char in "*_~`" or not (char.isspace() or (char.isascii() and not char.isalnum()))


def _piece(node: SyntaxTreeNode, inside: frozenset[str]) -> tuple[str, bool]:
    """One inline node, and whether it is wrapped in marks."""
    kind = node.type
    if kind in _MARKS:
        mark = _MARKS[kind]
        inner = _inline(node.children, inside | {mark})
        return (inner, False) if mark in inside else (_wrap(inner, mark), True)
    if kind == "code_inline":
        return f"`{escape(node.content)}`", True
    if kind in _BREAKS:
        return "\n", False
    if kind == "link":
        return _link(str(node.attrs.get("href", "")), _plain(node.children)), False
    if kind == "image":
        return _link(str(node.attrs.get("src", "")), node.content), False
    return escape(node.content), False


def _wrap(text: str, mark: str) -> str:
    """Put marks around each line: Slack ends them at the line's end."""
    return "\n".join(f"{mark}{line}{mark}" if line.strip() else line for line in text.split("\n"))


def _link(url: str, label: str) -> str:
    """A link token, for addresses only: `<!channel|x>` must never come of `[x](!channel)`."""
    url = url.translate(_UNSHIELD)
    if not _SAFE_URL.fullmatch(url):
        return escape(f"{label} ({url})" if label and url and label != url else label or url)
    target = escape(url).replace("|", "%7C")
    if not label or label in {url, url.removeprefix("mailto:")}:
        return f"<{target}>"
    return f"<{target}|{escape(label)}>"


def _plain(nodes: Sequence[SyntaxTreeNode]) -> str:
    """Inline text without any mark, not escaped."""
    text = ""
    for node in nodes:
        if node.type in _BREAKS:
            text += " "
        elif node.children:
            text += _plain(node.children)
        else:
            text += node.content
    return text
