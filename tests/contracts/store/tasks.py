"""Clauses of `task_runs`: a task ends in one report to its conversation, or with it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from clawbot.errors import LeaseLost, TurnStopped
from clawbot.ports import Store, Transaction
from clawbot.store import stops, task_runs, turns
from clawbot.store.claims import Claim
from clawbot.store.inbox import REPORTED
from clawbot.store.schema import inbox
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import KEY, NOW_MS

HOW = ("queued", "running", "parked")
TASK = KEY.with_task("t1")


async def start_task(store: Store, turn: Claim, task_id: str = "t1") -> None:
    """Let a turn begin a task, with the record of the call that does so."""

    def unit(tx: Transaction) -> None:
        turns.record(tx, turn, [], NOW_MS)
        task_runs.start(
            *(tx, turn),
            task_id=task_id,
            title=f"Title of {task_id}",
            text=f"do {task_id}",
            work_dirs=(),
            now_ms=NOW_MS,
        )

    await store.write(unit)


async def begin_task(store: Store) -> Claim:
    """A task that runs beside a conversation in which nothing does."""
    of_task = await task_that(store, "running", "t1")
    assert of_task is not None
    return of_task


async def task_that(store: Store, how: str, task_id: str) -> Claim | None:
    """A task that is queued, running or parked; the claim of one that runs."""
    turn = await scenes.begin(store, task_id)
    await start_task(store, turn, task_id)
    await scenes.finish(store, turn)
    if how == "queued":
        return None
    (of_task,) = await scenes.claim(store)
    if how == "running":
        return of_task
    await scenes.ask(store, of_task, f"a-{task_id}")
    await scenes.park(store, of_task)
    return None


async def reports(store: Store) -> list[str]:
    """The reports that wait in the conversation."""
    found = await scenes.column(store, "inbox.text", inbox.c.identity.startswith("task_report:"))
    return [str(text) for text in found]


class TaskClauses:
    """What a conversation may rely on that begins tasks."""

    async def test_a_task_begins_a_turn_of_its_own_session(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await start_task(store, turn)
        (of_task,) = await scenes.claim(store)
        assert of_task.session == TASK
        (row,) = of_task.rows
        assert (row.text, row.sender.id, row.route) == ("do t1", "U1", turn.route)
        assert of_task.payer == turn.payer

    async def test_its_answer_becomes_one_report_and_no_reply(self, ground: Ground) -> None:
        store = await ground.open("one")
        of_task = await begin_task(store)
        await scenes.draft(store, of_task)
        await scenes.finish(store, of_task, "found it")
        with suppress(LeaseLost):  # its commit went unheard, and it is written again
            await scenes.finish(store, of_task, "found it")
        (text,) = await reports(store)
        assert "(Title of t1) is done" in text
        assert text.endswith("found it")
        (turn,) = await scenes.claim(store)
        assert turn.session == KEY
        assert [row.reason for row in turn.rows] == [REPORTED]
        assert await scenes.column(store, "outbox.text") == ["done"]
        assert await store.read(lambda tx: task_runs.open_of(tx, KEY)) == []

    async def test_a_report_waits_behind_what_runs_and_is_answered_alone(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        of_task = await begin_task(store)
        turn = await scenes.begin(store, "more")
        await scenes.accept(store, scenes.said("before"))
        await scenes.finish(store, of_task, "found it")
        await scenes.accept(store, scenes.said("after"))
        assert await scenes.claim(store) == []
        assert await scenes.join(store, turn) == ["hello"]
        await scenes.finish(store, turn)
        for wanted in (REPORTED, ""):
            (turn,) = await scenes.claim(store)
            assert [row.reason for row in turn.rows] == [wanted]
            await scenes.finish(store, turn)

    async def test_a_stopped_conversation_is_not_waken_by_its_tasks(self, ground: Ground) -> None:
        store = await ground.open("one")
        for what in ("conversation", "everything", "epoch"):
            for how in HOW:
                of_task = await task_that(store, how, f"{how}-{what}")
                if what == "everything":
                    await store.write(lambda tx: stops.stop_all(tx, NOW_MS))
                else:
                    await scenes.stop(store, new_epoch=what == "epoch")
                if of_task is not None:
                    with pytest.raises(TurnStopped):
                        await scenes.finish(store, of_task, "found it")
                    await scenes.finish(store, of_task, None, state="stopped")
                assert await reports(store) == []
                assert await scenes.claim(store) == []
                assert await store.read(lambda tx: task_runs.open_of(tx, KEY)) == []
        told = [text for text in await scenes.history_of(store, KEY) if "was stopped" in text]
        assert len(told) == 6  # of a new conversation nothing

    async def test_a_task_that_is_stopped_alone_is_reported(self, ground: Ground) -> None:
        store = await ground.open("one")
        for number, how in enumerate(HOW, 1):
            of_task = await task_that(store, how, how)
            await scenes.stop(store, KEY.with_task(how))
            if of_task is not None:
                await scenes.finish(store, of_task, None, state="stopped")
            texts = await reports(store)
            assert len(texts) == number
            assert "was stopped by a person" in texts[-1]
            (turn,) = await scenes.claim(store)
            assert turn.session == KEY
            await scenes.finish(store, turn)

    async def test_ends_and_stops_at_the_same_time_leave_each_task_reported_or_stopped(
        self, ground: Ground
    ) -> None:
        stores = [await ground.open(name) for name in ("one", "two", "three")]
        turn = await scenes.begin(stores[0])
        for number in range(12):
            await start_task(stores[0], turn, f"t{number}")
        await scenes.finish(stores[0], turn)
        of_tasks = await scenes.claim(stores[0], limit=20)
        assert len(of_tasks) == 12

        async def end(number: int, of_task: Claim) -> None:
            store = stores[number % 3]
            if number == 6:
                await scenes.stop(store)
            try:
                await scenes.finish(store, of_task, "found it")
            except TurnStopped:
                await scenes.finish(store, of_task, None, state="stopped")

        await asyncio.gather(*(end(number, one) for number, one in enumerate(of_tasks)))
        told = await scenes.history_of(stores[0], KEY)
        ended = [text for text in (*told, *await reports(stores[0])) if "(Title of t" in text]
        assert len(ended) == len(set(ended)) == 12
