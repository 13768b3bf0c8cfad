"""Answers as HTML for the page: Markdown in, clean HTML out; pure.

The Markdown of a model is foreign text. It is parsed with raw HTML off, and what comes out is
cleaned again by an allow list, so that a fault of the parser alone harms nobody. Pictures become
links: the page loads nothing from other hosts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_TAGS = frozenset(
    {
        *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code"),
        *("a", "em", "strong", "s", "ol", "ul", "li"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
)
_ATTRIBUTES = {
    "a": {"href", "title", "target"},
    "code": {"class"},
    "ol": {"start"},
    "td": {"class"},
    "th": {"class"},
}
_SCHEMES = frozenset({"http", "https", "mailto"})
_URL = re.compile(r"https?://[^\s<>\"'`\u3000-\u303f\uff00-\uffef\u4e00-\u9fff]+")
_AFTER_URL = ".,;:!?*_~"
_ALIGNMENT = re.compile(r"text-align:\s*(left|right|center)")
_LANGUAGE = re.compile(r"language-[A-Za-z0-9+#._-]{1,40}")


class Renderer:
    """Turns Markdown into HTML. It keeps nothing between two texts; threads may share it."""

    def __init__(self) -> None:
        self._parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
        self._parser.enable(["table", "strikethrough"])
        self._parser.core.ruler.push("page", _for_page)
        self._cleaner = nh3.Cleaner(
            tags=_TAGS,
            attributes=_ATTRIBUTES,
            attribute_filter=_attribute,
            url_schemes=_SCHEMES,
            url_relative="deny",
            link_rel="noopener noreferrer nofollow",
        )

    def html(self, markdown: str) -> str:
        """The text as clean HTML. It takes milliseconds per 10 KB: call it in a thread."""
        return self._cleaner.clean(self._parser.render(markdown))


def _attribute(tag: str, name: str, value: str) -> str | None:
    if name != "class":
        return value
    if tag == "code":
        return value if _LANGUAGE.fullmatch(value) else None
    return value if value in {"left", "right", "center"} else None


def _for_page(state: StateCore) -> None:
    """Adapt the parsed text: alignment by class, pictures and bare addresses as links."""
    for token in state.tokens:
        alignment = _ALIGNMENT.fullmatch(str(token.attrs.get("style", "")))
        if alignment is not None:
            token.attrs = {"class": alignment[1]}
        if token.type == "inline":
            token.children = list(_inline(token.children or ()))


def _inline(children: Sequence[Token]) -> Iterator[Token]:
    in_link = 0
    for token in children:
        if token.type in {"link_open", "link_close"}:
            in_link += token.nesting
            token.attrs = token.attrs | ({"target": "_blank"} if token.nesting == 1 else {})
            yield token
        elif token.type == "image":
            name = token.content or "picture"
            source = str(token.attrs.get("src", ""))
            yield from [_text(name)] if in_link else _link(source, name)
        elif token.type == "text" and not in_link:
            yield from _with_links(token.content)
        else:
            yield token


def _with_links(text: str) -> Iterator[Token]:
    end = 0
    for found in _URL.finditer(text):
        address = found[0].rstrip(_AFTER_URL)
        if address.endswith(")") and address.count("(") < address.count(")"):
            address = address[:-1].rstrip(_AFTER_URL)
        yield _text(text[end : found.start()])
        yield from _link(address, address)
        end = found.start() + len(address)
    yield _text(text[end:])


def _link(address: str, name: str) -> list[Token]:
    attributes: dict[str, str | int | float] = {"href": address, "target": "_blank"}
    return [
        Token("link_open", "a", 1, attrs=attributes),
        _text(name),
        Token("link_close", "a", -1),
    ]


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)
