"""From Markdown to what a platform without Markdown shows readably. Pure.

Structure stays: lists keep their bullets and numbers, tables one line a row, code its lines, links
their address. A dialect says which marks the platform does know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from adapters.wechat.fields import clean


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The marks that are kept; everything else becomes plain text."""

    strong: str = ""
    code: str = ""
    has_headings: bool = False
    has_links: bool = False


PLAIN = Dialect()

_RULE = "————————"
_BULLETS = ("•", "◦", "▪")

# CommonMark counts full-width punctuation as punctuation, so `**注意：**内容` is not bold by its
# rules, though every model writes it so. As private-use characters they count as letters.
_CJK_PUNCTUATION = "，。、：；！？…—～·「」『』（）《》〈〉【】〔〕“”‘’"
_SHIELD = {ord(char): 0x10F000 + index for index, char in enumerate(_CJK_PUNCTUATION)}
_UNSHIELD = {code: char for char, code in zip(_CJK_PUNCTUATION, _SHIELD.values(), strict=True)}

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def render(markdown: str, dialect: Dialect = PLAIN) -> str:
    """The text, without characters that XML does not allow."""
    source = clean(markdown)
    tokens = _PARSER.parse(source.translate(_SHIELD))
    text = _Writer(dialect).blocks(SyntaxTreeNode(tokens).children)
    return text.translate(_UNSHIELD).strip("\n") or source


class _Writer:
    """Writes a document in a dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def blocks(self, nodes: Sequence[SyntaxTreeNode], level: int = 0) -> str:
        return "\n\n".join(text for node in nodes if (text := self._block(node, level)))

    def _block(self, node: SyntaxTreeNode, level: int) -> str:
        match node.type:
            case "inline":
                text = self._inline(node.children)
            case "heading":
                marks = f"{node.markup} " if self._dialect.has_headings else ""
                text = marks + self.blocks(node.children)
            case "fence" | "code_block":
                text = node.content.rstrip("\n")
            case "table":
                text = "\n".join(self._rows(node))
            case "bullet_list" | "ordered_list":
                text = self._list(node, level)
            case "blockquote":
                text = "\n".join(f"> {line}" for line in self.blocks(node.children).split("\n"))
            case "hr":
                text = _RULE
            case _:
                text = self.blocks(node.children) if node.children else node.content
        return text

    def _list(self, node: SyntaxTreeNode, level: int) -> str:
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        lines: list[str] = []
        for item in node.children:
            mark = _BULLETS[level % len(_BULLETS)] if number is None else f"{number}."
            lines.append(f"{'  ' * level}{mark} {self._item(item, level)}")
            number = None if number is None else number + 1
        return "\n".join(lines)

    def _item(self, item: SyntaxTreeNode, level: int) -> str:
        """A list item; deeper lists indent themselves, other blocks stand below its words."""
        indent = "  " * (level + 1)
        parts: list[str] = []
        for child in item.children:
            text = self._block(child, level + 1)
            if child.type in {"bullet_list", "ordered_list"}:
                parts.append(text)
            else:
                parts.append((indent if parts else "") + text.replace("\n", f"\n{indent}"))
        return "\n".join(parts)

    def _rows(self, table: SyntaxTreeNode) -> Iterator[str]:
        """One line a row: columns cannot be aligned in a proportional font."""
        for row in table.walk():
            if row.type == "tr":
                cells = (self._inline(cell.children) for cell in row.children)
                yield " | ".join(cell.replace("\n", " ") for cell in cells)

    def _inline(self, nodes: Sequence[SyntaxTreeNode]) -> str:
        return "".join(map(self._piece, nodes))

    def _piece(self, node: SyntaxTreeNode) -> str:
        dialect = self._dialect
        match node.type:
            case "softbreak" | "hardbreak":
                text = "\n"
            case "link":
                text = self._link(str(node.attrs.get("href", "")), self._inline(node.children))
            case "image":
                text = self._link(str(node.attrs.get("src", "")), node.content)
            case "code_inline":
                text = f"{dialect.code}{node.content}{dialect.code}"
            case "strong":
                text = f"{dialect.strong}{self._inline(node.children)}{dialect.strong}"
            case _:
                text = self._inline(node.children) if node.children else node.content
        return text

    def _link(self, url: str, label: str) -> str:
        if not url or label in {url, url.removeprefix("mailto:")}:
            return label or url
        if not label:
            return url
        return f"[{label}]({url})" if self._dialect.has_links else f"{label} ({url})"
