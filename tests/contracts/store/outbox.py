"""Clauses of `outbox`: replies leave lane by lane, in order, and none is sent twice unknowingly."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import update

from clawbot.errors import LeaseLost
from clawbot.ports import Store, Transaction
from clawbot.store import outbox, schema
from clawbot.store.claims import Claim
from clawbot.store.outbox import OutboxRow
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import DESK, KEY, NOW_MS


async def taken(store: Store, holder: str = "adapter", now_ms: int = NOW_MS) -> list[str]:
    """The texts of the replies that a claim gives."""
    return [row.text for row in await scenes.take_replies(store, holder, now_ms)]


async def put_back(store: Store, row: OutboxRow, *, next_try_ms: int = 0) -> None:
    """Give a reply back whose first part surely was not sent."""
    await store.write(
        lambda tx: outbox.put_back(tx, row, "adapter", next_try_ms=next_try_ms, surely_not_sent=0)
    )


async def begin_part(
    store: Store, row: OutboxRow, holder: str = "adapter", part_no: int = 0
) -> OutboxRow:
    """Say that a part is about to be sent."""
    return await store.write(lambda tx: outbox.begin_part(tx, row, holder, part_no, "a part"))


async def streaming(store: Store) -> tuple[OutboxRow, Claim]:
    """A growing reply in the hands of its adapter, and its turn."""
    turn = await scenes.begin(store)
    await scenes.draft(store, turn, "growing")
    (row,) = await scenes.take_replies(store)
    assert (row.state, row.text) == ("streaming", "growing")
    return row, turn


class OutboxClauses:
    """What adapters' sending halves may rely on."""

    async def test_of_a_crowded_chat_nothing_is_sent_before_another(self, ground: Ground) -> None:
        store = await ground.open("one")
        for number in range(30):
            await scenes.put_reply(store, f"a{number}", thread=f"t{number}")
        await scenes.put_reply(store, "b", chat_id="C2")
        assert [row.text for row in await scenes.take_replies(store, crowded=["C1"])] == ["b"]
        assert len(await scenes.take_replies(store, crowded=["C2"])) == 20

    async def test_a_lane_is_sent_in_order_and_lanes_do_not_wait_for_each_other(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        for text in ("a1", "a2"):
            await scenes.put_reply(store, text)
        await scenes.put_reply(store, "b1", thread="t1")
        await scenes.put_reply(store, "c1", chat_id="C2")
        await scenes.put_reply(store, "elsewhere", channel="other")
        rows = await scenes.take_replies(store)
        assert [row.text for row in rows] == ["a1", "b1", "c1"]
        assert await taken(store) == []
        await scenes.settle(store, await scenes.send(store, rows[0]))
        assert await taken(store) == ["a2"]

    async def test_of_two_claimers_at_once_one_gets_the_head_of_a_lane(
        self, ground: Ground
    ) -> None:
        stores = [await ground.open("one"), await ground.open("two")]
        expected = [f"{number:02}" for number in range(12)]
        for text in expected:
            await scenes.put_reply(stores[0], text)
        sent: list[str] = []

        async def deliver(store: Store, holder: str) -> None:
            while len(sent) < len(expected):
                rows = await scenes.take_replies(store, holder)
                assert len(rows) <= 1
                for row in rows:
                    sent.append(row.text)
                    await scenes.settle(store, await scenes.send(store, row, holder), holder)

        async with asyncio.timeout(ground.patience_s):
            await asyncio.gather(*(deliver(one, f"a{n}") for n, one in enumerate(stores)))
        assert sent == expected

    async def test_a_growing_reply_blocks_its_lane_until_it_stands_there(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        row, _ = await streaming(store)
        await scenes.put_reply(store, "after")
        assert await taken(store) == []
        begun = await begin_part(store, row)
        assert await taken(store) == []
        await scenes.send(store, begun)
        assert await taken(store) == ["after"]

    async def test_a_control_answer_skips_its_lane_and_blocks_nothing(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.put_reply(store, "first")
        await scenes.put_reply(store, "control", skips_lane=True)
        await scenes.put_reply(store, "second")
        first, control = await scenes.take_replies(store)
        assert (first.text, control.text) == ("first", "control")
        await scenes.settle(store, first)
        assert await taken(store) == ["second"]

    async def test_a_reply_that_is_put_aside_blocks_nothing(self, ground: Ground) -> None:
        store = await ground.open("one")
        for state in ("held", "unknown", "dead"):
            await scenes.put_reply(store, "first", chat_id=state)
            await scenes.put_reply(store, f"after {state}", chat_id=state)
            (first,) = await scenes.take_replies(store)
            await scenes.settle(store, first, state=state)
            assert await taken(store) == [f"after {state}"]
        states = await scenes.column(store, "outbox.state")
        assert states == ["held", "sending", "unknown", "sending", "dead", "sending"]

    async def test_a_later_try_comes_at_its_time_and_keeps_its_place(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.put_reply(store, "first")
        await scenes.put_reply(store, "second")
        (first,) = await scenes.take_replies(store)
        await put_back(store, first, next_try_ms=NOW_MS + 1000)
        assert await taken(store, now_ms=NOW_MS + 999) == []
        (again,) = await scenes.take_replies(store, now_ms=NOW_MS + 1000)
        assert (again.text, again.tries) == ("first", 1)
        assert again.parts[0].key == first.parts[0].key

    async def test_a_part_is_begun_under_its_lasting_key_before_it_is_sent(
        self, ground: Ground
    ) -> None:
        mine, other = await ground.open("one"), await ground.open("two")
        await scenes.put_reply(mine, "reply")
        (row,) = await scenes.take_replies(mine)
        assert row.parts[0].state == "sending"
        assert await scenes.column(other, "outbox_parts.state") == ["sending"]
        assert await scenes.column(other, "outbox_parts.key") == [row.parts[0].key]
        await other.write(lambda tx: outbox.release_holder(tx, "adapter"))
        (again,) = await scenes.take_replies(other, "heir")
        begun = await begin_part(other, again, "heir")
        assert begun.parts[0].key == row.parts[0].key

    async def test_keys_are_distinct_and_short(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.put_reply(store, "a")
        await scenes.put_reply(store, "b", chat_id="C2")
        keys = set()
        for row in await scenes.take_replies(store):
            for part_no in (0, 1):
                begun = await begin_part(store, row, part_no=part_no)
                keys.add(begun.parts[part_no].key)
        assert len(keys) == 4
        huge = outbox.part_key(10**12, 999, 10**13)
        assert max(map(len, [*keys, huge])) <= 50

    async def test_what_a_dead_process_was_sending_is_unknown_and_free(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await scenes.put_reply(store, "reply")
        await scenes.put_reply(store, "elsewhere", chat_id="C2")
        row, kept = await scenes.take_replies(store)
        await store.write(lambda tx: outbox.release_holder(tx, "somebody else"))
        assert await taken(store, "heir") == []
        await scenes.settle(store, await scenes.send(store, kept))
        await store.write(lambda tx: outbox.release_holder(tx, "adapter"))
        (again,) = await scenes.take_replies(store, "heir")
        assert (again.id, again.state, again.parts[0].state) == (row.id, "pending", "unknown")
        assert await scenes.column(store, "outbox.state") == ["pending", "sent"]

    async def test_a_holder_that_lost_its_reply_changes_nothing(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.put_reply(store, "reply")
        (row,) = await scenes.take_replies(store)
        await store.write(lambda tx: outbox.release_holder(tx, "adapter"))
        await scenes.take_replies(store, "heir")
        before = await store.read(scenes.everything)
        units = {
            "begin": lambda tx: outbox.begin_part(tx, row, "adapter", 1, "text"),
            "edited": lambda tx: outbox.part_edited(tx, row, "adapter", 0, "text"),
            "unknown": lambda tx: outbox.part_unknown(tx, row, "adapter", 0),
            "settle": lambda tx: outbox.settle(tx, row, "adapter", "sent", NOW_MS),
        }
        for unit in units.values():
            with pytest.raises(LeaseLost):
                await store.write(unit)
        with pytest.raises(LeaseLost):
            await scenes.send(store, row)
        with pytest.raises(LeaseLost):
            await put_back(store, row)
        assert await store.read(scenes.everything) == before

    async def test_a_frozen_reply_never_grows_again(self, ground: Ground) -> None:
        store = await ground.open("one")
        stale, turn = await streaming(store)
        await scenes.finish(store, turn, "final")
        await begin_part(store, stale)
        assert await scenes.column(store, "outbox.state") == ["pending"]
        await put_back(store, stale)
        assert await scenes.column(store, "outbox.state") == ["pending"]
        (row,) = await scenes.take_replies(store)
        assert row.text == "final"

    async def test_a_sent_part_is_kept_and_teaches_its_thread(self, ground: Ground) -> None:
        store = await ground.open("one")
        row, turn = await streaming(store)
        posted = await scenes.send(store, await begin_part(store, row), id="p1", thread="late")
        assert await scenes.column(store, "aliases.thread") == ["late"]
        assert await scenes.column(store, "aliases.session_key") == [str(KEY)]
        await scenes.finish(store, turn, "final")
        await put_back(store, posted)  # a part that was sent is never forgotten
        (again,) = await scenes.take_replies(store)
        assert (again.parts[0].state, again.parts[0].ref) == ("sent", "p1")

    async def test_a_part_in_doubt_stays_so_though_a_later_try_surely_failed(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await scenes.put_reply(store, "reply")
        (row,) = await scenes.take_replies(store, "dead", NOW_MS)
        assert row.parts[0].begun_ms == NOW_MS
        await store.write(lambda tx: outbox.release_holder(tx, "dead"))
        (again,) = await scenes.take_replies(store, now_ms=NOW_MS + 1)
        await put_back(store, again)
        (row,) = await scenes.take_replies(store, now_ms=NOW_MS + 2)
        assert (row.parts[0].state, row.parts[0].begun_ms) == ("unknown", NOW_MS)
        await begin_part(store, row)  # it is sure by now that nothing was taken
        await put_back(store, row)
        (fresh,) = await scenes.take_replies(store, now_ms=NOW_MS + 3)
        assert (fresh.parts[0].state, fresh.parts[0].begun_ms) == ("sending", NOW_MS + 3)

    async def test_an_inline_answer_is_its_holders_until_the_deadline(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.put_reply(store, "inline")

        def hold(tx: Transaction) -> None:
            tx.conn.execute(
                update(schema.outbox).values(inline_holder="mine", inline_until_ms=NOW_MS + 1000)
            )

        await store.write(hold)
        assert await taken(store, "other", NOW_MS + 999) == []
        (row,) = await scenes.take_replies(store, "mine", NOW_MS)
        await store.write(
            lambda tx: outbox.put_back(tx, row, "mine", next_try_ms=0, surely_not_sent=0)
        )
        assert await taken(store, "other", NOW_MS + 1000) == ["inline"]
        assert row.channel == DESK
