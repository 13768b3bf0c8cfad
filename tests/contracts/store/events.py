"""Clauses of `events`: whoever reads on from a cursor sees each event once."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from clawbot.ports import Store, Transaction
from clawbot.session_key import SessionKey
from clawbot.store import events, sessions
from clawbot.store.events import EventPage
from tests.contracts.store.ground import Ground
from tests.contracts.store.scenes import DESK, NOW_MS
from tests.contracts.store.writes import ask

BUSY = SessionKey.of_chat(DESK, "busy")
QUIET = SessionKey.of_chat(DESK, "quiet")


def happen(tx: Transaction, key: SessionKey) -> int:
    """Write an event; its number."""
    numbers = sessions.take_numbers(tx, key, 1, NOW_MS)
    number = numbers.last_seq
    events.append(tx, key, number, numbers.epoch, "notice", {"number": number}, NOW_MS)
    return number


async def read_on(store: Store, cursor: dict[str, int], limit: int = 500) -> EventPage:
    """The next page."""
    return await store.read(lambda tx: events.since(tx, cursor, limit=limit))


def numbers(page: EventPage, key: SessionKey) -> list[int]:
    """The numbers of a session's events on a page."""
    return [one.seq for one in page.events if one.session_key == str(key)]


class EventClauses:
    """What browsers may rely on."""

    async def test_each_session_counts_for_itself_and_is_read_in_order(
        self, ground: Ground
    ) -> None:
        store = await ground.open("one")
        for key in (BUSY, BUSY, QUIET, BUSY):
            await store.write(partial(happen, key=key))
        page = await read_on(store, {})
        assert (numbers(page, BUSY), numbers(page, QUIET)) == ([1, 2, 3], [1])
        assert page.cursor == await store.read(events.heads) == {str(BUSY): 3, str(QUIET): 1}

    async def test_a_cursor_gives_each_event_once(self, ground: Ground) -> None:
        store = await ground.open("one")
        await store.write(lambda tx: happen(tx, BUSY))
        page = await read_on(store, {})
        assert (await read_on(store, page.cursor)).events == []
        await store.write(lambda tx: happen(tx, BUSY))
        page = await read_on(store, page.cursor)
        assert numbers(page, BUSY) == [2]
        assert (await read_on(store, page.cursor)).events == []

    async def test_an_early_number_that_is_committed_late_is_not_skipped(
        self, ground: Ground
    ) -> None:
        stores = [await ground.open("one"), await ground.open("two")]
        for _ in range(5):
            await stores[0].write(lambda tx: happen(tx, BUSY))
        numbered, commit = threading.Event(), threading.Event()

        def happen_slowly(tx: Transaction) -> None:
            happen(tx, QUIET)
            numbered.set()
            commit.wait(ground.patience_s)

        late = ask(stores[0].write(happen_slowly))
        assert await asyncio.to_thread(numbered.wait, ground.patience_s)
        soon = ask(stores[1].write(lambda tx: happen(tx, BUSY)))
        await asyncio.wait([soon], timeout=0.05)  # where the database lets it, it commits first
        page = await read_on(stores[1], {})
        assert numbers(page, QUIET) == []
        commit.set()
        await asyncio.gather(late, soon)
        rest = await read_on(stores[1], page.cursor)
        assert numbers(rest, QUIET) == [1]
        assert [*numbers(page, BUSY), *numbers(rest, BUSY)] == [1, 2, 3, 4, 5, 6]

    async def test_more_than_a_page_is_marked_as_a_gap(self, ground: Ground) -> None:
        store = await ground.open("one")
        for _ in range(4):
            await store.write(lambda tx: happen(tx, BUSY))
        await store.write(lambda tx: happen(tx, QUIET))
        page = await read_on(store, {}, limit=3)
        assert (numbers(page, BUSY), page.has_gap) == ([2, 3, 4], frozenset({str(BUSY)}))
        assert (await read_on(store, {str(BUSY): 1}, limit=3)).has_gap == frozenset()
        assert (await read_on(store, page.cursor)).events == []

    async def test_concurrent_events_are_numbered_without_hole_or_double(
        self, ground: Ground
    ) -> None:
        stores = [await ground.open("one"), await ground.open("two")]
        writes = [
            ask(store.write(lambda tx: happen(tx, BUSY))) for _ in range(30) for store in stores
        ]
        seen: list[int] = []
        cursor: dict[str, int] = {}
        async with asyncio.timeout(ground.patience_s):
            while len(seen) < 60:
                page = await read_on(stores[0], cursor)
                cursor = page.cursor
                seen += numbers(page, BUSY)
                if all(task.done() for task in writes):
                    await asyncio.gather(*writes)
        assert seen == list(range(1, 61))
