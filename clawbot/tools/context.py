"""What a tool is told of the turn it runs in: the plain value of `clawbot.ports.ToolContext`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clawbot.ports import Reporter, Store
from clawbot.session_key import SessionKey


@dataclass(slots=True, kw_only=True)
class TurnContext:
    """One turn's session, work directories (the first is where relative paths begin) and bounds.

    deadline: when the turn must end, by the clock's `monotonic`. stopping: set when it is stopped.
    """

    session: SessionKey
    work_dirs: Sequence[Path]
    deadline: float
    reporter: Reporter
    stopping: asyncio.Event
    store: Store
