"""Clauses of `revisions`: what was decided is shown where it was asked, whatever has become of the
message.
"""

from __future__ import annotations

from clawbot.messages import Choice
from clawbot.ports import Store
from clawbot.store import revisions
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import DESK

FIRST, SECOND = (Choice(label=f"Stop {n}", command=f"/stop s{n}") for n in (1, 2))


async def offer(store: Store, text: str = "Which?", *, can_edit: bool = True) -> int:
    """A reply with two choices."""
    choices = (FIRST, SECOND)
    return await scenes.put_reply(store, text, can_edit=can_edit, skips_lane=True, choices=choices)


async def revise(store: Store, row_id: int, text: str = "Done.") -> None:
    """Let a reply say something else, and offer nothing."""
    await store.write(lambda tx: revisions.revise(tx, row_id, text))


async def withdraw(store: Store, command: str, chat_id: str = "C1") -> bool:
    """A choice was made."""
    return await store.write(
        lambda tx: revisions.withdraw(tx, DESK, chat_id, command, lambda one: f"{one.label}: yes")
    )


class RevisionClauses:
    """What may be relied on when a message that was sent is no longer true."""

    async def test_what_was_sent_goes_out_again_to_be_changed(self, ground: Ground) -> None:
        store = await ground.open("one")
        row_id = await offer(store)
        (row,) = await scenes.take_replies(store)
        await scenes.settle(store, await scenes.send(store, row))
        await revise(store, row_id)
        (again,) = await scenes.take_replies(store, "another")
        assert (again.text, again.choices, again.revision) == ("Done.", (), 1)
        assert (again.parts[0].state, again.parts[0].ref) == ("sent", f"ref-{row_id}")
        await scenes.settle(store, again, "another")
        assert await scenes.column(store, "outbox.state") == ["sent"]
        assert await scenes.take_replies(store) == []

    async def test_what_is_on_its_way_is_changed_once_it_is_there(self, ground: Ground) -> None:
        store, other = await ground.open("one"), await ground.open("two")
        row_id = await offer(store)
        (row,) = await scenes.take_replies(store)
        await revise(other, row_id)
        assert await scenes.take_replies(other, "another") == []
        await scenes.settle(store, await scenes.send(store, row))
        assert await scenes.column(store, "outbox.settled_ms") == [None]
        (again,) = await scenes.take_replies(other, "another")
        assert (again.text, again.revision) == ("Done.", 1)

    async def test_what_was_not_sent_yet_is_sent_as_it_is_now(self, ground: Ground) -> None:
        store = await ground.open("one")
        await revise(store, await offer(store))
        (row,) = await scenes.take_replies(store)
        assert (row.text, row.choices) == ("Done.", ())
        await scenes.settle(store, await scenes.send(store, row))
        assert await scenes.column(store, "outbox.state") == ["sent"]

    async def test_what_cannot_be_changed_stays_as_it_was_sent(self, ground: Ground) -> None:
        store = await ground.open("one")
        row_id = await offer(store, can_edit=False)
        (row,) = await scenes.take_replies(store)
        await scenes.settle(store, await scenes.send(store, row))
        await revise(store, row_id)
        assert await scenes.take_replies(store) == []
        await revise(store, row_id + 1000)  # one that was pruned

    async def test_what_was_given_up_is_not_tried_again(self, ground: Ground) -> None:
        store = await ground.open("one")
        row_id = await offer(store)
        (row,) = await scenes.take_replies(store)
        await scenes.settle(store, row, state="dead")
        await revise(store, row_id)
        assert await scenes.take_replies(store) == []

    async def test_a_choice_that_was_made_is_offered_nowhere_in_its_chat(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        for text in ("Which?", "And now?"):
            await offer(store, text)
        assert not await withdraw(store, FIRST.command, "C2")
        assert not await withdraw(store, "/stop s3")
        assert await withdraw(store, FIRST.command)
        assert not await withdraw(store, FIRST.command)
        rows = await scenes.take_replies(store)
        assert [row.text for row in rows] == ["Which?\n\nStop 1: yes", "And now?\n\nStop 1: yes"]
        assert {row.choices for row in rows} == {(SECOND,)}
