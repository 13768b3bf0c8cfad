"""Clauses of processes that know of each other: how many they are, and which of them end."""

from __future__ import annotations

from functools import partial

from clawbot.ports import Store
from clawbot.store import draining, processes
from clawbot.store.draining import DRAINS
from tests.contracts.store import scenes
from tests.contracts.store.fences import LEASE_MS, beat
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import DESK


async def count(store: Store, role: str) -> int:
    """How many live of a role."""
    return await store.read(partial(processes.count, role=role, lease_ms=LEASE_MS))


class PeerClauses:
    """What processes are told of the others."""

    async def test_the_living_of_a_role_are_counted(self, ground: Ground) -> None:
        store = await ground.open("one")
        await beat(store, "first", age_ms=0)
        await beat(store, "second", age_ms=LEASE_MS - 5000)
        await beat(store, "silent", age_ms=LEASE_MS + 5000)
        await store.write(lambda tx: processes.beat(tx, "front", "adapter desk"))
        assert await count(store, "worker") == 2
        assert await count(store, "adapter desk") == 1
        await store.write(lambda tx: processes.release(tx, "first"))
        assert await count(store, "worker") == 1

    async def test_who_answers_a_channel_and_drains_is_known(self, ground: Ground) -> None:
        store = await ground.open("one")
        running = partial(draining.running, channel=DESK)
        for worker in ("one", "two", "idle"):
            await beat(store, worker, age_ms=0)
        await scenes.accept(store, scenes.said("m1", chat_id="C1"))
        (turn,) = await scenes.claim(store, "one")
        await scenes.accept(store, scenes.said("m2", chat_id="C2"))
        await scenes.claim(store, "two")
        assert await store.read(running) == (2, 0)
        for worker in ("one", "idle"):
            say = partial(processes.beat, process_id=worker, role="worker", facts=DRAINS)
            await store.write(say)
        assert await store.read(running) == (2, 1)
        assert await store.read(partial(draining.running, channel="other")) == (0, 0)
        await scenes.finish(store, turn)
        assert await store.read(running) == (1, 0)
