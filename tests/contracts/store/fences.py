"""Clauses of the fence and the leases: whoever lost a session writes nothing more for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import update

from clawbot.errors import LeaseLost
from clawbot.ports import Store, Transaction
from clawbot.store import claims, processes, schema
from clawbot.store.claims import Claim
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import NOW_MS

Act = Callable[[Store, Claim], Awaitable[object]]

LEASE_MS = 15_000


async def give_back(store: Store, turn: Claim) -> None:
    """End a worker's hold cleanly."""
    await store.write(lambda tx: claims.give_back(tx, turn, NOW_MS))


ACTS: dict[str, Act] = {
    "record": scenes.record,
    "draft": scenes.draft,
    "finish": scenes.finish,
    "give_back": give_back,
}


async def beat(store: Store, process_id: str, *, age_ms: int) -> None:
    """A process whose last heartbeat was some time ago."""

    def unit(tx: Transaction) -> None:
        processes.beat(tx, process_id, "worker")
        tx.conn.execute(
            update(schema.processes)
            .where(schema.processes.c.id == process_id)
            .values(heartbeat_ms=schema.processes.c.heartbeat_ms - age_ms)
        )

    await store.write(unit)


class FenceClauses:
    """What keeps two workers apart."""

    async def test_a_stale_worker_writes_nothing(self, ground: Ground) -> None:
        mine, other = await ground.open("one"), await ground.open("two")
        stale = await scenes.begin(mine)
        await other.write(lambda tx: processes.release(tx, "worker"))
        (turn,) = await scenes.claim(other, "other")
        before = await other.read(scenes.everything)
        for act in ACTS.values():
            with pytest.raises(LeaseLost):
                await act(mine, stale)
        assert await other.read(scenes.everything) == before
        await scenes.finish(other, turn)

    async def test_a_process_is_released_under_each_name_that_it_had(self, ground: Ground) -> None:
        store = await ground.open("one")
        for owner in ("worker", "worker.1", "worker_1", "worker.2"):
            await beat(store, owner, age_ms=0)
            await scenes.accept(store, scenes.said(f"for-{owner}", chat_id=f"C-{owner}"))
            assert len(await scenes.claim(store, owner)) == 1
        await store.write(lambda tx: processes.release(tx, "worker"))
        assert [row.id for row in await store.read(processes.live)] == ["worker_1"]
        assert len(await scenes.claim(store, "other")) == 3

    async def test_a_worker_that_gave_its_turn_back_writes_nothing(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await give_back(store, turn)
        before = await store.read(scenes.everything)
        for act in ACTS.values():
            with pytest.raises(LeaseLost):
                await act(store, turn)
        assert await store.read(scenes.everything) == before

    async def test_a_finished_turn_is_not_finished_again(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.finish(store, turn)
        before = await store.read(scenes.everything)
        for act in ACTS.values():  # its own worker may not have heard of the commit
            with pytest.raises(LeaseLost):
                await act(store, turn)
        assert await store.read(scenes.everything) == before
        following = await scenes.begin(store, "second")
        for act in ACTS.values():
            with pytest.raises(LeaseLost):
                await act(store, turn)
        await scenes.finish(store, following)

    async def test_the_silent_are_reaped_and_the_living_are_not(self, ground: Ground) -> None:
        store = await ground.open("one")
        await beat(store, "silent", age_ms=LEASE_MS + 5000)
        await beat(store, "living", age_ms=LEASE_MS - 5000)
        await scenes.accept(store, scenes.said("m1", chat_id="C1"))
        (lost,) = await scenes.claim(store, "silent")
        await scenes.accept(store, scenes.said("m2", chat_id="C2"))
        (kept,) = await scenes.claim(store, "living")
        assert await store.write(lambda tx: processes.reap(tx, LEASE_MS)) == ["silent"]
        assert await store.write(lambda tx: processes.reap(tx, LEASE_MS)) == []
        (resumed,) = await scenes.claim(store, "heir")
        assert (resumed.turn_id, resumed.attempt) == (lost.turn_id, 1)
        await scenes.record(store, kept)
        with pytest.raises(LeaseLost):
            await scenes.record(store, lost)
        assert await scenes.column(store, "processes.id") == ["living"]

    async def test_a_beat_keeps_a_process_alive(self, ground: Ground) -> None:
        store = await ground.open("one")
        await beat(store, "worker", age_ms=LEASE_MS + 5000)
        await store.write(lambda tx: processes.beat(tx, "worker", "worker"))
        assert await store.write(lambda tx: processes.reap(tx, LEASE_MS)) == []
