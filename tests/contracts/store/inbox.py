"""Clauses of `inbox`: one row a message, whatever arrives twice and in whatever order."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from clawbot.messages import InboundMessage
from clawbot.ports import Store
from clawbot.store import inbox, overheard, processes, typing_marks
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground, child
from tests.contracts.store.scenes import DESK, MENTION_RULES, NOW_MS, in_group, said


async def take(store: Store, process_id: str, limit: int = 10) -> list[int]:
    """Take messages to complete; their row ids."""
    taken = await store.write(lambda tx: inbox.take_unenriched(tx, DESK, process_id, limit=limit))
    return [row_id for row_id, _raw, _deadline in taken]


async def complete(store: Store, row_id: int, message: InboundMessage | None) -> str | None:
    """Complete a message; its text, or None when it needed no completion any more."""
    row = await store.write(lambda tx: inbox.complete(tx, row_id, message, NOW_MS))
    return None if row is None else row.text


class InboxClauses:
    """What adapters may rely on."""

    async def test_a_second_copy_is_a_duplicate_of_the_same_row(self, ground: Ground) -> None:
        mine, other = await ground.open("one"), await ground.open("two")
        first = await scenes.accept(mine, said("m1"))
        copy = await scenes.accept(other, said("m1"))
        assert (copy.inbox_id, copy.is_duplicate) == (first.inbox_id, True)
        assert await scenes.column(mine, "inbox.state") == ["queued"]

    async def test_a_known_delivery_is_a_duplicate_under_another_identity(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        first = await scenes.accept(store, said("m1", transport_ids=("e1", "e2")))
        copy = await scenes.accept(store, said("m1-again", transport_ids=("e3", "e2")))
        assert (copy.inbox_id, copy.is_duplicate) == (first.inbox_id, True)
        another = await scenes.accept(store, said("m2", transport_ids=("e3",)))
        assert not another.is_duplicate

    async def test_two_processes_store_a_message_once_and_lose_none(self, ground: Ground) -> None:
        store = await ground.open("parent")
        async with child("accept", ground) as other:
            other.tell()
            mine = [await scenes.accept(store, message) for message in scenes.shared_messages()]
            theirs = [line.split() for line in await other.lines()]
        assert [str(one.inbox_id) for one in mine] == [row_id for row_id, _ in theirs]
        firsts = [one.is_duplicate for one in mine]
        assert [str(not first) for first in firsts] == [is_duplicate for _, is_duplicate in theirs]
        assert len(await scenes.column(store, "inbox.id")) == len(mine)

    async def test_an_overheard_message_is_promoted_by_its_mention(self, ground: Ground) -> None:
        store = await ground.open("one")
        first = await scenes.accept(store, in_group("m1"), MENTION_RULES)
        mention = await scenes.accept(store, in_group("m1", mentioned=True), MENTION_RULES)
        assert (first.decision, mention.decision) == ("context", "queued")
        assert (mention.inbox_id, mention.is_duplicate) == (first.inbox_id, False)
        assert await scenes.column(store, "inbox.state") == ["queued"]
        (turn,) = await scenes.claim(store)
        assert [row.id for row in turn.rows] == [mention.inbox_id]

    async def test_a_mention_is_not_undone_by_its_unaddressed_copy(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.accept(store, in_group("m1", mentioned=True), MENTION_RULES)
        copy = await scenes.accept(store, in_group("m1"), MENTION_RULES)
        assert copy.is_duplicate
        with pytest.raises(inbox.StoredMeanwhile):  # also when the copy did not see it
            await store.write(
                lambda tx: inbox.put(tx, in_group("m1"), state="context", now_ms=NOW_MS)
            )
        assert await scenes.column(store, "inbox.state") == ["queued"]

    async def test_the_mention_rule_burns_no_identity(self, ground: Ground) -> None:
        store = await ground.open("one")
        keep_none = scenes.rules_of(mention="required", context_rows=0)
        ignored = await scenes.accept(store, in_group("m1", transport_ids=("e1",)), keep_none)
        assert (ignored.decision, ignored.inbox_id) == ("ignored", None)
        mention = in_group("m1", mentioned=True, transport_ids=("e2",))
        assert (await scenes.accept(store, mention, keep_none)).decision == "queued"

    async def test_context_is_pruned_by_number_and_by_age(self, ground: Ground) -> None:
        store = await ground.open("one")
        rules = scenes.rules_of(mention="required", context_rows=3, context_age_ms=1000)
        for number in range(5):
            await scenes.accept(store, in_group(f"m{number}"), rules)
        await scenes.accept(store, in_group("elsewhere", chat_id="C2"), rules)
        assert await scenes.texts_taken(store) == {"m2", "m3", "m4", "elsewhere"}
        await scenes.accept(store, in_group("later"), rules, NOW_MS + 1001)
        assert await scenes.texts_taken(store) == {"later", "elsewhere"}

    async def test_context_is_given_at_most_once_to_each_session(self, ground: Ground) -> None:
        store = await ground.open("one")

        async def heard(mention: InboundMessage) -> list[str]:
            """The context that the turn on a mention is given."""
            await scenes.accept(store, mention, MENTION_RULES)
            (turn,) = await scenes.claim(store, context_rows=10)
            await scenes.finish(store, turn)
            found = await scenes.column(store, "messages.text", scenes.is_note(turn.turn_id))
            return [str(text) for text in found]

        await scenes.accept(store, in_group("r1", "root talk"), MENTION_RULES)
        await scenes.accept(store, in_group("x1", "aside", thread="t-other"), MENTION_RULES)
        assert await heard(in_group("a", mentioned=True)) == ["root talk"]
        assert await heard(in_group("a2", thread="t-a", mentioned=True)) == []
        aside = in_group("a3", "thread talk", thread="t-a", mentions_others=True)
        await scenes.accept(store, aside, MENTION_RULES)
        assert await heard(in_group("a4", thread="t-a", mentioned=True)) == ["thread talk"]
        assert await heard(in_group("a5", thread="t-a", mentioned=True)) == []
        assert await heard(in_group("b", mentioned=True)) == ["root talk"]

    async def test_a_root_that_was_overheard_is_context_of_its_thread_too(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        root = in_group("m1", "the root", sent_at_ms=NOW_MS - 3)
        read = [replace(root, thread="t-m1", opens_thread=None)]
        read += [
            in_group(f"m{n}", f"reply {n}", thread="t-m1", sent_at_ms=NOW_MS - 4 + n)
            for n in (2, 3)
        ]
        await scenes.accept(store, root, MENTION_RULES)
        await scenes.accept(store, read[1], MENTION_RULES)
        for _ in range(2):
            await store.write(lambda tx: overheard.keep_earlier(tx, read, NOW_MS))
        inside = in_group("m4", "and?", thread="t-m1", mentioned=True)
        for mention in (inside, in_group("m5", "beside", mentioned=True)):
            await scenes.accept(store, mention, MENTION_RULES)
        heard = {
            turn.rows[0].text: await scenes.column(
                store, "messages.text", scenes.is_note(turn.turn_id)
            )
            for turn in await scenes.claim(store, context_rows=10)
        }
        assert heard == {"and?": ["the root", "reply 2", "reply 3"], "beside": ["the root"]}

    async def test_a_message_being_completed_holds_later_ones_back(self, ground: Ground) -> None:
        store = await ground.open("one")
        first = await scenes.accept(store, said("m1", "?", is_incomplete=True))
        await scenes.accept(store, said("m2", "second"))
        assert first.decision == "received"
        assert await scenes.claim(store) == []
        assert first.inbox_id is not None
        assert await complete(store, first.inbox_id, said("m1", "first")) == "first"
        (turn,) = await scenes.claim(store)
        assert [row.text for row in turn.rows] == ["first", "second"]

    async def test_a_message_is_completed_by_one_process_at_a_time(self, ground: Ground) -> None:
        mine, other = await ground.open("one"), await ground.open("two")
        for number in range(6):
            await scenes.accept(mine, said(f"m{number}", is_incomplete=True))
        taken = await asyncio.gather(take(mine, "one", 3), take(other, "two", 5))
        rows = [row_id for one in taken for row_id in one]
        assert sorted(rows) == await scenes.column(mine, "inbox.id")
        await mine.write(lambda tx: processes.release(tx, "two"))  # it died
        assert await take(mine, "one") == taken[1]
        assert await complete(mine, rows[0], None) is not None
        assert await complete(other, rows[0], said("m0", "too late")) is None

    async def test_an_overheard_message_is_completed_and_stays_overheard(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await scenes.accept(store, in_group("m1", "?", is_incomplete=True), MENTION_RULES)
        (row_id,) = await take(store, "one")
        assert await complete(store, row_id, said("m1", "whole")) == "whole"
        assert await scenes.column(store, "inbox.state") == ["context"]
        assert await take(store, "one") == []
        await scenes.accept(store, in_group("m2", is_incomplete=True), MENTION_RULES)
        (row_id,) = await take(store, "one")
        await scenes.accept(store, in_group("m2", "asked", mentioned=True), MENTION_RULES)
        assert await complete(store, row_id, said("m2", "too late")) is None
        (turn,) = await scenes.claim(store)
        assert [row.text for row in turn.rows] == ["asked"]

    async def test_a_sign_is_known_until_it_is_off_though_its_turn_has_ended(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        ids = [row.id for row in turn.rows]
        signs = await store.read(lambda tx: typing_marks.look(tx, DESK))
        assert [(each.inbox_id, each.is_running, each.mark) for each in signs] == [
            (row_id, True, "") for row_id in ids
        ]
        await store.write(lambda tx: typing_marks.note(tx, ids, "r1"))
        await scenes.finish(store, turn, "done")
        signs = await store.read(lambda tx: typing_marks.look(tx, DESK))
        assert [(each.is_running, each.mark) for each in signs] == [(False, "r1") for _ in ids]
        assert await store.read(lambda tx: typing_marks.look(tx, "another")) == []
        await store.write(lambda tx: typing_marks.note(tx, ids, None))
        assert await store.read(lambda tx: typing_marks.look(tx, DESK)) == []
