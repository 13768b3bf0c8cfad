"""Clauses of `stops`: nothing that came before a stop goes on, all that comes after it runs."""

from __future__ import annotations

import asyncio

import pytest

from clawbot.errors import LeaseLost, TurnStopped
from clawbot.ports import Store
from clawbot.store import processes, sessions
from clawbot.store.stops import Stopped
from tests.contracts.store import scenes
from tests.contracts.store.fences import ACTS, give_back
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import KEY, said


async def runs(store: Store, text: str) -> None:
    """A message is answered as usual."""
    await scenes.accept(store, said(f"after-{text}", text))
    (turn,) = await scenes.claim(store, "after")
    assert [row.text for row in turn.rows] == [text]
    await scenes.record(store, turn, "a step")
    await scenes.finish(store, turn, f"answer to {text}")


class StopClauses:
    """What a person who says stop may rely on."""

    async def test_a_stop_withdraws_what_waits(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.accept(store, said("m1", is_incomplete=True))
        await scenes.accept(store, said("m2"))
        await scenes.accept(store, said("elsewhere", chat_id="C2"))
        stopped = await scenes.stop(store)
        assert (stopped.had_turn, stopped.withdrawn) == (False, 2)
        assert await scenes.column(store, "inbox.state") == ["done", "done", "queued"]
        assert await scenes.column(store, "inbox.reason") == ["stopped", "stopped", ""]
        assert [turn.rows[0].chat_id for turn in await scenes.claim(store)] == ["C2"]

    async def test_a_running_turn_hears_of_its_stop_at_its_next_write(self, ground: Ground) -> None:
        store, other = await ground.open("one"), await ground.open("two")
        turn = await scenes.begin(store)
        stopped = await scenes.stop(other)
        assert stopped.had_turn
        marks = await store.read(lambda tx: sessions.stop_marks(tx, [str(KEY)]))
        assert turn.first_seq <= marks[str(KEY)][0]
        before = await store.read(scenes.everything)
        for name in ("record", "draft", "finish"):
            with pytest.raises(TurnStopped):
                await ACTS[name](store, turn)
        assert await store.read(scenes.everything) == before
        await scenes.finish(store, turn, None, "stopped")
        assert await scenes.column(store, "turns.state") == ["stopped"]
        assert await scenes.column(store, "inbox.state") == ["done"]

    async def test_a_turn_without_an_owner_is_ended_by_the_stop(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.accept(store, said("m0", "one"))
        turn = await scenes.begin(store, "two")
        assert len(turn.rows) == 2
        await scenes.draft(store, turn, "half")
        await store.write(lambda tx: processes.release(tx, "worker"))
        stopped = await scenes.stop(store)
        assert stopped.had_turn
        assert await scenes.column(store, "turns.state") == ["stopped"]
        assert await scenes.column(store, "inbox.state") == ["done", "done"]
        assert await scenes.column(store, "outbox.text") == ["half"]
        assert await scenes.column(store, "outbox.state") == ["pending"]
        assert await scenes.claim(store) == []
        with pytest.raises(LeaseLost):
            await scenes.record(store, turn)

    async def test_a_parked_turn_is_ended_by_the_stop(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.ask(store, turn)
        await scenes.park(store, turn)
        await scenes.accept(store, said("m2"))
        assert await scenes.claim(store) == []
        stopped = await scenes.stop(store)
        assert (stopped.had_turn, stopped.withdrawn) == (True, 1)
        assert await scenes.column(store, "turns.state") == ["stopped"]
        assert await scenes.column(store, "approvals.state") == ["cancelled"]
        with pytest.raises(LeaseLost):
            await scenes.finish(store, turn)
        await runs(store, "next")

    async def test_a_stopped_turn_whose_worker_died_does_not_go_on(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.begin(store)
        await scenes.stop(store)
        await store.write(lambda tx: processes.release(tx, "worker"))
        (turn,) = await scenes.claim(store, "heir")
        with pytest.raises(TurnStopped):
            await scenes.record(store, turn)
        await scenes.finish(store, turn, None, "stopped")
        assert await scenes.claim(store) == []

    async def test_a_message_after_the_stop_runs(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.stop(store)
        await scenes.accept(store, said("m2", "next"))
        assert await scenes.claim(store) == []  # the stopped turn has not ended yet
        await scenes.finish(store, turn, None, "stopped")
        (following,) = await scenes.claim(store)
        await scenes.record(store, following)
        await scenes.finish(store, following)
        await scenes.stop(store)
        await runs(store, "last")

    async def test_stopping_twice_is_stopping_once(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.accept(store, said("m2"))
        await give_back(store, turn)
        assert await self._found(store) == (True, 1)
        assert await self._found(store) == (False, 0)
        await runs(store, "next")

    async def test_concurrent_stops_end_a_turn_once(self, ground: Ground) -> None:
        stores = [await ground.open("one"), await ground.open("two")]
        turn = await scenes.begin(stores[0])
        await give_back(stores[0], turn)
        await scenes.accept(stores[0], said("m2"))
        found: list[Stopped] = await asyncio.gather(*(scenes.stop(one) for one in stores * 3))
        assert sum(stopped.had_turn for stopped in found) == 1
        assert sum(stopped.withdrawn for stopped in found) == 1
        assert len({stopped.seq for stopped in found}) == len(found)
        await runs(stores[1], "next")

    async def test_a_stop_after_the_end_finds_nothing(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.finish(store, await scenes.begin(store), "an answer")
        before = await scenes.column(store, "outbox.state")
        assert await self._found(store) == (False, 0)
        assert await scenes.column(store, "turns.state") == ["done"]
        assert await scenes.column(store, "outbox.state") == before

    async def test_a_new_conversation_begins_empty_and_the_old_one_ends_in_its_own(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store, "old question")
        stopped = await scenes.stop(store, new_epoch=True)
        assert stopped.epoch == turn.epoch + 1
        await scenes.finish(store, turn, "cut short", "stopped")
        await runs(store, "new question")
        fresh = ["new question", "a step", "answer to new question"]
        assert await scenes.history_of(store, KEY, stopped.epoch) == fresh
        assert await scenes.history_of(store, KEY, turn.epoch) == ["old question", "cut short"]

    @staticmethod
    async def _found(store: Store) -> tuple[bool, int]:
        stopped = await scenes.stop(store)
        return stopped.had_turn, stopped.withdrawn
