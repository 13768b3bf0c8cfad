"""Clauses of `inline`: who holds a request answers in it, once, and what had no way out waits."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from clawbot import intake
from clawbot.errors import LeaseLost
from clawbot.messages import Accepted
from clawbot.ports import Store
from clawbot.store import outbox, processes
from clawbot.store.outbox import OutboxRow
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import NOW_MS

UNTIL_MS = NOW_MS + 4_500
LATE_MS = UNTIL_MS + 1
WITHOUT_EDITS = scenes.rules_of(can_edit=False)


async def ask(
    store: Store, identity: str, holder: str = "one", *, until_ms: int = UNTIL_MS, **changes: Any
) -> Accepted:
    """An attempt at a message's request, held open by `holder`."""
    message = scenes.said(identity, inline_until_ms=until_ms, **changes)
    desk = intake.Intake(store, scenes._Frozen(NOW_MS), WITHOUT_EDITS, holder)
    return await desk.accept(message)


async def answer(store: Store, text: str = "answer") -> None:
    """The turn on what was asked, from its beginning to its end."""
    (turn,) = await scenes.claim(store)
    await scenes.finish(store, turn, text)


async def settled(
    store: Store, holder: str, now_ms: int = NOW_MS, state: str = "sent"
) -> OutboxRow:
    """Claim a reply, send its part and end it."""
    (row,) = await scenes.take_replies(store, holder, now_ms)
    await scenes.settle(store, await scenes.send(store, row, holder), holder, state)
    return row


async def held(store: Store, holder: str = "one") -> None:
    """Claim a reply when no request waits any more, and put it aside."""
    (row,) = await scenes.take_replies(store, holder, LATE_MS)
    await store.write(
        lambda tx: outbox.settle(tx, row, holder, "held", LATE_MS, reason="no_window")
    )


class InlineClauses:
    """What an adapter that answers in responses may rely on."""

    async def test_the_newest_attempt_gets_the_answer(self, ground: Ground) -> None:
        store = await ground.open("a")
        await ask(store, "m1", "one")
        await ask(store, "m1", "two", until_ms=UNTIL_MS + 5_000)
        await answer(store)
        assert await scenes.take_replies(store, "one", LATE_MS) == []
        (row,) = await scenes.take_replies(store, "two", LATE_MS)
        assert (row.text, row.is_inline) == ("answer", True)

    async def test_after_the_deadline_anybody_answers_another_way(self, ground: Ground) -> None:
        store = await ground.open("a")
        await ask(store, "m1", "one")
        await answer(store)
        assert await scenes.take_replies(store, "two", NOW_MS) == []
        (row,) = await scenes.take_replies(store, "two", LATE_MS)
        assert not row.is_inline

    async def test_a_holder_that_ends_leaves_its_answer_to_others(self, ground: Ground) -> None:
        store = await ground.open("a")
        await ask(store, "m1", "one")
        await answer(store)
        await store.write(partial(processes.release, process_id="one"))
        (row,) = await scenes.take_replies(store, "two", NOW_MS)
        assert not row.is_inline

    async def test_what_a_lost_response_carried_is_sent_again(self, ground: Ground) -> None:
        store = await ground.open("a")
        await ask(store, "m1", "one")
        await answer(store)
        first = await settled(store, "one")
        assert await scenes.take_replies(store, "one") == []
        again = await ask(store, "m1", "two")
        assert (again.is_duplicate, again.may_be_answered) == (True, True)
        (row,) = await scenes.take_replies(store, "two")
        assert (row.id, row.is_inline, row.parts[0].state) == (first.id, True, "sending")

    async def test_what_went_another_way_is_not_sent_again(self, ground: Ground) -> None:
        store = await ground.open("a")
        await ask(store, "m1", "one")
        await answer(store)
        await settled(store, "one", LATE_MS)
        again = await ask(store, "m1", "one", until_ms=LATE_MS + 5_000)
        assert not again.may_be_answered
        assert await scenes.take_replies(store, "one", LATE_MS) == []

    async def test_what_another_process_carried_is_taken_from_it(self, ground: Ground) -> None:
        store = await ground.open("a")
        await ask(store, "m1", "one")
        await answer(store)
        (sending,) = await scenes.take_replies(store, "one")
        await ask(store, "m1", "two")
        (row,) = await scenes.take_replies(store, "two")
        assert row.id == sending.id
        with pytest.raises(LeaseLost):
            await scenes.send(store, sending, "one")

    async def test_a_reply_without_a_way_out_goes_with_the_next_request(
        self, ground: Ground
    ) -> None:
        store = await ground.open("a")
        await ask(store, "m1")
        await answer(store, "late")
        await held(store)
        assert await scenes.take_replies(store, "one", LATE_MS) == []
        await ask(store, "m2", until_ms=LATE_MS + 5_000)
        (row,) = await scenes.take_replies(store, "one", LATE_MS)
        assert (row.text, row.is_inline) == ("late", True)

    async def test_released_replies_keep_their_order(self, ground: Ground) -> None:
        store = await ground.open("a")
        for number in range(3):
            await scenes.put_reply(store, f"late {number}")
            await held(store)
        await ask(store, "m9", until_ms=LATE_MS + 5_000)
        texts = [(await settled(store, "one", LATE_MS)).text for _ in range(3)]
        assert texts == ["late 0", "late 1", "late 2"]

    async def test_asking_for_more_makes_no_turn_while_something_waits(
        self, ground: Ground
    ) -> None:
        store = await ground.open("a")
        await ask(store, "m1")
        await answer(store, "late")
        await held(store)
        more = await ask(store, "m2", asks_for_more=True)
        assert (more.decision, more.may_be_answered) == ("more", True)
        assert await scenes.claim(store) == []
        assert (await ask(store, "m2", asks_for_more=True)).is_duplicate

    async def test_asking_for_more_is_a_message_when_nothing_waits(self, ground: Ground) -> None:
        store = await ground.open("a")
        asked = await ask(store, "m1", "one", asks_for_more=True)
        assert asked.decision == "queued"
        assert len(await scenes.claim(store)) == 1

    async def test_other_chats_notice_nothing(self, ground: Ground) -> None:
        store = await ground.open("a")
        await ask(store, "m1")
        await answer(store, "late")
        await held(store)
        other = await ask(store, "m2", chat_id="C2", asks_for_more=True)
        assert other.decision == "queued"
        assert await scenes.take_replies(store, "one", LATE_MS) == []
