"""Clauses of `waiting`: what becomes of messages that arrive while their session is busy."""

from __future__ import annotations

import pytest

from clawbot.errors import LeaseLost, TurnStopped
from clawbot.messages import Attachment
from clawbot.ports import Store
from clawbot.queueing import QueueRules
from clawbot.store import processes, waiting
from clawbot.store.claims import Claim
from clawbot.store.schema import metadata
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import KEY, NOW_MS, said

BURST = scenes.rules_of(queue=QueueRules(debounce_ms=500))
NARROW = scenes.rules_of(queue=QueueRules(limit=2))


async def interrupt(store: Store, turn: Claim) -> None:
    """End a turn as a newcomer does who cuts it short."""
    found = await store.read(lambda tx: waiting.interrupted(tx, [turn]))
    assert found == {turn.turn_id}
    await scenes.finish(store, turn, None, "stopped")


class WaitingClauses:
    """What people may rely on who write while an answer is on its way."""

    async def test_one_by_one_each_message_has_a_turn_of_its_own(self, ground: Ground) -> None:
        store = await ground.open("one")
        for number in range(3):
            await scenes.accept(store, said(f"m{number}", f"{number}"))
        found = []
        while taken := await scenes.claim(store, policy="followup"):
            (turn,) = taken
            found.append([row.text for row in turn.rows])
            await scenes.finish(store, turn)
        assert found == [["0"], ["1"], ["2"]]

    async def test_what_joins_a_turn_is_its_own_sender_s_and_next_in_line(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.record_call(store, turn)
        assert await scenes.join(store, turn) == []
        await scenes.accept(store, said("m1", "one"))
        await scenes.accept(store, said("m2", "two"))
        await scenes.accept(store, said("m3", "not mine", by="U2"))
        await scenes.accept(store, said("m4", "after it"))
        assert await scenes.join(store, turn) == ["one", "two"]
        assert await scenes.join(store, turn) == []
        assert await scenes.column(store, "inbox.state") == [*["claimed"] * 3, *["queued"] * 2]
        assert await scenes.column(store, "messages.turn_id") == [turn.turn_id] * 4
        await scenes.finish(store, turn)
        (following,) = await scenes.claim(store)
        assert [row.text for row in following.rows] == ["not mine"]

    async def test_what_joined_a_turn_ends_and_resumes_with_it(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.accept(store, said("m1", "one"))
        await scenes.join(store, turn)
        await store.write(lambda tx: processes.release(tx, "worker"))
        with pytest.raises(LeaseLost):
            await scenes.join(store, turn)
        (again,) = await scenes.claim(store)
        assert [row.text for row in again.rows] == ["hello", "one"]
        await scenes.stop(store)
        with pytest.raises(TurnStopped):
            await scenes.join(store, again)
        await scenes.finish(store, again, None, "stopped")
        assert await scenes.column(store, "inbox.reason") == ["stopped", "stopped"]

    async def test_an_interrupted_turn_s_messages_are_answered_in_the_next_one(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store, "one")
        assert await store.read(lambda tx: waiting.interrupted(tx, [turn])) == set()
        await scenes.accept(store, said("m1", "not mine", chat_id="C2"))
        assert await store.read(lambda tx: waiting.interrupted(tx, [turn])) == set()
        await scenes.accept(store, said("m2", "two"))
        await interrupt(store, turn)
        following = next(t for t in await scenes.claim(store) if t.session == KEY)
        assert [row.text for row in following.rows] == ["one", "two"]
        assert following.turn_id != turn.turn_id
        assert await scenes.history_of(store, KEY) == ["one", "two"]
        await scenes.finish(store, following)
        mine = metadata.tables["inbox"].c.session_key == str(KEY)
        assert await scenes.column(store, "inbox.state", mine) == ["done", "done"]

    async def test_a_stop_also_ends_what_was_just_interrupted(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store, "one")
        await scenes.accept(store, said("m2", "two"))
        await scenes.stop(store)
        await scenes.finish(store, turn, None, "stopped")
        assert await scenes.column(store, "inbox.state") == ["done", "done"]
        assert await scenes.claim(store) == []

    async def test_a_burst_is_waited_for_once_the_session_was_busy(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.accept(store, said("m0", "zero"), BURST)
        (turn,) = await scenes.claim(store)
        await scenes.accept(store, said("m1", "one"), BURST, NOW_MS + 100)
        await scenes.finish(store, turn)
        assert await scenes.claim(store, now_ms=NOW_MS + 599) == []
        await scenes.accept(store, said("m2", "two"), BURST, NOW_MS + 500)
        assert await scenes.claim(store, now_ms=NOW_MS + 999) == []
        assert await store.read(waiting.next_ms) == NOW_MS + 1000
        (turn,) = await scenes.claim(store, now_ms=NOW_MS + 1000)
        assert [row.text for row in turn.rows] == ["one", "two"]
        await scenes.finish(store, turn)
        await scenes.accept(store, said("m3", "three"), BURST, NOW_MS + 2000)
        assert len(await scenes.claim(store, now_ms=NOW_MS + 2000)) == 1

    async def test_a_file_or_a_command_ends_the_waiting(self, ground: Ground) -> None:
        store = await ground.open("one")
        picture = Attachment(kind="image", name="a.png", source="f1")
        for number, last in enumerate(
            (said("last-0", attachments=(picture,)), said("last-1", "/status"))
        ):
            await scenes.accept(store, said(f"first-{number}"), BURST)
            (turn,) = await scenes.claim(store)
            await scenes.accept(store, said(f"more-{number}"), BURST)
            await scenes.finish(store, turn)
            assert await scenes.claim(store) == []
            await scenes.accept(store, last, BURST, NOW_MS + 1)
            (turn,) = await scenes.claim(store)
            await scenes.finish(store, turn)

    async def test_a_message_too_many_is_not_taken_and_its_sender_told_once(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        for number in range(2):
            await scenes.accept(store, said(f"m{number}"), NARROW)
        for number in range(3):
            taken = await scenes.accept(store, said(f"much-{number}"), NARROW)
            assert (taken.decision, taken.reason) == ("refused", "queue_full")
        again = await scenes.accept(store, said("much-0"), NARROW)
        assert again.is_duplicate
        await scenes.accept(store, said("other", by="U2"), NARROW)
        assert len(await scenes.column(store, "outbox.text")) == 2  # one for each of them
        await scenes.finish(store, turn, None)
        (turn,) = await scenes.claim(store)
        assert len(turn.rows) == 2
        assert (await scenes.accept(store, said("fits"), NARROW)).decision == "queued"
