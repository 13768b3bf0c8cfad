"""Figures of a run: per level of load a line for each subject, and how they compare."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.load import Load, Measured

WANTED_RATIO = 2.5
LIBRARIES = ("aiohttp", "pydantic-ai-slim", "openai", "sqlalchemy", "slack-bolt", "uvloop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One subject under one load. Milliseconds; `cpu_ms` and `per_message_ms` are per message."""

    subject: str
    people: int
    messages: int
    per_second: float
    per_message_ms: float
    cpu_ms: float
    acked_ms: float
    median_ms: float
    p90_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All subjects under one load. added: what clawbot's answers take longer than bare ones.

    bare: the pipeline that makes clawbot's own request through the library as it comes. others:
    yardsticks that it is not measured by: `short` sends the message alone, without instructions and
    tools, and `tuned` does so through clawbot's own, faster client.
    """

    bare: Figures
    others: Sequence[Figures]
    clawbot: Figures

    @property
    def ratio(self) -> float:
        """How many times the bare pipeline's time clawbot takes for a message."""
        return self.times(self.bare)

    def times(self, yardstick: Figures) -> float:
        """How many times the time of any pipeline."""
        return self.clawbot.per_message_ms / yardstick.per_message_ms

    @property
    def added_median_ms(self) -> float:
        """Added latency of the median answer."""
        return self.clawbot.median_ms - self.bare.median_ms

    @property
    def added_p90_ms(self) -> float:
        """Added latency at the ninetieth percentile."""
        return self.clawbot.p90_ms - self.bare.p90_ms


def figures(subject: str, load: Load, measured: Measured, cpu_s: float) -> Figures:
    """Sum up what was measured."""
    count = len(measured.answered_s)
    return Figures(
        subject=subject,
        people=load.people,
        messages=count,
        per_second=round(count / measured.wall_s, 1),
        per_message_ms=round(measured.wall_s / count * 1000, 2),
        cpu_ms=round(cpu_s / count * 1000, 2),
        acked_ms=_ms(statistics.median(measured.acked_s)),
        median_ms=_ms(statistics.median(measured.answered_s)),
        p90_ms=_ms(statistics.quantiles(measured.answered_s, n=10)[-1]),
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)


def environment(folder: Path) -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "sqlite": sqlite3.sqlite_version,
        "sync_ms": _sync_ms(folder),
        **{name: version(name) for name in LIBRARIES},
    }


def _sync_ms(folder: Path, times: int = 50) -> float:
    """How long the disk needs to make one page durable; a commit cannot be faster."""
    with tempfile.TemporaryFile(dir=folder) as file:
        started = time.perf_counter()
        for _ in range(times):
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
        return _ms((time.perf_counter() - started) / times)


def show(comparisons: Sequence[Comparison], facts: dict[str, Any]) -> None:
    """Print tables."""
    console = Console(width=110)
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()), highlight=False)
    table = Table(title="milliseconds; CPU is the subject's own, per message")
    for column in ("people", "subject", "messages", "per second", "per message", "CPU"):
        table.add_column(column, justify="right")
    for column in ("ack", "median", "p90"):
        table.add_column(column, justify="right")
    for pair in comparisons:
        for each in (*pair.others, pair.bare, pair.clawbot):
            values = (each.people, each.subject, each.messages, each.per_second)
            values = (*values, each.per_message_ms, each.cpu_ms)  # type: ignore[assignment]
            table.add_row(*map(str, (*values, each.acked_ms, each.median_ms, each.p90_ms)))
        table.add_section()
    console.print(table)
    for pair in comparisons:
        console.print(
            f"{pair.bare.people:>4} people: {pair.ratio:.2f} times the bare time per message "
            f"(wanted: at most {WANTED_RATIO}), added {pair.added_median_ms:.1f} ms median, "
            f"{pair.added_p90_ms:.1f} ms p90; "
            + ", ".join(f"{pair.times(one):.2f} times {one.subject}" for one in pair.others),
            highlight=False,
        )


def as_json(comparisons: Sequence[Comparison], facts: dict[str, Any], stored: int) -> str:
    """The same for programs."""
    levels = [
        {
            **{one.subject: asdict(one) for one in (pair.bare, *pair.others, pair.clawbot)},
            "ratio": round(pair.ratio, 3),
            "ratios": {one.subject: round(pair.times(one), 3) for one in pair.others},
            "added_median_ms": round(pair.added_median_ms, 2),
            "added_p90_ms": round(pair.added_p90_ms, 2),
        }
        for pair in comparisons
    ]
    return json.dumps({"environment": facts, "levels": levels, "stored": stored}, indent=2)
