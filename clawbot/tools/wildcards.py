"""Wildcards for paths: `*`, `?`, `[a-z]`, `{a,b}` and, for any number of directories, `**`; pure.

Matching takes time in proportion to the pattern and the path, whatever they are: nothing is tried
twice. Not a regular expression, because those of "*a*a*a*a" are not so harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clawbot.errors import ToolError

MOST_ALTERNATIVES = 100
_ANY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Class:
    """One character of a set."""

    singles: str
    ranges: tuple[tuple[str, str], ...]
    is_negated: bool

    def takes(self, char: str) -> bool:
        found = char in self.singles or any(low <= char <= high for low, high in self.ranges)
        return found is not self.is_negated


@dataclass(frozen=True, slots=True, kw_only=True)
class _Any:
    """One character (`?`), or any number of them (`*`)."""

    is_many: bool


_Token = str | _Class | _Any
_Segment = Sequence[_Token] | None
"""What one component of a path must be like; None = any number of components."""


class Wildcard:
    """A pattern for paths. One without a slash is for names, in whichever directory."""

    def __init__(self, pattern: str) -> None:
        """Raise ToolError if the pattern cannot be used."""
        self._alternatives = []
        for one in _expanded(pattern):
            parts = [part for part in one.split("/") if part not in {"", "."}]
            if not parts or ".." in parts:
                raise ToolError(f"{pattern}: want a pattern such as **/*.py, without ..")
            if len(parts) == 1 and "/" not in one:
                parts.insert(0, "**")
            self._alternatives.append([None if part == "**" else _tokens(part) for part in parts])

    def matches(self, path: str) -> bool:
        """Whether a path without `.` and `..` is meant."""
        names = path.split("/")
        return any(_matches_path(segments, names) for segments in self._alternatives)


def _expanded(pattern: str) -> list[str]:
    """The patterns that one with braces stands for."""
    pending, done = [pattern], []
    while pending:
        one = pending.pop()
        close = one.find("}")
        opened = one.rfind("{", 0, close) if close >= 0 else -1
        if opened < 0:
            done.append(one)
        else:
            head, tail = one[:opened], one[close + 1 :]
            pending += [head + word + tail for word in one[opened + 1 : close].split(",")]
        if len(pending) + len(done) > MOST_ALTERNATIVES:
            raise ToolError(f"{pattern[:80]}: too many alternatives in braces")
    return done


def _tokens(part: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(part):
        char = part[at]
        end = part.find("]", at + 2 + part.startswith("!", at + 1)) if char == "[" else -1
        if end > 0:
            tokens.append(_class(part[at + 1 : end]))
            at = end
        elif char in "*?":
            tokens.append(_Any(is_many=char == _ANY))
        else:
            tokens.append(char)
        at += 1
    return tokens


def _class(inner: str) -> _Class:
    is_negated = inner[:1] in {"!", "^"}
    inner = inner[is_negated:]
    ranges, singles, at = [], "", 0
    while at < len(inner):
        if inner[at + 1 : at + 2] == "-" and at + 2 < len(inner):
            ranges.append((inner[at], inner[at + 2]))
            at += 3
        else:
            singles += inner[at]
            at += 1
    return _Class(singles=singles, ranges=tuple(ranges), is_negated=is_negated)


def _matches_path(segments: Sequence[_Segment], names: Sequence[str]) -> bool:
    """Whether the components match: a `**` that was passed takes one more only when all else fails,
    and never has to be tried again once a later one was reached.
    """
    at, pos, back, back_pos = 0, 0, -1, 0
    while pos < len(names):
        segment = segments[at] if at < len(segments) else ()
        if segment is None:
            back, back_pos = at, pos
            at += 1
        elif at < len(segments) and _matches_name(segment, names[pos]):
            at += 1
            pos += 1
        elif back >= 0:
            back_pos += 1
            at, pos = back + 1, back_pos
        else:
            return False
    return all(segment is None for segment in segments[at:])


def _matches_name(tokens: Sequence[_Token], name: str) -> bool:
    """The same for the characters of a name."""
    at, pos, back, back_pos = 0, 0, -1, 0
    while pos < len(name):
        token = tokens[at] if at < len(tokens) else None
        if isinstance(token, _Any) and token.is_many:
            back, back_pos = at, pos
            at += 1
        elif token is not None and _takes(token, name[pos]):
            at += 1
            pos += 1
        elif back >= 0:
            back_pos += 1
            at, pos = back + 1, back_pos
        else:
            return False
    return all(isinstance(token, _Any) and token.is_many for token in tokens[at:])


def _takes(token: _Token, char: str) -> bool:
    if isinstance(token, _Any):
        return True
    return token.takes(char) if isinstance(token, _Class) else token == char
