"""Where code stands in Markdown, and what Chinese needs to show as bold. Pure; not a parser.

It looks at lines and back-ticks only, so that a text that grows is read as its beginning was.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

Passages = Iterable[tuple[str, bool]]
"""Stretches of Markdown in order, and whether each is code; joined they are the whole text."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
_BOLD = re.compile(r"(?<!\*)\*\*(?!\*)")
_HAIR = "\u200a"


def passages_of(markdown: str) -> Iterator[tuple[str, bool]]:
    """Prose and code in turn: fenced lines, and spans within one line."""
    fence = ""
    for line in re.split(r"(?<=\n)", markdown):
        before, fence = fence, _fence_after(fence, line)
        if before or fence:
            yield line, True
            continue
        end = 0
        for span in _SPAN.finditer(line):
            yield line[end : span.start()], False
            yield span[0], True
            end = span.end()
        yield line[end:], False


def closing_fence(markdown: str) -> str:
    """The marks that would close the code block in which the text ends, "" if in none."""
    fence = ""
    for line in markdown.split("\n"):
        fence = _fence_after(fence, line)
    return fence


def _fence_after(fence: str, line: str) -> str:
    """The marks of the code block that is open after a line."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    marks, info = match[1], match[2]
    if not fence:
        return "" if marks[0] == "`" and "`" in info else marks
    closes = marks[0] == fence[0] and len(marks) >= len(fence) and not info.strip()
    return "" if closes else fence


def loosen(passages: Passages) -> Iterator[tuple[str, bool]]:
    """The same with a hair space where bold would not be seen: by CommonMark's rules `**` beside
    punctuation counts only if there is a space on its other side, and Chinese has none.
    """
    is_open = False
    for text, is_code in passages:
        if is_code or "**" not in text:
            is_open = is_open and not (text.endswith("\n") and not text.strip())
            yield text, is_code
            continue
        pieces: list[str] = []
        end = 0
        for mark in _BOLD.finditer(text):
            before, after = text[: mark.start()][-1:], text[mark.end() :][:1]
            opens_badly = not is_open and _is_punctuation(after) and before.isalnum()
            closes_badly = is_open and _is_punctuation(before) and after.isalnum()
            pieces += [text[end : mark.start()], _HAIR if opens_badly else "", mark[0]]
            pieces.append(_HAIR if closes_badly else "")
            is_open = not is_open
            end = mark.end()
        yield "".join([*pieces, text[end:]]), False


def _is_punctuation(char: str) -> bool:
    return bool(char) and unicodedata.category(char)[0] in "PS"
