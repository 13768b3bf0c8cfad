"""Clauses of `costs`: each model call is counted once, with the step that it came to."""

from __future__ import annotations

from functools import partial

from clawbot.errors import LeaseLost, TurnStopped
from clawbot.history import Entry, EntryKind, Spent, Usage
from clawbot.session_key import SessionKey
from clawbot.store import costs, deletion, processes, turns
from clawbot.store.costs import HOUR_MS, Payer, Total
from clawbot.store.turns import Outcome
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import KEY, NOW_MS

CALL = Usage(
    input_tokens=100,
    output_tokens=20,
    cached_tokens=40,
    cache_written_tokens=5,
    model="maker:big",
    cost_nanos=3_000_000_000,
)
STEP = Entry(kind=EntryKind.ASSISTANT, text="a step", usage=CALL)
ONE = Total(
    calls=1,
    input_tokens=100,
    output_tokens=20,
    cached_tokens=40,
    cache_written_tokens=5,
    cost_nanos=3_000_000_000,
)


def times(count: int) -> Total:
    """What so many of the calls come to."""
    return Total(**{name: getattr(ONE, name) * count for name in ONE.__slots__})


class CostClauses:
    """What budgets and the lists of costs may rely on."""

    async def test_calls_are_counted_with_the_steps_that_they_came_to(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await store.write(lambda tx: turns.record(tx, turn, [STEP], NOW_MS))
        assert await store.read(costs.total) == ONE
        outcome = Outcome(state="done", entries=(STEP,), reply="a step")
        await store.write(lambda tx: turns.finish(tx, turn, outcome, NOW_MS))
        assert await store.read(costs.total) == times(2)
        assert await store.read(lambda tx: costs.by(tx, "user_key")) == [("desk:U1", times(2))]
        assert await store.read(lambda tx: costs.by(tx, "model")) == [("maker:big", times(2))]

    async def test_what_may_not_be_recorded_is_not_counted(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await store.write(lambda tx: processes.release(tx, "worker"))
        await scenes.claim(store, "other")
        for _ in range(2):
            try:
                await store.write(lambda tx: turns.record(tx, turn, [STEP], NOW_MS))
            except LeaseLost:
                continue
            raise AssertionError("a stale worker wrote")
        assert await store.read(costs.total) == Total()

    async def test_a_stopped_turn_pays_for_what_came_to_nothing(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.stop(store)
        try:
            await store.write(lambda tx: turns.record(tx, turn, [STEP], NOW_MS))
        except TurnStopped:
            outcome = Outcome(state="stopped", lost=(Spent(usage=CALL, has_failed=True),))
            await store.write(lambda tx: turns.finish(tx, turn, outcome, NOW_MS))
        found = await store.read(costs.total)
        assert (found.calls, found.failed, found.cost_nanos) == (1, 1, ONE.cost_nanos)

    async def test_a_parked_turn_pays_for_what_came_to_nothing(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await store.write(
            lambda tx: turns.park(tx, turn, "", Usage(), NOW_MS, lost=[Spent(usage=CALL)])
        )
        assert await store.read(costs.total) == ONE

    async def test_an_unknown_price_is_never_nothing(self, ground: Ground) -> None:
        store = await ground.open("one")
        payer = Payer(session=KEY, epoch=0, user="desk:U1")
        unknown = Spent(usage=Usage(input_tokens=7, model="own:small"))
        free = Spent(usage=Usage(input_tokens=7, model="own:free", cost_nanos=0))
        await store.write(
            lambda tx: costs.add(tx, payer, [unknown, free, Spent(usage=CALL)], NOW_MS)
        )
        found = await store.read(costs.total)
        assert (found.calls, found.unpriced, found.cost_nanos) == (3, 1, ONE.cost_nanos)
        by_model = dict(await store.read(lambda tx: costs.by(tx, "model")))
        assert [by_model[name].unpriced for name in ("own:small", "own:free")] == [1, 0]

    async def test_sums_are_of_the_session_the_person_and_the_time_that_are_asked_for(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        other = SessionKey.of_chat("desk", "C2")
        hour = NOW_MS // HOUR_MS
        for session, epoch, user, ago in (
            (KEY, 0, "desk:U1", 0),
            (KEY, 1, "desk:U1", 0),
            (KEY, 1, "desk:U2", 5),
            (other, 0, "desk:U1", 30),
        ):
            payer = Payer(session=session, epoch=epoch, user=user)
            at_ms = NOW_MS - ago * HOUR_MS
            spent = [Spent(usage=CALL)]
            await store.write(partial(costs.add, payer=payer, spent=spent, now_ms=at_ms))

        async def calls(**of: object) -> int:
            return (await store.read(lambda tx: costs.total(tx, **of))).calls  # type: ignore[arg-type]

        assert await calls() == 4
        assert await calls(session=KEY) == 3
        assert await calls(session=KEY, epoch=1) == 2
        assert await calls(user="desk:U1") == 3
        assert await calls(user="desk:U1", since_hour=hour) == 2
        assert await calls(since_hour=hour - 5) == 3
        assert await store.write(lambda tx: costs.forget(tx, NOW_MS - 10 * HOUR_MS)) == 1
        assert await calls() == 3

    async def test_what_was_spent_outlives_its_session(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await store.write(lambda tx: turns.record(tx, turn, [STEP], NOW_MS))
        await store.write(lambda tx: deletion.delete_session(tx, KEY, NOW_MS))
        assert await store.read(costs.total) == ONE
