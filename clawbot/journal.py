"""Where a turn's steps are recorded: its `agent.loop.Journal` in the store, under its fence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import structlog

from clawbot.agent.prompt import user_entries
from clawbot.errors import StoreUnavailable
from clawbot.history import Entry, Spent
from clawbot.ports import Clock, Store, T, Transaction, Unit
from clawbot.recollection import Reach, Recollection
from clawbot.store import costs, history, memories, turns, waiting
from clawbot.store.claims import Claim

log = structlog.get_logger(__name__)

STORE_RETRY_S = 1.0


class StoreJournal:
    """A turn's `agent.loop.Journal` in the store.

    While the store is out of reach it waits, for the model was paid for what there is to record;
    the turn's own bounds, its lease and its time, end the waiting.
    """

    def __init__(
        self, store: Store, clock: Clock, claim: Claim, *, lets_join: bool = False
    ) -> None:
        self.turn_id = claim.turn_id
        self.asked = claim.asked
        self._store = store
        self._clock = clock
        self._claim = claim
        self._lets_join = lets_join

    async def recall(self, reach: Reach) -> Recollection:
        """What the turn begins with, or goes on with."""
        claim = self._claim
        return await self._insist(
            self._store.read,
            lambda tx: memories.recall(tx, claim.session, claim.epoch, claim.turn_id, reach),
        )

    async def record(
        self,
        entries: Sequence[Entry],
        *,
        is_progress: bool = True,
        effects: Sequence[Unit[None]] = (),
    ) -> list[Entry]:
        """See `Journal`."""
        now_ms = self._clock.now_ms()

        def unit(tx: Transaction) -> list[Entry]:
            recorded = turns.record(tx, self._claim, entries, now_ms, is_progress=is_progress)
            for effect in effects:
                effect(tx)
            return recorded

        return await self._insist(self._store.write, unit)

    async def pay(self, spent: Sequence[Spent]) -> None:
        """Count model calls that no entry of the history tells of."""
        payer, now_ms = self._claim.payer, self._clock.now_ms()
        await self._insist(self._store.write, lambda tx: costs.add(tx, payer, spent, now_ms))

    async def joined(self) -> list[Entry]:
        """See `Journal`."""
        if not self._lets_join:
            return []
        claim, now_ms = self._claim, self._clock.now_ms()
        if not await self._insist(self._store.read, lambda tx: waiting.newcomers(tx, claim)):
            return []
        return await self._insist(
            self._store.write, lambda tx: waiting.join(tx, claim, user_entries, now_ms)
        )

    async def recorded(self) -> list[Entry]:
        """What the turn itself has recorded so far."""
        claim = self._claim
        return await self._insist(
            self._store.read,
            lambda tx: history.of_turn(
                tx, claim.session, claim.epoch, claim.turn_id, after=claim.first_seq
            ),
        )

    async def _insist(self, run: Callable[[Unit[T]], Awaitable[T]], unit: Unit[T]) -> T:
        while True:
            try:
                return await run(unit)
            except StoreUnavailable as error:
                log.warning("journal_unavailable", error=str(error))
                await self._clock.sleep(STORE_RETRY_S)
