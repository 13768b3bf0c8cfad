"""Housekeeping: removes what is older than `retention:` says, beside the daemon's work.

Small units with pauses, so that no message waits for it. Any number of daemons may share a
database: one of them does each round. A round that is cut off is gone on with by the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from clawbot.config_sections import RetentionConfig
from clawbot.errors import StoreUnavailable
from clawbot.ports import Clock, Store, Transaction
from clawbot.store import inbox, retention
from clawbot.store.retention import BEGINNING, Swept
from clawbot.tracing import files

log = structlog.get_logger(__name__)

DAY_MS = 86_400_000
ROUND_S = 3600.0
PAUSE_S = 0.05
NOTES_DAYS = 1  # after their own end
MARK_CHANNEL = "housekeeping"

Sweep = Callable[[Transaction, int, tuple[str, int]], Swept]


class Housekeeping:
    """Keeps one store in order, and the files of traces in `state_dir`."""

    def __init__(
        self, store: Store, clock: Clock, section: RetentionConfig, state_dir: Path
    ) -> None:
        self._store = store
        self._traces = state_dir / files.FOLDER
        self._clock = clock
        self._section = section

    async def run(self) -> None:
        """A round each hour, until cancelled."""
        while True:
            try:
                if await self._store.write(self._is_ours):
                    await self.round()
                else:
                    await self._sweep_traces()  # each host has its own
            except StoreUnavailable as error:
                log.warning("housekeeping_put_off", error=str(error))
            except Exception:
                # The boundary of a round: the daemon does its work without it.
                log.exception("housekeeping_failed")
            await self._clock.sleep(ROUND_S)

    async def round(self) -> dict[str, int]:
        """Remove all that is too old; how many rows of what. Raise StoreUnavailable."""
        section = self._section
        sweeps: list[tuple[str, int, Sweep]] = [
            ("seen", section.seen_days, retention.sweep_seen),
            ("inbox", section.inbox_days, retention.sweep_inbox),
            ("outbox", section.outbox_days, retention.sweep_outbox),
            ("events", section.events_days, retention.sweep_events),
            ("usage", section.usage_days, retention.sweep_usage),
            ("blobs", section.blobs_days, retention.sweep_blobs),
            ("archived", section.archived_days, self._sweep_archived),
            ("notes", NOTES_DAYS, retention.sweep_notes),
        ]
        removed = {name: await self._all(days, sweep) for name, days, sweep in sweeps if days}
        if section.traces_days:
            removed["trace_days"] = await self._sweep_traces()
        if pages := await self._compact():
            removed["pages"] = pages
        if any(removed.values()):
            log.info("housekeeping_done", **removed)
        return removed

    async def _all(self, days: int, sweep: Sweep) -> int:
        before_ms = self._clock.now_ms() - days * DAY_MS
        removed, after = 0, BEGINNING
        while True:
            swept = await self._store.write(partial(_run, sweep=sweep, ms=before_ms, after=after))
            removed += swept.removed
            if swept.after is None:
                return removed
            after = swept.after
            await self._clock.sleep(PAUSE_S)

    async def _sweep_traces(self) -> int:
        """How many days of traces were removed."""
        days = self._section.traces_days
        if not days:
            return 0
        return await asyncio.to_thread(files.sweep, self._traces, self._clock.now_ms(), days)

    async def _compact(self) -> int:
        """Give back to the disk what is free; how many pages."""
        pages = 0
        while given := await self._store.write(retention.compact):
            pages += given
            await self._clock.sleep(PAUSE_S)
        return pages

    def _sweep_archived(self, tx: Transaction, before_ms: int, _after: tuple[str, int]) -> Swept:
        return retention.sweep_archived(tx, before_ms, self._clock.now_ms())

    def _is_ours(self, tx: Transaction) -> bool:
        """Whether nobody else has begun the round of this hour."""
        now_ms = self._clock.now_ms()
        hour = now_ms // round(ROUND_S * 1000)
        return inbox.note_once(tx, MARK_CHANNEL, f"round:{hour}", now_ms)


def _run(tx: Transaction, sweep: Sweep, ms: int, after: tuple[str, int]) -> Swept:
    return sweep(tx, ms, after)
