"""Cutting a reply into messages that a platform takes; pure.

A cut falls at a paragraph, else a line, a sentence, a space, and never inside a character that
people see as one. A code fence that is cut is closed, and opened again with its language in the
next part. The cut is prefix-stable: while a text grows, a part that another one follows never
changes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!?。！？…][\"')\]」』”]*\s?")
_JOINER = "\u200d"


def split(text: str, max_size: int, measure: Callable[[str], int]) -> list[str]:
    """Cut `text` into parts of at most `max_size` as `measure` counts them; at least one part.

    Joined without the fences that were added, the parts are the text but for white space at cuts.
    """
    parts: list[str] = []
    fence = ""
    rest = text
    while True:
        opening = f"{fence}\n" if fence else ""
        if measure(opening + rest) <= max_size:
            parts.append(opening + rest)
            return parts
        room = _longest_fit(rest, opening, max_size, measure)
        end = _best_cut(rest, room)
        piece, rest = rest[:end], rest[end:]
        fence = _open_fence(opening + piece)
        closing = f"\n{_closing(fence)}" if fence else ""
        rest = rest.removeprefix("\n") if fence else rest.lstrip("\n ")
        parts.append(opening + piece.rstrip() + closing)


def _longest_fit(rest: str, opening: str, max_size: int, measure: Callable[[str], int]) -> int:
    """How many characters fit, with room for closing a fence; at least one."""
    low, high = 1, len(rest)
    while low < high:
        middle = (low + high + 1) // 2
        piece = opening + rest[:middle]
        fence = _open_fence(piece)
        closed = f"{piece}\n{_closing(fence)}" if fence else piece
        if measure(closed) <= max_size:
            low = middle
        else:
            high = middle - 1
    return low


def _best_cut(rest: str, room: int) -> int:
    """The best place to cut at or before `room`, not before half of it."""
    least = room // 2
    for mark in ("\n\n", "\n"):
        place = rest.rfind(mark, least, room)
        if place > 0:
            return place + len(mark)
    sentences = [match.end() for match in _SENTENCE_END.finditer(rest, least, room)]
    if sentences:
        return sentences[-1]
    place = rest.rfind(" ", least, room)
    if place > 0:
        return place + 1
    return _whole_character(rest, room)


def _whole_character(rest: str, place: int) -> int:
    """Move a cut back so that no cluster (emoji sequence, accents, flags) is torn; at least 1."""
    cut = place
    while cut > 1 and cut < len(rest) and _clings(rest[cut - 1], rest[cut]):
        cut -= 1
    return cut if cut > 1 or not _clings(rest[0], rest[1:2] or " ") else place


def _clings(before: str, after: str) -> bool:
    if _JOINER in {before, after}:
        return True
    if unicodedata.combining(after) or unicodedata.category(after) in {"Mn", "Me", "Mc"}:
        return True
    is_modifier = "\U0001f3fb" <= after <= "\U0001f3ff"
    is_flag = all("\U0001f1e6" <= one <= "\U0001f1ff" for one in (before, after))
    return is_modifier or is_flag


def _open_fence(text: str) -> str:
    """The opening line of the fence that is open at the end of `text`, or ""."""
    opened = ""
    for match in _FENCE.finditer(text):
        mark, info = match[1], match[2]
        if not opened:
            if "`" not in info or mark[0] == "~":
                opened = f"{mark}{info}".rstrip()
        elif not info.strip() and mark[0] == opened[0] and len(mark) >= len(_marks(opened)):
            opened = ""
    return opened


def _marks(opening: str) -> str:
    return opening[: len(opening) - len(opening.lstrip(opening[0]))]


def _closing(opening: str) -> str:
    return _marks(opening)
