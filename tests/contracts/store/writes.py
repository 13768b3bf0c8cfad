"""Clauses of `Store.write`, `read` and `close`: durable, atomic, grouped, in order, isolated."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from sqlalchemy import func, select, update

from clawbot.errors import StoreUnavailable
from clawbot.ports import Store, Transaction, Unit
from clawbot.store.schema import aliases
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground, child


def put(name: str) -> Unit[str]:
    """A unit that stores one row."""

    def unit(tx: Transaction) -> str:
        tx.conn.execute(
            tx.insert(aliases).values(
                channel="c", chat_id="c", thread=name, session_key="global", at_ms=0
            )
        )
        return name

    return unit


def count(tx: Transaction) -> int:
    """How many rows there are."""
    return tx.conn.execute(select(func.count()).select_from(aliases)).scalar_one()


async def names(store: Store) -> list[str]:
    """The rows that are there."""
    return await scenes.column(store, "aliases.thread")


@asynccontextmanager
async def one_batch(store: Store, patience_s: float) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Keep the store busy while the block asks for writes, so that they wait together; then let
    them run, and wait for all that the block put into the list.
    """
    busy, go_on = threading.Event(), threading.Event()

    def hold(_tx: Transaction) -> None:
        busy.set()
        go_on.wait(patience_s)

    holding = asyncio.create_task(store.write(hold))
    tasks = [holding]
    try:
        assert await asyncio.to_thread(busy.wait, patience_s)
        yield tasks
        await asyncio.sleep(0)  # each task asks for its write
    finally:
        go_on.set()
    await settled(tasks, patience_s)


async def settled(tasks: list[asyncio.Task[Any]], patience_s: float) -> list[Any]:
    """The results and exceptions of the tasks. Raise TimeoutError when one never ends."""
    async with asyncio.timeout(patience_s):
        return await asyncio.gather(*tasks, return_exceptions=True)


def ask(coroutine: Awaitable[Any]) -> asyncio.Task[Any]:
    """Begin a write."""
    return asyncio.ensure_future(coroutine)


class WriteClauses:
    """What a caller may rely on."""

    async def test_a_write_is_there_for_everybody_when_it_returns(self, ground: Ground) -> None:
        mine, other = await ground.open("one"), await ground.open("two")
        assert await mine.write(put("row")) == "row"
        assert await names(other) == ["row"]
        assert await names(await ground.open("late")) == ["row"]

    async def test_what_was_written_outlives_a_killed_process(self, ground: Ground) -> None:
        store = await ground.open("parent")
        async with child("write", ground) as writer:
            writer.tell()
            told = [await writer.line() for _ in range(25)]
            await writer.kill()
        assert set(told) <= await scenes.texts_taken(store)

    async def test_a_unit_that_raises_leaves_nothing_and_its_neighbours_stay(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")

        def fail(tx: Transaction) -> None:
            put("half")(tx)
            raise LookupError("the unit's own")

        async with one_batch(store, ground.patience_s) as batch:
            units = (put("before"), fail, put("between"), fail, fail, put("after"))
            batch += [ask(store.write(unit)) for unit in units]
        assert all(isinstance(batch[place].exception(), LookupError) for place in (2, 4, 5))
        assert [batch[place].result() for place in (1, 3, 6)] == ["before", "between", "after"]
        assert await names(store) == ["after", "before", "between"]

    async def test_a_burst_needs_few_commits(self, ground: Ground) -> None:
        store = await ground.open("one")
        await store.write(put("warm"))
        commits = ground.count_commits(store)
        async with one_batch(store, ground.patience_s) as batch:
            batch += [ask(store.write(put(f"{number}"))) for number in range(200)]
        assert await store.read(count) == 201
        assert commits() < 20

    async def test_units_run_in_the_order_in_which_they_were_asked_for(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        order: list[int] = []

        def unit(number: int, _tx: Transaction) -> None:
            order.append(number)

        async with one_batch(store, ground.patience_s) as batch:
            batch += [ask(store.write(partial(unit, number))) for number in range(600)]
        assert order == list(range(600))

    async def test_a_failure_that_ends_the_transaction_spares_its_neighbours(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        for number, ending in enumerate(ground.endings()):
            before, after = f"{number}-before", f"{number}-after"
            async with one_batch(store, ground.patience_s) as batch:
                batch += [ask(store.write(unit)) for unit in (put(before), ending, put(after))]
            assert [batch[1].exception(), batch[3].exception()] == [None, None]
            assert isinstance(batch[2].exception(), StoreUnavailable)
            assert {before, after} <= set(await names(store))

    async def test_what_cannot_be_written_is_said_and_can_be_written_later(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await store.write(put("first"))
        with ground.unwritable():
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    await store.write(put("lost"))
        assert await store.write(put("later")) == "later"
        assert await names(store) == ["first", "later"]

    async def test_a_cancelled_caller_hurts_nobody_else(self, ground: Ground) -> None:
        store = await ground.open("one")
        async with one_batch(store, ground.patience_s) as batch:
            leaving = ask(store.write(put("left")))
            batch += [leaving, ask(store.write(put("stays")))]
            await asyncio.sleep(0)
            leaving.cancel()
        assert leaving.cancelled()
        assert batch[2].result() == "stays"
        async with asyncio.timeout(ground.patience_s):
            assert await store.write(put("next")) == "next"

    async def test_a_read_sees_one_snapshot(self, ground: Ground) -> None:
        store, other = await ground.open("one"), await ground.open("two")
        looked, look_again = threading.Event(), threading.Event()

        def look_twice(tx: Transaction) -> tuple[int, int]:
            first = count(tx)
            looked.set()
            look_again.wait(ground.patience_s)
            return first, count(tx)

        looking = ask(store.read(look_twice))
        assert await asyncio.to_thread(looked.wait, ground.patience_s)
        await other.write(put("meanwhile"))
        look_again.set()
        assert await looking == (0, 0)
        assert await store.read(count) == 1

    async def test_two_processes_do_not_overwrite_each_other(self, ground: Ground) -> None:
        stores = [await ground.open("one"), await ground.open("two")]
        await stores[0].write(put("row"))

        def add_one(tx: Transaction) -> None:
            found = tx.conn.execute(select(aliases.c.at_ms)).scalar_one()
            tx.conn.execute(update(aliases).values(at_ms=found + 1))

        writes = [ask(store.write(add_one)) for _ in range(40) for store in stores]
        assert set(await settled(writes, ground.patience_s)) == {None}
        assert await scenes.column(stores[0], "aliases.at_ms") == [80]

    async def test_a_writer_waits_while_another_process_writes(self, ground: Ground) -> None:
        mine, other = await ground.open("one"), await ground.open("two")
        async with one_batch(mine, ground.patience_s) as batch:
            waiting = ask(other.write(put("patient")))
            batch.append(waiting)
            await asyncio.wait([waiting], timeout=0.05)  # time enough to give up, were it impatient
        assert waiting.result() == "patient"

    async def test_closing_commits_what_waits(self, ground: Ground) -> None:
        store, other = await ground.open("one"), await ground.open("two")
        async with one_batch(store, ground.patience_s) as batch:
            batch += [ask(store.write(put(f"{number:03}"))) for number in range(600)]
            await asyncio.sleep(0)
            batch.append(ask(store.close()))
            await asyncio.sleep(0)
        assert [task.exception() for task in batch] == [None] * 602
        assert await other.read(count) == 600
        with pytest.raises(StoreUnavailable):
            await store.write(put("too late"))
        with pytest.raises(StoreUnavailable):
            await store.read(count)
