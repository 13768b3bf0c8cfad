"""Completing messages after they were acknowledged, on a real store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.enrichment import AT_ONCE, Enrichment
from clawbot.messages import InboundMessage
from clawbot.ports import Store
from tests.contracts.sqlite_ground import SqliteGround, make_template
from tests.contracts.store import scenes
from tests.contracts.store.scenes import DESK, NOW_MS, accept, said


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("enrichment"))


@pytest.fixture
async def store(template: Path) -> AsyncIterator[Store]:
    made = SqliteGround(template, patience_s=10.0)
    yield await made.open("adapter")
    await made.close()


class Names:
    """An enricher: `raw` names a message; those that begin with `slow` wait until they may end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = asyncio.Event()

    async def enrich(self, raw: str) -> InboundMessage:
        self.begun.append(raw)
        if raw.startswith("slow"):
            await self.may_end.wait()
        if raw == "broken":
            raise LookupError(raw)
        return said(raw, f"complete {raw}")


@asynccontextmanager
async def enriching(store: Store, names: Names) -> AsyncIterator[None]:
    task = asyncio.create_task(Enrichment(store, SystemClock(), "adapter", DESK, names).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


async def take_in(store: Store, identity: str) -> None:
    message = replace(said(identity, chat_id=identity), raw=identity, is_incomplete=True)
    now_ms = SystemClock().now_ms()
    assert (await accept(store, message, now_ms=now_ms)).decision == "received"


async def until_states(store: Store, wanted: dict[str, str]) -> None:
    async with asyncio.timeout(10):
        while True:
            found = zip(
                await scenes.column(store, "inbox.identity"),
                await scenes.column(store, "inbox.state"),
                strict=True,
            )
            if dict(found) == wanted:
                return
            await asyncio.sleep(0.01)


async def test_a_slow_message_holds_up_no_other(store: Store) -> None:
    names = Names()
    async with enriching(store, names):
        await take_in(store, "slow")
        async with asyncio.timeout(10):
            while names.begun != ["slow"]:  # noqa: ASYNC110 the enricher sets no event
                await asyncio.sleep(0.01)
        await take_in(store, "quick")
        await until_states(store, {"slow": "received", "quick": "queued"})
        names.may_end.set()
        await until_states(store, {"slow": "queued", "quick": "queued"})
    assert await scenes.column(store, "inbox.text") == ["complete slow", "complete quick"]


async def test_more_messages_than_fit_at_once_are_all_completed(store: Store) -> None:
    names = Names()
    identities = [f"slow-{number}" for number in range(AT_ONCE + 3)]
    for identity in identities:
        await take_in(store, identity)
    async with enriching(store, names):
        async with asyncio.timeout(10):
            while len(names.begun) < AT_ONCE:  # noqa: ASYNC110 the enricher sets no event
                await asyncio.sleep(0.01)
        assert len(names.begun) == AT_ONCE
        names.may_end.set()
        await until_states(store, dict.fromkeys(identities, "queued"))
    assert sorted(names.begun) == sorted(identities)


async def test_a_message_that_cannot_be_completed_goes_on_as_it_is(store: Store) -> None:
    async with enriching(store, Names()):
        await take_in(store, "broken")
        await until_states(store, {"broken": "queued"})
    assert await scenes.column(store, "inbox.text") == ["hello"]


async def test_completed_text_that_no_database_takes_is_replaced(store: Store) -> None:
    class Broken(Names):
        async def enrich(self, raw: str) -> InboundMessage:
            return said(raw, "half \ud83d of a pair")

    async with enriching(store, Broken()):
        await take_in(store, "m1")
        await until_states(store, {"m1": "queued"})
    assert await scenes.column(store, "inbox.text") == ["half \ufffd of a pair"]


async def test_a_message_past_its_deadline_is_given_a_moment_and_goes_on(store: Store) -> None:
    message = replace(said("slow"), raw="slow", is_incomplete=True)
    await accept(store, message, now_ms=NOW_MS)  # long ago
    async with enriching(store, Names()):
        await until_states(store, {"slow": "queued"})
    assert await scenes.column(store, "inbox.text") == ["hello"]
