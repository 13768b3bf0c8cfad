"""A worker's turns on a real store: whatever happens to one, it ends visibly and alone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update

from clawbot import worker
from clawbot.agent.calling import Timing
from clawbot.agent.loop import Answer
from clawbot.clock import SystemClock
from clawbot.history import Entry, EntryKind
from clawbot.journal import STORE_RETRY_S, StoreJournal
from clawbot.lease import Heartbeat
from clawbot.ports import Reporter, Store, Transaction
from clawbot.store import claims
from clawbot.store.claims import Claim
from clawbot.store.schema import inbox
from clawbot.worker import Worker, WorkerLimits
from tests.contracts.sqlite_ground import SqliteGround, make_template
from tests.contracts.store import scenes
from tests.contracts.store.scenes import accept, said

WAIT_S = 20

Turn = Callable[[Claim, StoreJournal], Awaitable[str]]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("worker"))


@pytest.fixture
async def ground(template: Path) -> AsyncIterator[SqliteGround]:
    made = SqliteGround(template, patience_s=WAIT_S)
    yield made
    await made.close()


@pytest.fixture
async def store(ground: SqliteGround) -> Store:
    return await ground.open("worker")


class Scripted:
    """Runs the turn of a message by the function of its text; others are echoed."""

    def __init__(self, **turns: Turn) -> None:
        self._turns = turns

    async def run(
        self, claim: Claim, journal: StoreJournal, reporter: Reporter, timing: Timing
    ) -> Answer:
        asked = claim.rows[-1].text
        text = await self._turns[asked](claim, journal) if asked in self._turns else asked
        entry = Entry(kind=EntryKind.ASSISTANT, text=text, turn_id=claim.turn_id, step=0)
        return Answer(entries=(entry,), texts=(text,))


class WatchedClock(SystemClock):
    """Tells when somebody waits to try the store again."""

    def __init__(self) -> None:
        self.has_waited = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds == STORE_RETRY_S:
            self.has_waited.set()
        await super().sleep(seconds)


@asynccontextmanager
async def working(
    store: Store,
    runner: Scripted,
    name: str = "worker",
    grace_s: float = 5,
    clock: SystemClock | None = None,
    turns: int = 50,
) -> AsyncIterator[None]:
    """A worker; at the end of the block it drains."""
    clock, stop = clock or SystemClock(), asyncio.Event()
    heartbeat = Heartbeat(store, clock, name, "worker", interval_s=5, lease_s=15)
    limits = WorkerLimits(turns=turns, turn_timeout_s=60, grace_s=grace_s, context_rows=0)
    task = asyncio.create_task(Worker(store, clock, heartbeat, runner, limits).run(stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(task, WAIT_S)


async def ask(store: Store, text: str, chat_id: str = "C1") -> None:
    accepted = await accept(store, said(text, text, chat_id=chat_id))
    assert accepted.decision == "queued"


async def until_ended(store: Store, *states: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while await scenes.column(store, "inbox.state") != list(states):  # noqa: ASYNC110 a store
            await asyncio.sleep(0.01)


async def replies(store: Store) -> list[str]:
    return [str(text) for text in await scenes.column(store, "outbox.text")]


async def test_a_turn_whose_end_no_database_takes_ends_visibly_and_alone(store: Store) -> None:
    other_may_end = asyncio.Event()

    async def unwritable(_claim: Claim, _journal: StoreJournal) -> str:
        return "half \ud83d of a pair"

    async def waits(_claim: Claim, _journal: StoreJournal) -> str:
        await other_may_end.wait()
        return "answered"

    async with working(store, Scripted(unwritable=unwritable, waits=waits)):
        await ask(store, "waits", "C1")
        await until_ended(store, "claimed")
        await ask(store, "unwritable", "C2")
        await until_ended(store, "claimed", "dead")
        other_may_end.set()
        await until_ended(store, "done", "dead")
    failed, answered = await replies(store)
    assert answered == "answered"
    assert "error" in failed
    assert "pair" not in failed


async def test_a_session_whose_turn_cannot_be_made_holds_up_no_other(store: Store) -> None:
    await ask(store, "poison", "C1")
    await ask(store, "hello", "C2")
    await store.write(
        lambda tx: tx.conn.execute(
            update(inbox).where(inbox.c.text == "poison").values(route={"unknown": "key"})
        )
    )
    async with working(store, Scripted()):
        await until_ended(store, "queued", "done")
    assert await replies(store) == ["hello"]
    assert await scenes.column(store, "sessions.owner") == [None, None]


async def test_an_agent_that_cancels_itself_ends_visibly_and_alone(store: Store) -> None:
    async def cancelled(_claim: Claim, _journal: StoreJournal) -> str:
        raise asyncio.CancelledError

    async with working(store, Scripted(cancelled=cancelled)):
        await ask(store, "cancelled", "C1")
        await until_ended(store, "dead")
        await ask(store, "hello", "C2")
        await until_ended(store, "dead", "done")
    failed, answered = await replies(store)
    assert "error" in failed
    assert answered == "hello"


async def test_a_step_that_finds_the_disk_full_waits_for_room(
    ground: SqliteGround, store: Store
) -> None:
    has_begun, is_full = asyncio.Event(), asyncio.Event()
    clock = WatchedClock()

    async def long(claim: Claim, journal: StoreJournal) -> str:
        has_begun.set()
        await is_full.wait()
        step = Entry(kind=EntryKind.ASSISTANT, text="w" * 100_000, turn_id=claim.turn_id, step=0)
        await journal.record([step])
        return "there was room again"

    async with working(store, Scripted(long=long), clock=clock):
        await ask(store, "long")
        await has_begun.wait()
        with ground.unwritable():
            is_full.set()
            await clock.has_waited.wait()
        await until_ended(store, "done")
    assert await replies(store) == ["there was room again"]


async def test_a_turn_that_outlasts_the_grace_is_resumed_by_the_next_worker(store: Store) -> None:
    has_begun = asyncio.Event()

    async def endless(_claim: Claim, _journal: StoreJournal) -> str:
        has_begun.set()
        await asyncio.Event().wait()
        return "never"

    async def resumed(claim: Claim, _journal: StoreJournal) -> str:
        assert claim.is_resumed
        assert claim.attempt == 0
        return "resumed"

    await ask(store, "task")
    async with working(store, Scripted(task=endless), "first", grace_s=0.1):
        await has_begun.wait()
    await until_ended(store, "claimed")
    async with working(store, Scripted(task=resumed), "second"):
        await until_ended(store, "done")
    assert await replies(store) == ["resumed"]


async def test_an_end_makes_a_full_worker_look_for_turns_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LOOK_AGAIN_S", 3 * WAIT_S)
    may_end = asyncio.Event()

    async def waits(_claim: Claim, _journal: StoreJournal) -> str:
        await may_end.wait()
        return "answered"

    async with working(store, Scripted(waits=waits), turns=1):
        await ask(store, "waits", "C1")
        await until_ended(store, "claimed")
        await ask(store, "next", "C2")
        may_end.set()
        await until_ended(store, "done", "done")


async def test_an_end_makes_a_worker_with_room_look_for_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LOOK_AGAIN_S", 3 * WAIT_S)
    found: list[int] = []

    def looked(tx: Transaction, name: str, **given: Any) -> list[Claim]:
        taken = claims.claim(tx, name, **given)
        found.append(len(taken))
        return taken

    monkeypatch.setattr(worker, "claims", SimpleNamespace(claim=looked))
    asked = 8
    async with working(store, Scripted()):
        for number in range(asked):
            await ask(store, f"message {number}")
            await until_ended(store, *["done"] * (number + 1))
    assert sum(found) == asked
    assert found.count(0) <= 2  # as it begins
