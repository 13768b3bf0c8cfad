"""What the supervisor tells `clawbot status` of its children: a file in the state directory.

It is there also while the database is not, and for a child that never came so far as to register.
It counts only while its writer holds the directory (`clawbot.state_dir`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog

from clawbot.supervisor import ChildState, ChildStatus

log = structlog.get_logger(__name__)

CHILDREN_FILE = "children.json"


class ChildrenFile:
    """Keeps the file up to date; `run` it beside the supervisor."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._latest: Sequence[ChildStatus] = ()
        self._changed = asyncio.Event()

    def post(self, statuses: Sequence[ChildStatus]) -> None:
        """Take the newest states; they are written soon."""
        self._latest = statuses
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await asyncio.to_thread(write_children, self._state_dir, self._latest)
            except OSError as error:
                log.warning("children_not_written", error=str(error))


def write_children(state_dir: Path, statuses: Sequence[ChildStatus]) -> None:
    """Replace the file. Raises OSError."""
    rows = [
        {
            "name": one.name,
            "state": one.state.value,
            "since_ms": one.since_ms,
            "restarts": one.restarts,
            "exit_code": one.exit_code,
            "worked": one.worked,
        }
        for one in statuses
    ]
    fresh = state_dir / f"{CHILDREN_FILE}.new"
    fresh.write_text(json.dumps(rows), encoding="utf-8")
    fresh.chmod(0o600)
    fresh.replace(state_dir / CHILDREN_FILE)


def read_children(state_dir: Path) -> list[dict[str, Any]]:
    """The rows of the file; none when there is none that can be read."""
    try:
        rows = json.loads((state_dir / CHILDREN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return rows if isinstance(rows, list) else []


def in_words(row: dict[str, Any], age: str) -> str | None:
    """What is wrong with a child, in one line; None = nothing. age: how long it is in its state."""
    if row["state"] in {ChildState.UP, ChildState.STOPPED}:
        return None
    line = f"{row['name']}: {row['state']} for {age}"
    if row["restarts"] or row["exit_code"] is not None:
        how = "ended" if row["worked"] else "ended before it worked"
        line += f"; its last process {how}, exit code {row['exit_code']}"
        line += f"; {row['restarts']} restarts"
    return line
