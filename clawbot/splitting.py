"""Cutting a reply into messages that a platform takes; pure.

A cut falls at a paragraph, else a line, a sentence, a space, and never inside a character that
people see as one. A code fence that is cut is closed, and opened again with its language in the
next part. The cut is prefix-stable: while a text grows, a part that another one follows never
changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import regex  # type: ignore[import-untyped]  # ships no types

LEAST_SIZE = 200
"""A platform's parts are larger than this; smaller ones could not hold a fence beside its text."""

# A fence or a language of a length that nobody writes is no fence, or carries no language over.
_FENCE = re.compile(r"^ {0,3}(`{3,32}(?!`)|~{3,32}(?!~))(.*)$", re.MULTILINE)
_LONGEST_OPENING = 64
_SENTENCE_END = re.compile(r"[.!?…][\"')\]]*\s|[。！？][」』”]*")
_CLUSTER = regex.compile(r"\X")
_LONGEST_CLUSTER = 128


def split(text: str, max_size: int, measure: Callable[[str], int]) -> list[str]:
    """Cut `text` into parts of at most `max_size` as `measure` counts them; at least one part.

    Joined without the fences that were added, the parts are the text but for white space at cuts.
    No part but an only one is empty.
    """
    parts: list[str] = []
    fence = ""
    rest = text
    while True:
        opening = f"{fence}\n" if fence else ""
        room = _room(rest, opening, max_size, measure)
        if room == len(rest):
            if rest.strip() or not parts:
                parts.append(opening + rest)
            return parts
        end = _best_cut(rest, room)
        piece, rest = rest[:end], rest[end:]
        fence = _open_fence(opening + piece)
        closing = f"\n{_marks(fence)}" if fence else ""
        if piece.strip():
            parts.append(opening + piece.rstrip() + closing)
        if fence:
            rest, is_closed = _after_closing(rest.removeprefix("\n"), fence)
            fence = "" if is_closed else fence
        if not fence:
            rest = rest.lstrip("\n" if piece.endswith("\n") else "\n ")


def _room(rest: str, opening: str, max_size: int, measure: Callable[[str], int]) -> int:
    """How many characters fit, with room for closing a fence; at least one.

    Looks at no more of a long text than it must, and at the same places however much follows.
    """
    ending = ""

    def fits(count: int) -> bool:
        return measure(f"{opening}{rest[:count]}{ending}") <= max_size

    most = max_size
    while fits(most):
        if most >= len(rest):
            return len(rest)
        most *= 2
    room = _largest(fits, most)
    marks = [match[1] for match in _FENCE.finditer(opening + rest[:room])]
    if marks:
        ending = "\n" + max(marks, key=len)
        room = _largest(fits, room + 1)
    return min(room, len(rest) - 1) or 1


def _largest(fits: Callable[[int], bool], beyond: int) -> int:
    """The largest count that fits below one that does not; at least one."""
    low, high = 1, max(beyond - 1, 1)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
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
    """Move a cut back so that no cluster (emoji sequence, accents, flags) is torn; at least 1.

    A cluster that is longer than a part, or than anybody writes, is torn all the same.
    """
    begin = max(place - _LONGEST_CLUSTER, 0)
    for cluster in _CLUSTER.finditer(rest, begin, place + _LONGEST_CLUSTER):
        if cluster.end() >= place:
            whole: int = place if cluster.end() == place else cluster.start()
            return whole if whole > begin else place
    return place


def _open_fence(text: str) -> str:
    """The opening line of the fence that is open at the end of `text`, or ""."""
    opened = ""
    for match in _FENCE.finditer(text):
        mark, info = match[1], match[2]
        if not opened:
            if "`" not in info or mark[0] == "~":
                line = f"{mark}{info}".rstrip()
                opened = line if len(line) <= _LONGEST_OPENING else mark
        elif not info.strip() and mark[0] == opened[0] and len(mark) >= len(_marks(opened)):
            opened = ""
    return opened


def _after_closing(rest: str, fence: str) -> tuple[str, bool]:
    """Leave out a line that closes a fence, which the part before has closed already."""
    marks = _marks(fence)
    line, _, after = rest.partition("\n")
    if line.strip() and not line.strip().strip(marks[0]) and len(line.strip()) >= len(marks):
        return after, True
    return rest, False


def _marks(opening: str) -> str:
    return opening[: len(opening) - len(opening.lstrip(opening[0]))]
