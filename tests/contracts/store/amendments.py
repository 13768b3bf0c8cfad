"""Clauses of `amendments`: what people change while it waits is read as it is in the end."""

from __future__ import annotations

from clawbot.messages import Amendment, InboundMessage
from clawbot.ports import Store
from clawbot.store import amendments, inbox
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import DESK, MENTION_RULES, NOW_MS, in_group, said

ENRICH_MS = 5_000


async def amend(store: Store, identity: str, message: InboundMessage | None) -> bool:
    """Report that a message reads otherwise now, or was deleted."""
    amendment = Amendment(channel=DESK, identity=identity, message=message)
    return await store.write(lambda tx: amendments.amend(tx, amendment, ENRICH_MS, NOW_MS))


class AmendmentClauses:
    """What people may rely on who correct themselves."""

    async def test_a_waiting_message_is_read_as_it_was_changed(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.accept(store, said("m1", "old words"))
        for _ in range(2):
            assert await amend(store, "m1", said("m1", "new words"))
        (turn,) = await scenes.claim(store)
        assert [row.text for row in turn.rows] == ["new words"]

    async def test_a_withdrawn_message_begins_no_turn_and_holds_none_back(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await scenes.accept(store, said("m1", "first", is_incomplete=True))
        await scenes.accept(store, said("m2", "second"))
        assert await scenes.claim(store) == []
        assert await amend(store, "m1", None)
        assert not await amend(store, "m1", None)
        (turn,) = await scenes.claim(store)
        assert [row.text for row in turn.rows] == ["second"]
        again = await scenes.accept(store, said("m1", "first"))
        assert again.is_duplicate
        assert await scenes.column(store, "inbox.state") == ["done", "claimed"]

    async def test_what_a_turn_has_taken_up_is_not_changed(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store, "taken")
        assert not await amend(store, "begin-taken", said("begin-taken", "other words"))
        assert not await amend(store, "begin-taken", None)
        await scenes.finish(store, turn)
        assert await scenes.column(store, "inbox.text") == ["taken"]
        assert await scenes.column(store, "inbox.reason") == [""]

    async def test_an_overheard_message_is_changed_or_forgotten(self, ground: Ground) -> None:
        store = await ground.open("one")
        for identity in ("m1", "m2"):
            await scenes.accept(store, in_group(identity, f"old {identity}"), MENTION_RULES)
        assert await amend(store, "m1", in_group("m1", "new m1"))
        assert await amend(store, "m2", None)
        await scenes.accept(store, in_group("m3", mentioned=True), MENTION_RULES)
        (turn,) = await scenes.claim(store, context_rows=10)
        told = await scenes.column(store, "messages.text", scenes.is_note(turn.turn_id))
        assert told == ["new m1"]

    async def test_names_of_changed_words_are_loaded_and_those_of_old_ones_left(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await scenes.accept(store, said("m1", "old", is_incomplete=True))
        take = store.write(lambda tx: inbox.take_unenriched(tx, DESK, "two", limit=9))
        ((row_id, _, old_deadline_ms),) = await take
        assert await amend(store, "m1", said("m1", "new", raw='"new"'))
        take = store.write(lambda tx: inbox.take_unenriched(tx, DESK, "two", limit=9))
        ((again, raw, deadline_ms),) = await take
        assert (again, raw) == (row_id, '"new"')
        assert deadline_ms != old_deadline_ms, "by which what was loaded before is known"

    async def test_a_changed_message_that_lacks_names_waits_for_them(self, ground: Ground) -> None:
        store = await ground.open("one")
        await scenes.accept(store, said("m1", "old"))
        assert await amend(store, "m1", said("m1", "new", is_incomplete=True))
        assert await scenes.claim(store) == []
        take = store.write(lambda tx: inbox.take_unenriched(tx, DESK, "two", limit=9))
        assert len(await take) == 1
