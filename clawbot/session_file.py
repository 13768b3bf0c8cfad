"""Sessions as text: JSONL, one header line, then one line an entry; pure.

    {"clawbot": "session", "version": 1, "key": "…", …}
    {"seq": 3, "epoch": 0, "kind": "user", "at_ms": 1760000000000, "text": "hello"}

What is written is read back equal. What is damaged is read as far as it goes: a torn or spliced
line, several records in one line, blocks of NUL, a line without end: each costs what it destroyed,
is counted, and nothing else. A record begins with `{"seq":` and no text inside a record can hold
that (its quotes are escaped), so reading finds its way back after any damage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from clawbot.history import Entry, EntryKind, Usage

VERSION = 1
MOST_LINE_BYTES = 32 << 20
"""A longer line is no record of ours; it is passed over without being loaded."""

_CHUNK_BYTES = 1 << 20
_STARTS = ('{"seq":', '{"clawbot":')
_TOLERANT = ConfigDict(extra="ignore")
_EPOCH = Annotated[int, Field(ge=0, lt=2**31)]
_SEQ = Annotated[int, Field(ge=1, lt=2**62)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRecord:
    """The context document of one epoch."""

    __pydantic_config__ = _TOLERANT

    epoch: _EPOCH
    source: Literal["given", "configured"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a session has beside its entries."""

    __pydantic_config__ = _TOLERANT

    clawbot: Literal["session"] = "session"
    version: int = VERSION
    key: str
    title: str = ""
    chat_type: str = ""
    epoch: _EPOCH = 0
    settings: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[SeedRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One entry of a history and the epoch it belongs to."""

    epoch: int
    entry: Entry


@dataclass(slots=True, kw_only=True)
class Damage:
    """What could not be read: how many pieces, and where the first of them is."""

    skipped: int = 0
    first_line: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def note(self, line: int, reason: str) -> None:
        """Count one piece."""
        self.skipped += 1
        self.first_line = self.first_line or line
        self.reasons[reason] = self.reasons.get(reason, 0) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """An entry as it is written; what has its default is left out."""

    __pydantic_config__ = _TOLERANT

    seq: _SEQ
    epoch: _EPOCH
    kind: EntryKind
    at_ms: int
    turn: str | None = None
    step: int = -1
    sender: str = ""
    tool: str = ""
    call_id: str = ""
    arguments: str = ""
    is_error: bool = False
    text: str = ""
    signature: str = ""
    usage: Usage | None = None


_HEADER = TypeAdapter(Header)
_LINE = TypeAdapter(_Line)
_NEEDED = frozenset({"seq", "epoch", "kind", "at_ms"})
_DEFAULTS: dict[str, object] = {
    "turn": None,
    "step": -1,
    "is_error": False,
    "usage": None,
    **dict.fromkeys(("sender", "tool", "call_id", "arguments", "text", "signature"), ""),
}


def header_line(header: Header) -> bytes:
    """The first line of a session."""
    return _encoded(asdict(header))


def entry_line(epoch: int, entry: Entry) -> bytes:
    """One entry."""
    line = _Line(
        seq=entry.seq,
        epoch=epoch,
        kind=entry.kind,
        at_ms=entry.created_ms,
        turn=entry.turn_id,
        step=entry.step,
        sender=entry.sender,
        tool=entry.tool,
        call_id=entry.call_id,
        arguments=entry.arguments,
        is_error=entry.is_error,
        text=entry.text,
        signature=entry.signature,
        usage=entry.usage,
    )
    return _encoded(
        {
            name: value
            for name, value in asdict(line).items()
            if name in _NEEDED or value != _DEFAULTS[name]
        }
    )


def read_session(file: BinaryIO, damage: Damage) -> Iterator[Header | Record]:
    """What is whole in a file, in its order; what is not is counted. Blocks on the disk."""
    for number, raw in _lines(file, damage):
        if b"\0" in raw:
            damage.note(number, "NUL bytes")
        text = raw.replace(b"\0", b"").decode("utf-8", "surrogateescape").strip()
        yield from _records(text, number, damage)


def _lines(file: BinaryIO, damage: Damage) -> Iterator[tuple[int, bytes]]:
    number = 0
    while raw := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(raw) <= MOST_LINE_BYTES:
            yield number, raw
            continue
        damage.note(number, "line too long")
        while raw and not raw.endswith(b"\n"):
            raw = file.readline(_CHUNK_BYTES)


def _records(text: str, number: int, damage: Damage) -> Iterator[Header | Record]:
    decoder = json.JSONDecoder()
    position = 0
    while position < len(text):
        try:
            data, end = decoder.raw_decode(text, position)
            read = _read(data, text[position:end])
        except (ValueError, RecursionError) as error:
            damage.note(number, _reason(error))
            position = _next_start(text, position + 1)
            continue
        yield read
        position = end
        while position < len(text) and text[position].isspace():
            position += 1


def _next_start(text: str, position: int) -> int:
    found = [at for start in _STARTS if (at := text.find(start, position)) >= 0]
    return min(found, default=len(text))


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "not a record"
    return "not UTF-8" if isinstance(error, UnicodeError) else "not JSON"


def _read(data: object, text: str) -> Header | Record:
    """A record of what JSON said. Raise ValueError."""
    text.encode()  # bytes that were no UTF-8 came in as surrogates
    if isinstance(data, dict) and "clawbot" in data:
        return _HEADER.validate_python(data)
    line = _LINE.validate_python(data)
    return Record(
        epoch=line.epoch,
        entry=Entry(
            kind=line.kind,
            text=line.text,
            turn_id=line.turn,
            step=line.step,
            call_id=line.call_id,
            tool=line.tool,
            arguments=line.arguments,
            is_error=line.is_error,
            signature=line.signature,
            sender=line.sender,
            usage=line.usage,
            seq=line.seq,
            created_ms=line.at_ms,
        ),
    )


def _encoded(data: dict[str, object]) -> bytes:
    text = json.dumps(data, ensure_ascii=False, separators=(", ", ": "))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate can only be written escaped
        return json.dumps(data, separators=(", ", ": ")).encode() + b"\n"
