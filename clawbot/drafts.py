"""Showing a reply while it grows: coalesced writes of the draft into the turn's row."""

from __future__ import annotations

import asyncio
from functools import partial

import structlog

from clawbot.errors import LeaseLost, StoreUnavailable, TurnStopped
from clawbot.ports import Clock, Store
from clawbot.store import turns
from clawbot.store.claims import Claim

log = structlog.get_logger(__name__)

INTERVAL_S = 0.33


class DraftWriter:
    """A `ports.Reporter` that writes the newest draft about three times a second.

    An answer that is complete before the first interval ends is never written as a draft. A draft
    that cannot be written is no reason to end the turn: its next step finds out. `newest` is the
    reply so far, `written` what people may have seen of it. Of a turn that is resumed people have
    seen some: its draft is shown again when it is as long as that, for nothing that people read may
    vanish under their eyes.
    """

    def __init__(self, store: Store, clock: Clock, claim: Claim) -> None:
        self._store = store
        self._clock = clock
        self._claim = claim
        self.newest = claim.draft_text
        self.written = claim.draft_text
        self._progress = ""
        self._changed = asyncio.Event()

    def text(self, draft: str) -> None:
        """See `ports.Reporter`."""
        if len(draft) < len(self._claim.draft_text):
            return
        self.newest = draft
        self._changed.set()

    def progress(self, line: str) -> None:
        """See `ports.Reporter`."""
        self._progress = line
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._changed.wait()
            await self._clock.sleep(INTERVAL_S)
            self._changed.clear()
            try:
                await self._store.write(
                    partial(
                        turns.write_draft,
                        turn=self._claim,
                        text=self.newest,
                        progress=self._progress,
                        now_ms=self._clock.now_ms(),
                    )
                )
                self.written = self.newest
            except (LeaseLost, TurnStopped):
                return
            except StoreUnavailable as error:
                log.warning("draft_not_written", error=str(error))
