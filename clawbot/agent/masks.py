"""Smaller forms of what a request holds: beginning and end of a long text, or one line about it.

Everything works on copies. A smaller form is never longer than what it stands for, names the size
of the whole, and says by which path `read_file` reads the whole again. The name of that file is
made of the text alone, so that the same input always gives the same request; whoever sends the
request sees to it that the files exist.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from clawbot.agent.steps import Exchange
from clawbot.agent.weights import Unit, Weights
from clawbot.history import Entry, EntryKind
from clawbot.text import clean

FOLDER = "_saved"
_NOTE = re.compile(
    r"\[… ([\d,]+) of ([\d,]+) characters left out; "
    r'path="(_saved/[0-9a-f]{20}\.txt)" for read_file has all\]'
)
_LEAST_TOKENS = 80  # the note takes half of them; words shall be left
_LEAST_CHARS = 36
_SHARE = 0.9  # of the room, for the first cut: characters are not spread evenly


def path_of(text: str) -> str:
    """The path under which `read_file` finds a text that was saved."""
    return f"{FOLDER}/{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}.txt"


def cut_to(text: str, chars: int, *, path: str | None) -> str:
    """Beginning and end of a text of more than `chars` characters; two thirds for the beginning.

    Cuts fall on line ends where that loses little, and never inside of a CRLF. path: where the
    whole is kept, None = nowhere.
    """
    if len(text) <= chars:
        return text
    whole, path = _whole_of(text, path)
    head = _head(text, chars * 2 // 3)
    tail = _tail(text, chars // 3)
    left_out = whole - len(head) - len(tail)
    where = "" if path is None else f'; path="{path}" for read_file has all'
    note = f"[… {left_out:,} of {whole:,} characters left out{where}]"
    shown = "\n".join(part for part in (head, note, tail) if part)
    return shown if len(shown) < len(text) else text


def _whole_of(text: str, path: str | None) -> tuple[int, str | None]:
    """The size and path of what a text is made of: it may have been cut before."""
    cut = _earlier_cut(text)
    return (len(text), path) if cut is None else cut


def _earlier_cut(text: str) -> tuple[int, str] | None:
    """Of a text that was cut: the size and path of the whole. Others may quote such a note."""
    note = _NOTE.search(text)
    if note is None:
        return None
    left_out, whole = (int(number.replace(",", "")) for number in note.groups()[:2])
    line_ends = len(text) - len(note[0]) - (whole - left_out)
    return (whole, note[3]) if 0 <= line_ends <= 2 else None


def _head(text: str, chars: int) -> str:
    head = text[:chars]
    end = head.rfind("\n")
    return (head[:end] if end > len(head) // 2 else head).removesuffix("\r")


def _tail(text: str, chars: int) -> str:
    tail = text[len(text) - chars :] if chars else ""
    start = tail.find("\n") + 1
    return tail[start:] if 0 < start < len(tail) // 2 else tail.removeprefix("\n")


class Shortener:
    """Makes smaller forms, and keeps the texts that they point to in `saves`, by path."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.saves: dict[str, str] = {}

    def text(self, text: str, tokens: int) -> str:
        """A text of at most about `tokens`, by beginning and end; some words always stand."""
        if not self._weights.is_above(text, tokens):
            return text
        tokens = max(tokens, _LEAST_TOKENS)
        path = self._save(text)
        # By bytes first, so that no more is counted than can stand.
        chars = min(len(text) - 1, tokens * 6)
        shown = cut_to(text, chars, path=path)
        for _ in range(8):
            found = self._weights.text(shown)
            if found <= tokens or chars == _LEAST_CHARS:
                break
            chars = max(_LEAST_CHARS, int(chars * min(0.8, _SHARE * tokens / found)))
            shown = cut_to(text, chars, path=path)
        return shown if self._weights.is_above(text, self._weights.text(shown)) else text

    def masked(self, result: Entry, *, above: int) -> Entry:
        """One line in place of a result of more than `above` tokens."""
        if not self._weights.is_above(result.text, above):
            return result
        whole, path = _whole_of(result.text, path_of(result.text))
        line = (
            f'[… {whole:,} of {whole:,} characters left out; path="{path}" for read_file has all]'
        )
        if not self._weights.is_above(result.text, self._weights.text(line)):
            return result
        self._save(result.text)
        return replace(result, text=line)

    def shortened(self, entry: Entry, tokens: int) -> Entry:
        """An entry whose text and arguments have at most about `tokens` each."""
        text = self.text(entry.text, tokens)
        arguments = self.arguments(entry.arguments, tokens)
        if text is entry.text and arguments is entry.arguments:
            return entry
        return replace(entry, text=text, arguments=arguments)

    def arguments(self, arguments: str, tokens: int) -> str:
        """The JSON of a call with its long texts cut; still an object of the same keys if it can be
        kept.
        """
        if not self._weights.is_above(arguments, tokens):
            return arguments
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            each = tokens
            while each >= _LEAST_TOKENS:
                shown = _dumped(_mapped(value, partial(self.text, tokens=each)))
                if not self._weights.is_above(shown, tokens):
                    return shown
                each //= 2
        room = tokens
        while room >= _LEAST_TOKENS:  # quoting may make it longer
            shown = _dumped({"left_out": self.text(arguments, room)})
            if not self._weights.is_above(shown, tokens):
                return shown
            room //= 2
        shown = _dumped({"left_out": len(arguments)})
        return shown if len(shown) < len(arguments) else arguments

    def _save(self, text: str) -> str:
        cut = _earlier_cut(text)
        if cut is not None:
            return cut[1]  # the whole was saved when it was cut
        path = path_of(text)
        self.saves[path] = text
        return path


def _mapped(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value


def _dumped(value: object) -> str:
    return clean(json.dumps(value, ensure_ascii=False))


# -- units -----------------------------------------------------------------------------------------


def is_thought(unit: Unit) -> bool:
    """Whether a unit is what the model thought before it acted."""
    return isinstance(unit, Entry) and unit.is_thought


def without_thinking(unit: Unit) -> Unit:
    """A step without what the model thought."""
    if isinstance(unit, Entry) or not unit.thinking:
        return unit
    return replace(unit, thinking=[])


def mask_results(unit: Unit, shortener: Shortener, above: int) -> Unit:
    """A step with one line in place of each result of more than `above` tokens."""
    return _with_results(unit, lambda result: shortener.masked(result, above=above))


def cap_results(unit: Unit, shortener: Shortener, tokens: int) -> Unit:
    """A step with results of at most about `tokens` each."""
    return _with_results(unit, lambda result: shortener.shortened(result, tokens))


def cap_words(unit: Unit, shortener: Shortener, tokens: int) -> Unit:
    """A unit with messages, answers and arguments of at most about `tokens` each."""
    if isinstance(unit, Entry):
        return shortener.shortened(unit, tokens)
    exchanges = [
        Exchange(call=shortener.shortened(each.call, tokens), result=each.result)
        for each in unit.exchanges
    ]
    texts = [shortener.shortened(entry, tokens) for entry in unit.texts]
    return replace(unit, texts=texts, exchanges=exchanges)


def cap_old(unit: Unit, shortener: Shortener, tokens: int) -> Unit:
    """A unit of an earlier turn: no thinking, no part of it above `tokens`."""
    return cap_results(cap_words(without_thinking(unit), shortener, tokens), shortener, tokens)


def _with_results(unit: Unit, change: Callable[[Entry], Entry]) -> Unit:
    if isinstance(unit, Entry):
        return unit
    exchanges = [
        Exchange(call=each.call, result=each.result and change(each.result))
        for each in unit.exchanges
    ]
    return replace(unit, exchanges=exchanges)


def pinned_only(units: Sequence[Unit]) -> list[Unit]:
    """Of a turn: what its people said, and its newest unit."""
    said = [unit for unit in units[:-1] if isinstance(unit, Entry) and unit.kind is EntryKind.USER]
    return [*said, units[-1]]
