"""Clauses of `approvals`: who decides what, once and in time, and what a turn does meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from clawbot.errors import LeaseLost, TurnStopped
from clawbot.messages import Place, Sender
from clawbot.ports import Store
from clawbot.session_key import SessionKey
from clawbot.store import events
from clawbot.store.claims import Claim
from clawbot.store.grants import Lasting
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import DESK, NOW_MS, in_group, said

LATER_MS = NOW_MS + 60_000


async def asking(store: Store, approval_id: str = "a1") -> Claim:
    """A turn that has asked people about a call, and is parked."""
    turn = await scenes.begin(store, f"ask {approval_id}")
    assert (await scenes.ask(store, turn, approval_id)).state == "open"
    await scenes.park(store, turn)
    return turn


class ApprovalClauses:
    """What people who are asked, and tools that ask, may rely on."""

    async def test_a_parked_turn_waits_and_so_do_new_messages(self, ground: Ground) -> None:
        store = await ground.open("one")
        await asking(store)
        await scenes.accept(store, said("m2", "more"))
        assert await scenes.claim(store) == []
        assert await scenes.claim(store, now_ms=LATER_MS - 1) == []
        assert await scenes.column(store, "sessions.owner") == [None]
        assert await scenes.column(store, "turns.state") == ["parked"]
        assert await scenes.column(store, "turns.draft_text") == ["so far"]

    async def test_what_is_said_after_a_question_is_a_message_of_its_own(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await asking(store)
        await scenes.decide(store)
        (resumed,) = await scenes.claim(store)
        assert resumed.told == "so far"
        assert await scenes.draft(store, resumed, "so far") is None, "nothing is new yet"
        second = await scenes.draft(store, resumed, "so far\n\nand on")
        assert second is not None
        for row in await scenes.take_replies(store):
            await scenes.settle(store, await scenes.send(store, row))
        (growing,) = await scenes.take_replies(store)
        assert (growing.id, growing.text) == (second, "and on")
        await scenes.give_back(store, resumed)
        (again,) = await scenes.claim(store)  # by another worker: the message goes on
        assert (again.told, again.outbox_id) == ("so far", second)
        await scenes.finish(store, again, "so far\n\nand on, to the end")
        texts = await scenes.column(store, "outbox.text")
        assert [text for text in texts if "May I?" not in text] == ["so far", "and on, to the end"]

    async def test_an_answer_of_one_piece_after_a_question_repeats_nothing(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await asking(store)
        await scenes.decide(store)
        (resumed,) = await scenes.claim(store)
        await scenes.finish(store, resumed, "so far\n\nthe end")
        texts = await scenes.column(store, "outbox.text")
        assert [text for text in texts if "May I?" not in text] == ["so far", "the end"]

    async def test_a_decision_makes_the_turn_claimable_and_counts_once(
        self, ground: Ground
    ) -> None:
        store, other = await ground.open("one"), await ground.open("two")
        for approval_id, expected in (("a1", "approved"), ("a2", "denied")):
            first = await asking(store, approval_id)
            approves = expected == "approved"
            assert (await scenes.decide(other, None, approves=approves)).outcome == "decided"
            (turn,) = await scenes.claim(other, "heir")
            assert (turn.turn_id, turn.is_resumed, turn.attempt) == (first.turn_id, True, 0)
            assert (turn.asked, turn.usage.input_tokens) == (frozenset({1}), 7)
            assert (await scenes.ask(other, turn)).state == expected
            assert (await scenes.ask(other, turn)).state == "used"
            with pytest.raises(LeaseLost):
                await scenes.ask(store, first)
            await scenes.finish(other, turn)

    async def test_a_used_decision_is_no_reason_to_call_again(self, ground: Ground) -> None:
        store = await ground.open("one")
        await asking(store)
        await scenes.decide(store)
        (turn,) = await scenes.claim(store)
        await scenes.ask(store, turn)
        await scenes.give_back(store, turn)
        (again,) = await scenes.claim(store)
        assert again.asked == frozenset()

    async def test_what_was_allowed_counts_for_the_same_arguments_alone(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await asking(store)
        await scenes.decide(store)
        (turn,) = await scenes.claim(store)
        assert (await scenes.ask(store, turn, arguments='{"all": true}')).state == "changed"
        assert (await scenes.ask(store, turn, "a2", seq=2)).state == "open"

    async def test_what_is_allowed_for_a_conversation_needs_no_second_question_in_it(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await asking(store)
        await scenes.decide(store, lasting=Lasting(kind="session"))
        (turn,) = await scenes.claim(store)
        assert (await scenes.ask(store, turn)).state == "approved"
        assert (await scenes.ask(store, turn, "a2", seq=2)).state == "approved"
        await scenes.finish(store, turn)
        turn = await scenes.begin(store, "again")
        assert (await scenes.ask(store, turn, "a2")).state == "approved"
        assert await scenes.column(store, "approvals.id") == ["a1"]
        # Not for anything else, nor for anybody else, nor after a new beginning.
        assert (await scenes.ask(store, turn, "b1", seq=5, arguments="[]")).state == "open"
        assert (await scenes.ask(store, turn, "b2", seq=6, bound="/other")).state == "open"
        await scenes.park(store, turn)
        await scenes.stop(store)
        await scenes.accept(store, said("m8", "me too", sender=Sender(id="U2")))
        (turn,) = await scenes.claim(store)
        assert (await scenes.ask(store, turn, "c1")).state == "open"
        await scenes.park(store, turn)
        await scenes.stop(store, new_epoch=True)
        turn = await scenes.begin(store, "and again")
        assert (await scenes.ask(store, turn, "d1")).state == "open"

    async def test_what_is_allowed_until_a_time_needs_no_second_question_before_it(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await asking(store)
        await scenes.decide(store, lasting=Lasting(kind="until", until_ms=LATER_MS))
        assert await scenes.granted(store) == ["a1"]
        # Also when the conversation begins anew; by the clock, and for the very same call alone.
        await scenes.stop(store, new_epoch=True)
        turn = await scenes.begin(store, "again")
        assert (await scenes.ask(store, turn, "a2", now_ms=LATER_MS - 1)).state == "approved"
        assert (await scenes.ask(store, turn, "b1", seq=2, arguments="[]")).state == "open"
        assert (await scenes.ask(store, turn, "b2", seq=3, bound="/other")).state == "open"
        assert (await scenes.ask(store, turn, "b3", seq=4, now_ms=LATER_MS)).state == "open"
        assert await scenes.granted(store, now_ms=LATER_MS) == []

    async def test_what_is_allowed_for_longer_is_taken_back_by_a_no(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        for number, lasting in enumerate(
            (Lasting(kind="session"), Lasting(kind="until", until_ms=LATER_MS)), 1
        ):
            name, arguments = f"a{number}", f"[{number}]"
            await scenes.ask(store, turn, name, seq=number, arguments=arguments)
            await scenes.decide(store, name, lasting=lasting)
            assert await scenes.granted(store) == [name]
            for person, outcome in (("U2", "not_yours"), ("U1", "revoked"), ("U1", "approved")):
                no = await scenes.decide(store, name, by=person, approves=False)
                assert no.outcome == outcome
            assert await scenes.granted(store) == []
            again = await scenes.ask(store, turn, f"b{number}", seq=9 + number, arguments=arguments)
            assert again.state == "open"

    async def test_a_question_is_put_once(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        for approval_id in ("a1", "a2"):
            assert (await scenes.ask(store, turn, approval_id)).state == "open"
        assert await scenes.column(store, "approvals.id") == ["a1"]
        assert await scenes.column(store, "outbox.text") == ["May I? a1"]
        assert await scenes.column(store, "outbox.skips_lane") == [True]

    async def test_a_question_that_is_decided_before_its_turn_is_parked_is_not_waited_for(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.ask(store, turn)
        await scenes.decide(store)
        await scenes.park(store, turn)
        (again,) = await scenes.claim(store)
        assert again.turn_id == turn.turn_id

    async def test_a_question_expires_when_its_time_is_over(self, ground: Ground) -> None:
        store = await ground.open("one")
        await asking(store)
        assert (await scenes.decide(store, now_ms=LATER_MS)).outcome == "expired"
        (turn,) = await scenes.claim(store, now_ms=LATER_MS)
        assert await scenes.column(store, "approvals.state") == ["expired"]
        assert (await scenes.ask(store, turn)).state == "expired"
        assert (await scenes.decide(store)).outcome == "expired"

    async def test_only_the_asker_and_owners_decide(self, ground: Ground) -> None:
        store = await ground.open("one")
        await asking(store)
        assert (await scenes.decide(store, by="U2")).outcome == "not_yours"
        assert (await scenes.decide(store, None, by="U2")).outcome == "not_yours"
        assert await scenes.column(store, "approvals.state") == ["open"]
        assert (await scenes.decide(store, by="U2", is_owner=True)).outcome == "decided"
        assert await scenes.column(store, "approvals.decided_by") == ["U2"]

    async def test_a_bot_does_not_allow_its_own_calls(self, ground: Ground) -> None:
        store = await ground.open("one")
        bot = Sender(id="B1", is_bot=True)
        rules = scenes.rules_of(bots="allow")
        await scenes.accept(store, said("m1", sender=bot), rules)
        (turn,) = await scenes.claim(store)
        await scenes.ask(store, turn)
        assert (await scenes.decide(store, by="B1")).outcome == "not_yours"
        assert (await scenes.decide(store, by="U1", is_owner=True)).outcome == "decided"

    async def test_a_question_is_answered_where_it_was_asked(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.accept(store, in_group("m1"))
        (turn,) = await scenes.claim(store)
        await scenes.ask(store, turn)
        elsewhere = SessionKey.of_chat(DESK, "C2")
        for place, outcome in (
            (Place(channel=DESK, chat_id="C2"), "none"),
            (Place(channel="other", chat_id="C1"), "none"),
            (Place(channel=DESK, chat_id="C1", thread="t-m9"), "none"),
            (None, "none"),
            (Place(channel=DESK, chat_id="C1"), "decided"),
            (Place(channel=DESK, chat_id="C1", thread="t-m1"), "approved"),
        ):
            decision = await scenes.decide(store, place=place, session=elsewhere)
            assert decision.outcome == outcome

    async def test_without_an_id_the_only_open_question_is_meant(self, ground: Ground) -> None:
        store = await ground.open("one")
        assert (await scenes.decide(store, None)).outcome == "none"
        turn = await scenes.begin(store)
        await scenes.ask(store, turn)
        await scenes.ask(store, turn, "a2", seq=2)
        several = await scenes.decide(store, None)
        assert (several.outcome, several.ids) == ("several", ("a1", "a2"))
        await scenes.decide(store, "a2")
        assert (await scenes.decide(store, None)).ids == ("a1",)
        assert await scenes.column(store, "approvals.state") == ["approved", "approved"]

    async def test_of_two_decisions_the_first_counts(self, ground: Ground) -> None:
        stores = [await ground.open("one"), await ground.open("two")]
        await asking(stores[0])
        found = await asyncio.gather(
            *(scenes.decide(stores[n % 2], approves=n % 2 == 0) for n in range(6))
        )
        assert sum(decision.outcome == "decided" for decision in found) == 1
        page = await stores[0].read(lambda tx: events.since(tx, {}))
        kinds = [one.kind for one in page.events]
        assert (kinds.count("approval_asked"), kinds.count("approval_decided")) == (1, 1)

    async def test_a_decided_question_says_so_and_offers_nothing(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        for number in range(1, 5):
            expires_ms = NOW_MS + 1 if number == 3 else LATER_MS
            await scenes.ask(store, turn, f"a{number}", seq=number, expires_ms=expires_ms)
        assert await scenes.column(store, "outbox.text") == [f"May I? a{n}" for n in range(1, 5)]
        await scenes.decide(store, "a1")
        await scenes.decide(store, "a1", approves=False)
        await scenes.decide(store, "a2", approves=False)
        await scenes.park(store, turn)
        await scenes.claim(store, now_ms=NOW_MS + 1)
        await scenes.stop(store)
        ends = ("approved by <U1>", "denied by <U1>", "expired", "cancelled")
        texts = await scenes.column(store, "outbox.text")
        assert texts[:4] == [f"May I?\n\n{end}" for end in ends]
        assert await scenes.column(store, "outbox.choices") == [None] * len(texts)

    async def test_a_stopped_turn_asks_nobody(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.ask(store, turn)
        await scenes.stop(store)
        before = await store.read(scenes.everything)
        with pytest.raises(TurnStopped):
            await scenes.ask(store, turn, "a2", seq=2)
        with pytest.raises(TurnStopped):
            await scenes.park(store, turn)
        assert await store.read(scenes.everything) == before
        assert (await scenes.decide(store)).outcome == "cancelled"
        assert await scenes.column(store, "approvals.state") == ["cancelled"]

    async def test_the_history_of_a_turn_that_is_stopped_while_parked_is_whole(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store, "ship it")
        await scenes.record_call(store, turn)
        await scenes.ask(store, turn)
        await scenes.park(store, turn)
        await scenes.stop(store)
        kinds = await scenes.column(store, "messages.kind")
        assert kinds == ["user", "tool_call", "tool_result", "assistant", "note"]
        page = await store.read(lambda tx: events.since(tx, {}))
        assert [one.kind for one in page.events].count("turn_ended") == 1
