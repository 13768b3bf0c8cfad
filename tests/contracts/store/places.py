"""Clauses of `places`: a reply is sent while its session is active, else held, and never lost."""

from __future__ import annotations

import asyncio
import json
from functools import partial

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawbot.commands import tasks
from clawbot.messages import OutboundFile, Place
from clawbot.ports import Store, Transaction
from clawbot.store import places
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground, child
from tests.contracts.store.scenes import DESK, KEY

PLACE = Place(channel=DESK, chat_id="C1")
TASK = KEY.with_task("42")
FILE = OutboundFile(name="a.csv", mime="text/csv", size_bytes=3, blob="abc")
ROUNDS = 25


async def open_task(store: Store, name: str = "42") -> None:
    """Open a sub-session, which becomes the active one."""
    await store.write(lambda tx: tasks.task(tx, f"new {name}", scenes.standing()))


async def deliver(store: Store) -> list[str]:
    """Claim and send what can be sent; return the texts."""
    rows = await scenes.take_replies(store)
    for row in rows:
        await scenes.settle(store, await scenes.send(store, row))
    return [row.text for row in rows]


async def answer(store: Store, text: str) -> None:
    """A turn of the session that is active, to its end."""
    await scenes.finish(store, await scenes.begin(store, text), reply=f"re {text}")


async def unread(store: Store) -> dict[str, int]:
    """What the place has not seen, by session."""

    def look(tx: Transaction) -> dict[str, int]:
        return {str(item.session): item.count for item in places.overview(tx, PLACE, KEY)}

    return await store.read(look)


class PlaceClauses:
    """What people may rely on who work in several conversations at one place."""

    async def test_a_reply_is_held_while_another_session_is_active_and_comes_with_the_choice(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await open_task(store)
        turn = await scenes.begin(store, "hello")
        assert turn.session == TASK
        await scenes.use(store, "base")
        await scenes.finish(store, turn, reply="re hello")
        assert await deliver(store) == []
        assert (await unread(store))[str(TASK)] == 1
        assert await scenes.use(store, "42") == "You are in: task 42.\n\nre hello"
        assert (await unread(store))[str(TASK)] == 0
        assert await scenes.use(store, "42") == "You are in: task 42."

    async def test_a_held_reply_blocks_no_other(self, ground: Ground) -> None:
        store = await ground.open("one")
        await open_task(store)
        turn = await scenes.begin(store, "hello")
        await scenes.draft(store, turn, "growing")
        await scenes.use(store, "base")
        assert await deliver(store) == []
        await answer(store, "there")
        assert await deliver(store) == ["re there"]
        await scenes.finish(store, turn, reply="re hello")
        assert await deliver(store) == []
        assert "re hello" in await scenes.use(store, "42")

    async def test_a_growing_reply_goes_on_where_its_session_is_chosen_again(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await open_task(store)
        turn = await scenes.begin(store, "hello")
        await scenes.draft(store, turn, "growing")
        await scenes.use(store, "base")
        assert await deliver(store) == []
        await scenes.use(store, "42")
        (row,) = await scenes.take_replies(store)
        assert (row.state, row.text) == ("streaming", "growing")

    async def test_what_was_said_before_a_question_is_read_where_its_session_is_chosen_again(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await open_task(store)
        turn = await scenes.begin(store, "hello")
        await scenes.draft(store, turn, "so far")
        await scenes.use(store, "base")
        assert await deliver(store) == []
        await scenes.ask(store, turn)
        await scenes.park(store, turn)
        assert "so far" in await scenes.use(store, "42")
        states = await scenes.column(store, "outbox.state")
        assert "streaming" not in states, "it grows no more, and is in nobody's way"

    async def test_a_held_file_is_sent_as_such_where_its_session_is_chosen(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await open_task(store)
        await scenes.use(store, "base")
        await scenes.put_reply(store, "no file", session_key=str(TASK), file=FILE)
        await scenes.put_reply(store, "before it")
        assert await deliver(store) == []  # the file was in its way, and is held
        assert await deliver(store) == ["before it"]
        await scenes.put_reply(store, "before it too")
        assert "no file" not in await scenes.use(store, "42")
        assert await deliver(store) == ["before it too"]
        (row,) = await scenes.take_replies(store)
        assert (row.state, row.file) == ("sending", FILE)

    async def test_what_was_sent_or_delivered_later_counts_as_seen_once(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await answer(store, "one")
        assert await unread(store) == {str(KEY): 1}
        await deliver(store)
        assert await unread(store) == {str(KEY): 0}

    async def test_choosing_races_with_a_finishing_turn_and_no_reply_is_lost_or_doubled(
        self, ground: Ground
    ) -> None:
        first, second = await ground.open("one"), await ground.open("two")
        await open_task(first)
        seen: list[str] = []
        for number in range(ROUNDS):
            await scenes.use(first, "42")
            turn = await scenes.begin(first, f"m{number}.")
            await scenes.use(first, "base")

            async def work(turn: object = turn, number: int = number) -> list[str]:
                await scenes.finish(first, turn, reply=f"r{number}.")  # type: ignore[arg-type]
                return await deliver(first)

            if number % 5:
                sent, missed = await asyncio.gather(work(), scenes.use(second, "42"))
            else:  # the reply is held before anybody chooses
                sent, missed = await work(), await scenes.use(second, "42")
            seen += [*sent, missed, *await deliver(first), await scenes.use(second, "42")]
        said = "\n".join(seen)
        assert [said.count(f"r{number}.") for number in range(ROUNDS)] == [1] * ROUNDS

    async def test_choosing_in_another_process_races_with_a_finishing_turn(
        self, ground: Ground
    ) -> None:
        store = await ground.open("parent")
        await open_task(store)
        seen: list[str] = []
        async with child("choose", ground) as other:
            other.tell()
            for number in range(ROUNDS):
                await scenes.use(store, "42")
                turn = await scenes.begin(store, f"m{number}.")
                await scenes.use(store, "base")
                if number % 5:  # else the reply is held before anybody chooses
                    other.tell()
                await scenes.finish(store, turn, reply=f"r{number}.")
                seen += await deliver(store)
                if not number % 5:
                    other.tell()
                seen.append(json.loads(await other.line()))
                seen += [*await deliver(store), await scenes.use(store, "42")]
        said = "\n".join(seen)
        assert [said.count(f"r{number}.") for number in range(ROUNDS)] == [1] * ROUNDS

    async def test_unread_behaves_as_a_plain_count_says(self, ground: Ground) -> None:
        store = await ground.open("one")
        loop = asyncio.get_running_loop()
        for name in ("a", "b"):
            await open_task(store, name)
        steps = st.lists(st.sampled_from(["a", "b", "base", "ask", "unread"]), max_size=12)
        counter = iter(range(10_000))

        @given(steps)
        @settings(
            max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), database=None
        )
        def check(actions: list[str]) -> None:
            run = partial(self._follow, store, actions, counter)
            asyncio.run_coroutine_threadsafe(run(), loop).result()

        await asyncio.to_thread(check)

    @staticmethod
    async def _follow(store: Store, actions: list[str], counter: object) -> None:
        """Do as told, beside a reference of two numbers a session: given and seen."""
        names = {"base": KEY, "a": KEY.with_task("a"), "b": KEY.with_task("b")}
        await scenes.use(store, "base")
        await store.write(lambda tx: tasks.unread(tx, scenes.standing()))
        active, missed = "base", dict.fromkeys(names, 0)
        for action in actions:
            if action in names:
                text = await scenes.use(store, action)
                assert text.count("[it]") == missed[action]
                active, missed[action] = action, 0
            elif action == "unread":
                at = scenes.standing(names[active])
                text = await store.write(lambda tx, at=at: tasks.unread(tx, at))  # type: ignore[misc]
                assert text.count("[it]") == sum(missed.values()) - missed[active]
                missed = {name: missed[name] if name == active else 0 for name in names}
            else:
                turn = await scenes.begin(store, f"q{next(counter)}")  # type: ignore[call-overload]
                other = "a" if active != "a" else "b"
                await scenes.use(store, other)
                missed[other] = 0
                await scenes.finish(store, turn, reply="[it]")
                assert await deliver(store) == []
                missed[active] += 1
                active = other
            told = await unread(store)
            assert {name: told[str(key)] for name, key in names.items()} == missed
