"""Clauses of `claims` and `turns`: one turn a session, in order of arrival, ended as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby, product

from sqlalchemy import Executable, event

from clawbot.messages import ReplyRoute
from clawbot.ports import Parameters, Rows, Store, Transaction
from clawbot.queueing import QueueRules
from clawbot.store import claims, events, holding, processes, turns
from clawbot.store.claims import Claim
from clawbot.store.turns import Outcome
from tests.contracts.store import scenes
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import KEY, NOW_MS, in_group, said


class Watched:
    """A transaction that tells of each prepared statement before it runs."""

    def __init__(self, tx: Transaction, before: Callable[[], None]) -> None:
        self.conn, self.ring, self.insert = tx.conn, tx.ring, tx.insert
        self.prepared, self.lease_ms = tx.prepared, tx.lease_ms
        self._run, self._before = tx.run, before

    def run(self, statement: Executable, of: Parameters | Sequence[Parameters]) -> Rows:
        """See `Transaction`."""
        self._before()
        return self._run(statement, of)


class TurnClauses:
    """What workers may rely on."""

    async def test_of_two_workers_one_gets_a_session(self, ground: Ground) -> None:
        stores = [await ground.open("one"), await ground.open("two")]
        for number in range(25):
            await scenes.accept(stores[0], said(f"m{number}", chat_id=f"C{number}"))
        claimed: list[Claim] = []

        async def work(store: Store, worker: str) -> None:
            while taken := await scenes.claim(store, worker, limit=2):
                claimed.extend(taken)
                assert len({turn.session for turn in claimed}) == len(claimed)

        await asyncio.gather(*(work(store, f"w{n}") for n, store in enumerate(stores * 2)))
        assert len(claimed) == 25

    async def test_a_message_waits_until_the_turn_before_it_ends(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store, "first")
        await scenes.accept(store, said("m2", "second"))
        assert await scenes.claim(store, "other") == []
        await scenes.finish(store, turn)
        (following,) = await scenes.claim(store, "other")
        assert [row.text for row in following.rows] == ["second"]
        assert following.turn_id != turn.turn_id

    async def test_a_chat_gets_so_many_turns_and_then_others_theirs(self, ground: Ground) -> None:
        store = await ground.open("one")
        for number in range(20):
            await scenes.accept(store, in_group(f"m{number}", chat_id="C1"))
        for chat in ("C1", "C10", "C2"):
            await scenes.accept(store, said(f"in-{chat}", chat_id=chat))

        async def claimed(limit: int, **running: int) -> list[str]:
            counts = {f"desk:{chat}": count for chat, count in running.items()}
            turns = await scenes.claim(store, limit=limit, running=counts, per_chat=5)
            return sorted(str(turn.session.chat_id) for turn in turns)

        assert await claimed(4, C1=3, C=5, C2=5) == ["C1", "C1", "C10"]
        assert await claimed(4, C1=5) == ["C2"]
        assert await claimed(100, C1=0) == ["C1"] * 5

    async def test_a_worker_gets_the_sessions_of_its_pools_and_no_others(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        rules = scenes.rules_of(queue=QueueRules(pool="gpu"))
        await scenes.accept(store, said("m1", chat_id="C1"), rules)
        await scenes.accept(store, said("m2", chat_id="C2"))
        assert await scenes.claim(store, pools=["other"]) == []
        (plain,) = await scenes.claim(store, pools=["default", "other"])
        assert plain.session.chat_id == "C2"
        (turn,) = await scenes.claim(store, pools=["gpu"])
        assert turn.session.chat_id == "C1"
        await scenes.finish(store, turn)
        # It stays where its files are, whatever its channel's pool is by now.
        await scenes.accept(store, said("m3", chat_id="C1"), scenes.rules_of())
        assert await scenes.claim(store, pools=["default"]) == []
        (again,) = await scenes.claim(store)
        assert again.session.chat_id == "C1"

    async def test_one_living_process_holds_a_channel(self, ground: Ground) -> None:
        stores = [await ground.open("one"), await ground.open("two")]

        async def hold(number: int) -> bool:
            name = f"adapter-{number}"
            return await stores[number].write(
                lambda tx: holding.hold(tx, scenes.DESK, name, NOW_MS)
            )

        for number, store in enumerate(stores):
            await store.write(partial(processes.beat, process_id=f"adapter-{number}", role="a"))
        held = await asyncio.gather(hold(0), hold(1))
        assert sorted(held) == [False, True]
        first = held.index(True)
        assert [await hold(first), await hold(1 - first)] == [True, False]
        await stores[0].write(partial(processes.release, process_id=f"adapter-{first}"))
        assert await stores[0].read(partial(holding.holder_of, channel=scenes.DESK)) is None
        assert await hold(1 - first)
        await stores[0].write(partial(processes.beat, process_id=f"adapter-{first}", role="a"))
        assert not await hold(first)
        holder = await stores[0].read(partial(holding.holder_of, channel=scenes.DESK))
        assert holder == f"adapter-{1 - first}"

    async def test_only_consecutive_messages_of_one_sender_join(self, ground: Ground) -> None:
        store = await ground.open("one")
        bursts = [b for length in range(1, 5) for b in product("AB", repeat=length)]
        for number, burst in enumerate(bursts):
            for position, sender in enumerate(burst):
                identity = f"{number}-{position}"
                await scenes.accept(
                    store, said(identity, identity, chat_id=f"C{number}", by=sender)
                )
        found: dict[str, list[str]] = {}
        while taken := await scenes.claim(store, limit=100):
            for turn in taken:
                senders = "".join(row.sender.id for row in turn.rows)
                found.setdefault(turn.rows[0].chat_id, []).append(senders)
                await scenes.finish(store, turn)
        expected = {
            f"C{number}": ["".join(run) for _, run in groupby(burst)]
            for number, burst in enumerate(bursts)
        }
        assert found == expected

    async def test_messages_for_different_places_do_not_join(self, ground: Ground) -> None:
        store = await ground.open("one")
        rules = scenes.rules_of(scope="chat")
        await scenes.accept(store, said("m1", thread="t1"), rules)
        await scenes.accept(store, said("m2", thread="t2"), rules)
        (turn,) = await scenes.claim(store)
        assert turn.route == ReplyRoute(chat_id="C1", thread="t1", can_edit=True)
        assert [row.thread for row in turn.rows] == ["t1"]

    async def test_a_turn_begins_with_its_messages_in_the_history(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store, "a question")
        await scenes.record(store, turn, "a step")
        assert await scenes.history_of(store, KEY) == ["a question", "a step"]
        assert await scenes.column(store, "messages.turn_id") == [turn.turn_id, None]

    async def test_a_turn_is_resumed_where_it_stood(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        outbox_id = await scenes.draft(store, turn, "half an answer")
        assert outbox_id is not None
        await store.write(lambda tx: processes.release(tx, "worker"))
        (again,) = await scenes.claim(store, "other")
        assert (again.turn_id, again.is_resumed, again.fence > turn.fence) == (
            *(turn.turn_id, True, True),
        )
        assert [row.id for row in again.rows] == [row.id for row in turn.rows]
        assert (again.draft_text, again.outbox_id) == ("half an answer", outbox_id)
        assert await scenes.draft(store, again, "half an answer and more") == outbox_id

    async def test_only_unclean_ends_without_progress_count_as_attempts(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        await scenes.begin(store)
        attempts = []
        for number in range(3):
            await store.write(lambda tx: processes.release(tx, "worker"))
            (turn,) = await scenes.claim(store)
            attempts.append(turn.attempt)
            if number == 1:
                await scenes.record(store, turn)
        assert attempts == [1, 2, 1]
        await store.write(lambda tx: claims.give_back(tx, turn, NOW_MS))
        (turn,) = await scenes.claim(store)
        assert turn.attempt == 1

    async def test_a_finished_turn_is_done_in_every_table(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.finish(store, turn, "an answer")
        assert await scenes.column(store, "inbox.state") == ["done"]
        assert await scenes.column(store, "turns.state") == ["done"]
        assert await scenes.column(store, "sessions.owner") == [None]
        assert await scenes.column(store, "sessions.visible_total") == [1]
        assert await scenes.history_of(store, KEY) == ["hello", "an answer"]
        assert await scenes.column(store, "outbox.text") == ["an answer"]
        assert await scenes.column(store, "outbox.state") == ["pending"]
        page = await store.read(lambda tx: events.since(tx, {}))
        kinds = [one.kind for one in page.events]
        assert kinds == ["accepted", "turn_started", "reply", "turn_ended"]

    async def test_a_growing_reply_ends_in_its_own_row(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.draft(store, turn, "an")
        assert await scenes.column(store, "outbox.state") == ["streaming"]
        await scenes.finish(store, turn, "an answer")
        assert await scenes.column(store, "outbox.text") == ["an answer"]
        assert await scenes.column(store, "outbox.state") == ["pending"]

    async def test_a_turn_without_reply_ends_in_what_its_draft_shows(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.draft(store, turn, "as far as it came")
        await scenes.finish(store, turn, None, "failed")
        assert await scenes.column(store, "outbox.text") == ["as far as it came"]
        assert await scenes.column(store, "inbox.state") == ["dead"]

    async def test_a_turn_ends_whole_or_not_at_all(self, ground: Ground) -> None:
        store = await ground.open("one")
        turn = await scenes.begin(store)
        await scenes.draft(store, turn, "an")
        before = await store.read(scenes.everything)
        outcome = Outcome(state="done", reply="an answer")
        statements = 0

        def end(tx: Transaction, fail_at: int) -> None:
            """Finish, and break down at one of its statements."""
            nonlocal statements
            statements = 0

            def count(*_args: object) -> None:
                nonlocal statements
                statements += 1
                if statements == fail_at:
                    raise LookupError

            event.listen(tx.conn, "before_cursor_execute", count)
            try:
                turns.finish(Watched(tx, count), turn, outcome, NOW_MS)
            finally:
                event.remove(tx.conn, "before_cursor_execute", count)

        for fail_at in range(1, 100):
            try:
                await store.write(partial(end, fail_at=fail_at))
            except LookupError:
                assert await store.read(scenes.everything) == before
            else:
                break
        assert statements > 5
        assert await scenes.column(store, "turns.state") == ["done"]
        assert await store.read(scenes.everything) != before
