"""Clauses of `Store.listen`: a ring saves waiting, and that is all it does."""

from __future__ import annotations

import threading

import pytest

from clawbot.ports import Store, Transaction
from tests.contracts.store.ground import Ground, child
from tests.contracts.store.writes import ask, names, one_batch, put


async def ring(store: Store, topic: str = "door", *, fails: bool = False) -> None:
    """Write a row and ring."""

    def unit(tx: Transaction) -> None:
        put(f"{topic}-{fails}")(tx)
        tx.ring(topic)
        if fails:
            raise LookupError

    if fails:
        with pytest.raises(LookupError):
            await store.write(unit)
    else:
        await store.write(unit)


class BellClauses:
    """What a listener may rely on."""

    async def test_a_ring_wakes_a_listener_of_another_store_after_the_commit(
        self, ground: Ground
    ) -> None:
        mine, other = await ground.open("one"), await ground.open("two")
        ear, woken = other.listen(["door"]), threading.Event()

        async def look_when_woken() -> list[str]:
            assert await ear.wait(ground.patience_s)
            found = await names(other)
            woken.set()
            return found

        async with one_batch(mine, ground.patience_s) as batch:
            looking = ask(look_when_woken())
            batch += [looking, ask(ring(mine))]
            # The commit comes after this unit: time enough to be woken too early.
            batch.append(ask(mine.write(lambda _tx: woken.wait(0.5))))
        assert looking.result() == ["door-False"]

    async def test_a_ring_wakes_a_listener_in_another_process(self, ground: Ground) -> None:
        store = await ground.open("parent")
        async with child("listen", ground) as listener:
            listener.tell()
            assert await listener.line() == "listening"
            await ring(store)
            assert await listener.line() == "rung"

    async def test_a_ring_before_the_wait_is_heard_and_only_once(self, ground: Ground) -> None:
        mine, other = await ground.open("one"), await ground.open("two")
        ear, witness = other.listen(["door"]), other.listen(["door"])
        await ring(mine)
        assert await witness.wait(ground.patience_s)
        assert await ear.wait(0)
        assert not await ear.wait(0)

    async def test_other_topics_and_failed_units_ring_nobody(self, ground: Ground) -> None:
        mine, other = await ground.open("one"), await ground.open("two")
        ear, last = other.listen(["door"]), other.listen(["last"])
        await ring(mine, "window")
        await ring(mine, "door", fails=True)
        await ring(mine, "last")
        assert await last.wait(ground.patience_s)
        assert not await ear.wait(0)

    async def test_a_closed_ear_hears_no_more(self, ground: Ground) -> None:
        mine, other = await ground.open("one"), await ground.open("two")
        ear, witness = other.listen(["door"]), other.listen(["door"])
        ear.close()
        await ring(mine)
        assert await witness.wait(ground.patience_s)
        assert not await ear.wait(0)

    async def test_a_lost_ring_costs_nothing_but_time(self, ground: Ground) -> None:
        mine, other = await ground.open("one"), await ground.open("two")
        ear = other.listen(["door"])
        ground.lose_bells()
        await ring(mine)
        assert not await ear.wait(0.05)
        assert await names(other) == ["door-False"]
