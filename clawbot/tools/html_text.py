"""A web page as text to read: headings, paragraphs, lists, tables and links in Markdown; pure.

It reads tags its own way, in time proportional to the page whatever is in it: the standard parser
takes for ever on pages that are meant to hurt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple
from urllib.parse import urljoin

_HIDDEN = frozenset(
    {"noscript", "template", "svg", "iframe", "object", "canvas", "select", "button", "head"}
)
_RAW = frozenset({"script", "style", "textarea", "title"})
_ENDED_BY_ITS_LIKE = frozenset({"p", "li", "tr", "td", "th", "dt", "dd", "option"})
_BESIDE = frozenset({"nav", "footer", "aside", "form"})
_BLOCKS = frozenset(
    {
        *("p", "div", "section", "article", "main", "header", "footer", "aside", "nav", "ul", "ol"),
        *("table", "blockquote", "figure", "figcaption", "dl", "dt", "dd", "form", "fieldset"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "pre", "hr", "details", "summary", "address"),
    }
)
_VOID = frozenset({"br", "hr", "img", "input", "meta", "link", "source", "wbr", "area", "base"})
_MAIN = frozenset({"main", "article"})
_LEAST_MAIN = 400
_MOST_DEPTH = 400
_MOST_ATTRIBUTES = 4000
_TITLE_CHARS = 300

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]*)([^<>]*)>")
_ATTRIBUTE = re.compile(r"""\b(href|alt)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)


def page_text(html: str, url: str) -> tuple[str, str]:
    """The title of a page, and its text: that of its main part if it says which that is."""
    reader = _Reader(url)
    for piece in _pieces(html):
        reader.take(piece)
    text, main = _tidy(reader.text), _tidy(reader.main)
    return " ".join(reader.title.split()), main if len(main) >= _LEAST_MAIN else text


def _tidy(pieces: list[str]) -> str:
    text = "".join(pieces)
    text = re.sub(r"[ \t]*\n[ \t]*(?=\n)", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


class _Piece(NamedTuple):
    """Text (tag is ""), or a tag that is opened or closed; `text` is then its attributes."""

    text: str
    tag: str = ""
    is_end: bool = False


def _pieces(html: str) -> Iterator[_Piece]:
    at = 0
    while at < len(html):
        start = html.find("<", at)
        if start < 0:
            yield _Piece(html[at:])
            return
        if start > at:
            yield _Piece(html[at:start])
        if html.startswith("<!--", start):
            end = html.find("-->", start + 4)
            at = len(html) if end < 0 else end + 3
            continue
        found = _TAG.match(html, start)
        if found is None:
            if html.startswith(("<!", "<?"), start):
                end = html.find(">", start)
                at = len(html) if end < 0 else end + 1
            else:
                yield _Piece("<")
                at = start + 1
            continue
        tag, is_end, at = found[2].lower(), bool(found[1]), found.end()
        if tag in _RAW and not is_end:
            closing = re.compile(rf"</{tag}[^a-zA-Z0-9]", re.IGNORECASE).search(html, at)
            inner = html[at:] if closing is None else html[at : closing.start()]
            at = len(html) if closing is None else html.find(">", closing.start()) + 1 or len(html)
            if tag == "title":
                yield _Piece(inner[:_TITLE_CHARS], tag)
            continue
        yield _Piece(found[3][:_MOST_ATTRIBUTES], tag, is_end)


class _Reader:
    """Collects the text of pieces."""

    def __init__(self, url: str) -> None:
        self.title = ""
        self.text: list[str] = []
        self.main: list[str] = []
        self._url = url
        self._open: list[str] = []
        self._hidden = 0
        self._beside = 0
        self._in_main = 0
        self._pre = 0
        self._links: list[str] = []

    def take(self, piece: _Piece) -> None:
        """Take what comes next."""
        tag = piece.tag
        if not tag:
            text = unescape(piece.text)
            self._say(text if self._pre else re.sub(r"\s+", " ", text))
        elif tag == "title":
            self.title = self.title or unescape(piece.text)
        elif piece.is_end:
            self._close(tag)
        else:
            if self._open and self._open[-1] == tag and tag in _ENDED_BY_ITS_LIKE:
                self._close(tag)
            self._begin(tag, piece.text)

    def _begin(self, tag: str, attributes: str) -> None:
        given = {
            name.lower(): unescape(value.strip("\"'"))
            for name, value in _ATTRIBUTE.findall(attributes)
        }
        if tag == "br":
            self._say("\n")
        elif tag == "img" and given.get("alt"):
            self._say(f"[{given['alt']}]")
        if tag in _VOID or len(self._open) >= _MOST_DEPTH:
            return
        self._open.append(tag)
        self._hidden += tag in _HIDDEN
        self._beside += tag in _BESIDE
        self._in_main += tag in _MAIN
        if tag in _BLOCKS:
            self._say("\n\n")
        if tag == "li":
            self._say("\n- ")
        elif tag == "tr":
            self._say("\n")
        elif tag in {"td", "th"}:
            self._say(" | ")
        elif tag == "pre":
            self._say("```\n")
            self._pre += 1
        elif len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self._say("#" * int(tag[1]) + " ")
        elif tag == "a":
            self._links.append(self._target(given.get("href")))
            self._say("[" if self._links[-1] else "")

    def _close(self, tag: str) -> None:
        """Close a tag, and with it what was left open inside of it."""
        if tag not in self._open:
            return
        while self._open:
            one = self._open.pop()
            self._end(one)
            if one == tag:
                return

    def _end(self, tag: str) -> None:
        if tag == "a" and self._links:
            target = self._links.pop()
            self._say(f"]({target})" if target else "")
        elif tag == "pre":
            self._pre -= 1
            self._say("\n```")
        if tag in _BLOCKS:
            self._say("\n\n")
        self._hidden -= tag in _HIDDEN
        self._beside -= tag in _BESIDE
        self._in_main -= tag in _MAIN

    def _say(self, text: str) -> None:
        if self._hidden or not text:
            return
        self.text.append(text)
        if self._in_main and not self._beside:
            self.main.append(text)

    def _target(self, href: str | None) -> str:
        if not href or href.startswith(("#", "javascript:", "data:")):
            return ""
        try:
            return urljoin(self._url, href)
        except ValueError:
            return ""
