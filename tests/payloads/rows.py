"""The rows of a file: what is fed, under which circumstances. What is expected is never read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawbot.clock import SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One recorded payload. `ctx` is what README.md says of it."""

    id: str
    transport: str
    body: dict[str, Any] | str
    ctx: Mapping[str, Any]

    @property
    def after(self) -> list[str]:
        """The ids of the rows that must have come before this one."""
        named = self.ctx.get("after") or []
        return [named] if isinstance(named, str) else list(named)

    @property
    def names(self) -> Names:
        """Who and what the platform's API can name."""
        return Names(users=self.ctx.get("users") or {}, channels=self.ctx.get("channels") or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names by id."""

    users: Mapping[str, str]
    channels: Mapping[str, str]


def load_rows(path: Path) -> dict[str, Row]:
    """The rows of a JSONL file by id, in its order."""
    rows = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            given = json.loads(line)
            rows[given["id"]] = Row(
                id=given["id"],
                transport=given.get("transport") or "http",
                body=given["body"],
                ctx=given.get("ctx") or {},
            )
    return rows


class ShiftedClock(SystemClock):
    """The host's clock, set to another time and moved on by hand."""

    def __init__(self) -> None:
        self._shift_ms = 0
        self._moved_s = 0.0

    def now_ms(self) -> int:
        """Wall clock, as set."""
        return super().now_ms() + self._shift_ms

    def monotonic(self) -> float:
        """Seconds that also went by where time was moved on."""
        return super().monotonic() + self._moved_s

    def set(self, row: Row) -> None:
        """Make it the time at which the row came."""
        now_ms = row.ctx.get("now_ms", (row.ctx.get("now") or 0) * 1000)
        if now_ms:
            self._shift_ms = round(now_ms) - super().now_ms()
            return
        delay_s = row.ctx.get("delay_s") or 0
        self._shift_ms += round(delay_s * 1000)
        self._moved_s += delay_s
