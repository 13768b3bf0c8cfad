"""Where a turn's steps are recorded: its `agent.loop.Journal` in the store, under its fence."""

from __future__ import annotations

from collections.abc import Sequence

from clawbot.history import Entry
from clawbot.ports import Clock, Store
from clawbot.recollection import Reach, Recollection
from clawbot.store import history, memories, turns
from clawbot.store.claims import Claim


class StoreJournal:
    """A turn's `agent.loop.Journal` in the store."""

    def __init__(self, store: Store, clock: Clock, claim: Claim) -> None:
        self.turn_id = claim.turn_id
        self.asked = claim.asked
        self._store = store
        self._clock = clock
        self._claim = claim

    async def recall(self, reach: Reach) -> Recollection:
        """What the turn begins with, or goes on with."""
        claim = self._claim
        return await self._store.read(
            lambda tx: memories.recall(tx, claim.session, claim.epoch, claim.turn_id, reach)
        )

    async def record(self, entries: Sequence[Entry], *, is_progress: bool = True) -> list[Entry]:
        """See `Journal`."""
        now_ms = self._clock.now_ms()
        return await self._store.write(
            lambda tx: turns.record(tx, self._claim, entries, now_ms, is_progress=is_progress)
        )

    async def recorded(self) -> list[Entry]:
        """What the turn itself has recorded so far."""
        claim = self._claim
        return await self._store.read(
            lambda tx: history.of_turn(
                tx, claim.session, claim.epoch, claim.turn_id, after=claim.first_seq
            )
        )
