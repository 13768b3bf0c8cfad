"""Wires the web page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.parts.heartbeat import heartbeat_of
from clawbot.ports import Part, Store
from clawbot.web.part import WebPart


@asynccontextmanager
async def open_web(config: Config, store: Store, process_id: str) -> AsyncIterator[Part]:
    """The web page."""
    clock = SystemClock()
    heartbeat = heartbeat_of(config, store, clock, process_id, "web")
    part = WebPart(config=config, store=store, clock=clock, heartbeat=heartbeat)
    await part.open()  # a port that is taken shows before the part counts as ready
    yield part
