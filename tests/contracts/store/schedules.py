"""Clauses of `schedules`: what is planned begins once, in its session, whoever is there then."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from clawbot.messages import ChatType, ReplyRoute, Sender
from clawbot.ports import Store, Transaction
from clawbot.schedules import When, every
from clawbot.store import schedules
from clawbot.store.deletion import delete_session
from clawbot.store.schedules import Planned, Schedule, TooMany
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import DESK, KEY, NOW_MS

STEP_S = 600
STEP_MS = STEP_S * 1000


def planned(text: str = "look", **changes: object) -> Schedule:
    """What somebody plans in the session of the scenes."""
    values: dict[str, object] = {
        "session": KEY,
        "channel": DESK,
        "chat_id": "C1",
        "chat_type": ChatType.DM,
        "sender": Sender(id="U1"),
        "text": text,
        "when": every(STEP_S),
        "route": ReplyRoute(chat_id="C1"),
    }
    return Schedule(**values | changes)  # type: ignore[arg-type]


async def plan(store: Store, schedule: Schedule) -> Planned:
    """Plan it."""
    return await store.write(lambda tx: schedules.add(tx, schedule, NOW_MS))


async def fire(store: Store, now_ms: int) -> list[str]:
    """Begin what is due."""
    return await store.write(partial(schedules.fire, now_ms=now_ms))


async def times(store: Store) -> list[int]:
    """When what is planned is due next."""
    return [one.next_ms for one in await store.read(lambda tx: schedules.listing(tx, KEY))]


class ScheduleClauses:
    """What people may rely on who plan something."""

    async def test_what_is_due_becomes_a_message_of_its_session(self, ground: Ground) -> None:
        store = await ground.open("one")
        made = await plan(store, planned("look at it"))
        assert await fire(store, NOW_MS + STEP_MS - 1) == []
        assert await fire(store, NOW_MS + STEP_MS) == [made.id]
        (turn,) = await scenes.claim(store, now_ms=NOW_MS + STEP_MS)
        assert turn.session == KEY
        (row,) = turn.rows
        assert (row.text, row.sender.id, row.reason) == ("look at it", "U1", schedules.ON_TIME)
        assert row.route == ReplyRoute(chat_id="C1")
        assert await times(store) == [NOW_MS + 2 * STEP_MS]

    async def test_several_processes_begin_it_once(self, ground: Ground) -> None:
        stores = [await ground.open(name) for name in ("one", "two", "three")]
        for number in range(10):
            await plan(stores[0], planned(f"m{number}"))
        begun = await asyncio.gather(
            *(fire(store, NOW_MS + STEP_MS) for store in stores for _ in range(3))
        )
        assert len([one for some in begun for one in some]) == 10
        assert sorted(await scenes.column(stores[0], "inbox.text")) == sorted(
            f"m{number}" for number in range(10)
        )

    async def test_times_that_passed_unseen_count_as_one(self, ground: Ground) -> None:
        store = await ground.open("one")
        await plan(store, planned())
        assert len(await fire(store, NOW_MS + 5 * STEP_MS + 1)) == 1
        assert await fire(store, NOW_MS + 5 * STEP_MS + 1) == []
        assert await times(store) == [NOW_MS + 6 * STEP_MS]
        assert await scenes.column(store, "inbox.is_late") == [True]

    async def test_a_single_time_is_over_when_it_has_come(self, ground: Ground) -> None:
        store = await ground.open("one")
        once = When(kind="once", spec=str(NOW_MS + 5), zone="UTC")
        await plan(store, planned(when=once))
        assert len(await fire(store, NOW_MS + 5)) == 1
        assert await times(store) == []

    async def test_what_is_cancelled_does_not_begin(self, ground: Ground) -> None:
        store = await ground.open("one")
        made, other = await plan(store, planned()), await plan(store, planned("other"))
        cancel = partial(schedules.cancel, schedule_id=made.id)
        assert not await store.write(lambda tx: cancel(tx, base=KEY.with_task(None).of_global()))
        assert await store.write(lambda tx: cancel(tx, base=KEY))
        assert not await store.write(lambda tx: cancel(tx, base=KEY))
        assert await fire(store, NOW_MS + STEP_MS) == [other.id]

    async def test_what_belongs_to_a_deleted_session_goes_with_it(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.begin(store)
        await plan(store, planned())
        await store.write(lambda tx: delete_session(tx, KEY, NOW_MS))
        assert await fire(store, NOW_MS + STEP_MS) == []

    async def test_a_chat_has_only_so_many_plans(self, ground: Ground) -> None:
        store = await ground.open("one")

        def fill(tx: Transaction) -> None:
            for _ in range(schedules.MOST_PER_CHAT):
                schedules.add(tx, planned(), NOW_MS)

        await store.write(fill)
        with pytest.raises(TooMany):
            await plan(store, planned())

    async def test_what_the_config_plans_follows_it_and_keeps_its_time(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await plan(store, planned("of a person"))

        async def sync(now_ms: int, **texts: str) -> None:
            wanted = {name: planned(text, name=name) for name, text in texts.items()}
            await store.write(lambda tx: schedules.sync(tx, wanted, now_ms))

        await sync(NOW_MS, a="one", b="two")
        await sync(NOW_MS + STEP_MS // 2, a="one", c="three")
        found = await store.read(lambda tx: schedules.listing(tx, KEY))
        assert {one.text: one.next_ms - NOW_MS for one in found} == {
            "of a person": STEP_MS,
            "one": STEP_MS,
            "three": STEP_MS * 3 // 2,
        }
