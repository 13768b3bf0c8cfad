"""Traces as files: `<state dir>/traces/<day>/<turn>-<fence>.json`, one for each attempt at a turn.

The fence only grows from one attempt to the next, so that a turn which is resumed after a kill or
an approval has a file of its own for each. A file is put in place whole. Everything here blocks on
the disk.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from clawbot.tracing.spans import Span, Trace

FOLDER = "traces"
VERSION = 1
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class SpanRecord(BaseModel):
    """A span in a file; see `spans.Span`."""

    model_config = ConfigDict(frozen=True)

    name: str
    kind: str
    span_id: str
    parent_id: str
    started_ns: int
    ended_ns: int | None
    error: str = ""
    attributes: Mapping[str, str | bool | int | float | Sequence[str]] = {}


class TraceRecord(BaseModel):
    """A file: one attempt at a turn. outcome: "" while it runs, or when it was killed."""

    model_config = ConfigDict(frozen=True)

    version: int = VERSION
    trace_id: str
    turn: str
    session: str
    channel: str
    process: int
    fence: int
    started_ms: int
    outcome: str = ""
    dropped: int = 0
    spans: tuple[SpanRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFile:
    """Where one attempt is written down."""

    path: Path
    record: TraceRecord

    @classmethod
    def of(cls, state_dir: Path, record: TraceRecord) -> TraceFile:
        """The file of an attempt."""
        day = datetime.fromtimestamp(record.started_ms / 1000, tz=UTC)
        name = f"{record.turn}-{record.fence:06d}.json"
        return cls(path=state_dir / FOLDER / f"{day:%Y-%m-%d}" / name, record=record)

    def write(self, spans: Sequence[SpanRecord], dropped: int, outcome: str) -> None:
        """Put the file in place, whole. Raise OSError."""
        update = {"spans": tuple(spans), "dropped": dropped, "outcome": outcome}
        text = self.record.model_copy(update=update).model_dump_json(exclude_defaults=True)
        folder = self.path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = folder / f".{self.path.name}.new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                file.write(text)
            fresh.replace(self.path)
        finally:
            fresh.unlink(missing_ok=True)  # it is there only if something failed


def recorded(trace: Trace) -> list[SpanRecord]:
    """The spans of a trace as they are now; to be taken on the event loop."""
    return [_record(span) for span in trace.spans]


def _record(span: Span) -> SpanRecord:
    return SpanRecord.model_construct(
        name=span.name,
        kind=span.kind,
        span_id=span.span_id,
        parent_id=span.parent_id,
        started_ns=span.started_ns,
        ended_ns=span.ended_ns,
        error=span.error,
        attributes=dict(span.attributes),
    )


def newest(state_dir: Path, count: int) -> Iterator[TraceRecord]:
    """The newest attempts, as far as they can be read."""
    for day in sorted(_days(state_dir / FOLDER), reverse=True):
        paths = [(path.stat().st_mtime_ns, path) for path in day.glob("*.json")]
        for _, path in sorted(paths, reverse=True):
            if count <= 0:
                return
            record = _read(path)
            if record is not None:
                count -= 1
                yield record


def of_turn(state_dir: Path, prefix: str) -> list[TraceRecord]:
    """The attempts at the turns whose ids begin so, in order."""
    if not re.fullmatch(r"[\w-]+", prefix):
        return []
    paths = [path for day in _days(state_dir / FOLDER) for path in day.glob(f"{prefix}*.json")]
    found = [record for path in paths if (record := _read(path)) is not None]
    return sorted(found, key=lambda record: (record.turn, record.fence))


def sweep(folder: Path, now_ms: int, days: int) -> int:
    """Remove what is more than `days` old from the folder of all traces; how many days."""
    now = datetime.fromtimestamp(now_ms / 1000, tz=UTC)
    first = f"{now - timedelta(days=days):%Y-%m-%d}"
    old = [day for day in _days(folder) if day.name < first]
    for day in old:
        shutil.rmtree(day, ignore_errors=True)
    return len(old)


def _days(folder: Path) -> list[Path]:
    with suppress(FileNotFoundError):
        return [day for day in folder.iterdir() if _DAY.fullmatch(day.name)]
    return []


def _read(path: Path) -> TraceRecord | None:
    """A file; None where it is gone, or none of ours."""
    try:
        return TraceRecord.model_validate(json.loads(path.read_bytes()))
    except (OSError, ValueError, ValidationError):
        return None
