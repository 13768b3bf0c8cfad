"""Replacing a passage of a text that is quoted more or less exactly; pure.

Models quote what they have read with other line ends, without trailing blanks, or with another
indentation. A passage is therefore looked for in four ways, each more forgiving than the one
before; the first that finds anything decides, and it must find one place alone. Outside of that
place nothing changes. The replacement takes on the line ends and the indentation of its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from clawbot.errors import ToolError

_ENDS = re.compile(r"\r\n|\r|\n")
_SHOWN_LINES = 10
_SHOWN_CHARS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A text after the replacement. first_lines: where the replaced passages began; how: in which
    way they were found, "" = exactly.
    """

    text: str
    first_lines: tuple[int, ...]
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """A way to look for a passage."""

    name: str
    find: Callable[[str, str], list[tuple[int, int]]]


def replace(text: str, old: str, new: str, *, everywhere: bool = False) -> Edited:
    """Replace `old` by `new`. Raise ToolError when it is not there, or there more than once."""
    if not old:
        raise ToolError("old_text is empty: quote what is to be replaced, or use write_file")
    if _plain(old) == _plain(new):
        raise ToolError("old_text and new_text are the same: there is nothing to change")
    for way in _WAYS:
        spans = way.find(text, old)
        if not spans:
            continue
        if len(spans) > 1 and not everywhere:
            raise ToolError(_told_several(text, spans, way), kind="ambiguous")
        return _spliced(text, spans, old, new, way)
    raise ToolError(_told_missing(text, old), kind="stale")


def _spliced(text: str, spans: Sequence[tuple[int, int]], old: str, new: str, way: _Way) -> Edited:
    pieces, done = [], 0
    for start, end in spans:
        found = text[start:end]
        fresh = _indented(_plain(old), _plain(new), _plain(found)) if way is _INDENT else new
        pieces += [text[done:start], _with_ends(fresh, text, start)]
        done = end
    pieces.append(text[done:])
    changed = "".join(pieces)
    if changed == text:
        raise ToolError("the passage reads so already: there is nothing to change")
    lines = tuple(line_at(text, start) for start, _ in spans)
    return Edited(text=changed, first_lines=lines, how=way.name)


def line_at(text: str, position: int) -> int:
    """The number of the line, from 1, that a position of a text is in."""
    return 1 + sum(1 for _ in _ENDS.finditer(text, 0, position))


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _with_ends(new: str, text: str, start: int) -> str:
    """`new` with the line ends that are usual around a place."""
    here = _ENDS.search(text, start)
    ending = here[0] if here is not None else _last_end(text[:start])
    return _plain(new).replace("\n", ending) if ending else new


def _last_end(text: str) -> str:
    last = max(text.rfind("\n"), text.rfind("\r"))
    if last < 0:
        return ""
    return "\r\n" if text.endswith("\r\n", 0, last + 1) else text[last]


# -- the ways --------------------------------------------------------------------------------------


def _exactly(text: str, old: str) -> list[tuple[int, int]]:
    spans, start = [], text.find(old)
    while start >= 0:
        end = start + len(old)
        if not (_splits_end(text, start) or _splits_end(text, end)):
            spans.append((start, end))
        start = text.find(old, end)
    return spans


def _splits_end(text: str, position: int) -> bool:
    """Whether a position lies within a line end."""
    return text[max(0, position - 1) : position + 1] == "\r\n"


def _with_other_ends(text: str, old: str) -> list[tuple[int, int]]:
    lines = _plain(old).split("\n")
    pattern = re.compile(r"(?:\r\n|\r|\n)".join(map(re.escape, lines)))
    return [found.span() for found in pattern.finditer(text)] if len(lines) > 1 else []


def _by_lines(strip: Callable[[str], str]) -> Callable[[str, str], list[tuple[int, int]]]:
    """Looks for whole lines that are equal once they are stripped."""

    def find(text: str, old: str) -> list[tuple[int, int]]:
        wanted = [strip(line) for line in _plain(old).split("\n")]
        takes_end = len(wanted) > 1 and not wanted[-1]
        if takes_end:
            wanted.pop()
        if not any(wanted):
            return []
        lines = list(_lines(text))
        stripped = [strip(text[start:end]) for start, end, _ in lines]
        spans, at = [], 0
        while at <= len(lines) - len(wanted):
            if stripped[at] == wanted[0] and stripped[at : at + len(wanted)] == wanted:
                _, end, after = lines[at + len(wanted) - 1]
                spans.append((lines[at][0], after if takes_end else end))
                at += len(wanted)
            else:
                at += 1
        return spans

    return find


def _lines(text: str) -> Iterator[tuple[int, int, int]]:
    """Of each line: where it starts and ends, and where the next one starts."""
    start = 0
    for found in _ENDS.finditer(text):
        yield start, found.start(), found.end()
        start = found.end()
    yield start, len(text), len(text)


_INDENT = _Way(name="with another indentation", find=_by_lines(str.strip))
_WAYS = (
    _Way(name="", find=_exactly),
    _Way(name="with other line ends", find=_with_other_ends),
    _Way(name="without blanks at the ends of lines", find=_by_lines(str.rstrip)),
    _INDENT,
)


# -- indentation -----------------------------------------------------------------------------------


def _indented(old: str, new: str, found: str) -> str:
    """`new`, which is indented as `old` is, indented as what was found in its place."""
    known: dict[str, str] = {}
    for quoted, real in zip(old.split("\n"), found.split("\n"), strict=False):
        if quoted.strip():
            known.setdefault(_indent(quoted), _indent(real))
    return "\n".join(_moved(line, known) for line in new.split("\n"))


def _moved(line: str, known: dict[str, str]) -> str:
    if not line.strip():
        return line
    indent = _indent(line)
    if indent in known:
        return known[indent] + line[len(indent) :]
    inner = [one for one in known if indent.startswith(one)]
    if inner:  # deeper than what was quoted
        base = max(inner, key=len)
        return known[base] + _deeper(indent[len(base) :], known) + line[len(indent) :]
    # Less deep: as much is taken away as it lacks of the least that was quoted.
    base = min(known, key=len)
    lacking = len(base) - len(indent)
    return known[base][: max(0, len(known[base]) - lacking)] + line[len(indent) :]


def _deeper(more: str, known: dict[str, str]) -> str:
    """Further indentation, in tabs where a step of the quoted one is a tab in the file."""
    steps = {
        wide[len(narrow) :]: known[wide][len(known[narrow]) :]
        for narrow in known
        for wide in known
        if len(wide) > len(narrow)
        and wide.startswith(narrow)
        and known[wide].startswith(known[narrow])
    }
    for step in sorted(steps, key=len):
        if step and steps[step] and more == step * (len(more) // len(step)):
            return steps[step] * (len(more) // len(step))
    return more


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


# -- what went wrong -------------------------------------------------------------------------------


def _told_several(text: str, spans: Sequence[tuple[int, int]], way: _Way) -> str:
    numbers = ", ".join(str(line_at(text, start)) for start, _ in spans[:_SHOWN_LINES])
    more = ", …" if len(spans) > _SHOWN_LINES else ""
    how = f", {way.name}," if way.name else ""
    return (
        f"old_text stands there{how} {len(spans):,} times (lines {numbers}{more}): quote more "
        "lines around the one that you mean, or set replace_all"
    )


def _told_missing(text: str, old: str) -> str:
    """Where it would begin, and where the text goes another way, if that can be said."""
    wanted = [line.strip() for line in _plain(old).split("\n")]
    while wanted and not wanted[0]:
        wanted.pop(0)
    if wanted:
        lines = [text[start:end] for start, end, _ in _lines(text)]
        at = max(
            (number for number, line in enumerate(lines) if line.strip() == wanted[0]),
            key=lambda number: _alike(lines, number, wanted),
            default=None,
        )
        if at is not None and (alike := _alike(lines, at, wanted)) < len(wanted):
            there = lines[at + alike] if at + alike < len(lines) else "(the end of the file)"
            reads, should = there[:_SHOWN_CHARS], wanted[alike][:_SHOWN_CHARS]
            return (
                f"old_text is not there. Line {at + 1} is its first line, but line "
                f"{at + alike + 1} reads {reads!r} and not {should!r}; read the file again"
            )
    return "old_text is not there, not even with another indentation; read the file again"


def _alike(lines: Sequence[str], at: int, wanted: Sequence[str]) -> int:
    """How many lines from `at` on are as wanted."""
    count = 0
    while (
        count < len(wanted)
        and at + count < len(lines)
        and lines[at + count].strip() == wanted[count]
    ):
        count += 1
    return count
