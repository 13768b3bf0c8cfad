"""Scenarios F1-F11 and J4, at the level of the store, its events and the chat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from clawbot.config import Models
from clawbot.history import Entry, EntryKind
from clawbot.intake import admit_for_session
from clawbot.messages import ChatType, InboundMessage, Sender
from clawbot.ports import Store
from clawbot.session_key import SessionKey
from clawbot.store import events, places, session_list, sessions
from clawbot.store.engine import SqliteStore
from tests.contracts.sqlite_ground import SqliteGround, make_template
from tests.contracts.store import scenes
from tests.contracts.store.scenes import KEY, NOW_MS

MODELS = Models(usual="scripted")

OTHER = SessionKey.of_chat(scenes.DESK, "C2")
PHONE, DESKTOP = "browser:phone", "browser:desktop"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("unread"))


@pytest.fixture
async def store(template: Path) -> AsyncIterator[Store]:
    made = SqliteGround(template, patience_s=20)
    yield await made.open("one")
    await made.close()


async def answered(store: Store, text: str, *, chat: str = "C1") -> None:
    """A message and its answer."""
    await scenes.accept(store, scenes.said(f"{chat}-{text}", text, chat_id=chat))
    (turn,) = await scenes.claim(store)
    await scenes.finish(store, turn, reply=f"re {text}")


async def page_since(store: Store, cursor: dict[str, int], limit: int = 500) -> events.EventPage:
    return await store.read(lambda tx: events.since(tx, cursor, limit=limit))


async def total(store: Store, key: SessionKey = KEY) -> int:
    row = await store.read(lambda tx: sessions.find(tx, key))
    return 0 if row is None else int(row["visible_total"])


async def see(store: Store, viewer: str, upto: int) -> None:
    await store.write(lambda tx: places.mark_seen(tx, viewer, str(KEY), upto))


async def unread(store: Store, viewer: str) -> int:
    """What a viewer has not seen of the first session."""
    seen = await store.read(lambda tx: places.seen_total(tx, viewer, str(KEY)))
    return max(0, await total(store) - seen)


async def test_F1_events_name_their_session_and_count_for_it_alone(store: Store) -> None:
    await answered(store, "one")
    cursor = await store.read(events.heads)
    await answered(store, "two", chat="C2")
    page = await page_since(store, cursor)
    assert {item.session_key for item in page.events} == {str(OTHER)}
    numbers = [item.seq for item in page.events]
    assert numbers == sorted(set(numbers))
    assert (await total(store), await total(store, OTHER)) == (1, 1)


async def test_F2_each_viewer_has_a_position_of_its_own_and_what_people_say_counts_for_none(
    store: Store,
) -> None:
    for text in ("one", "two"):
        await answered(store, text)
    await scenes.accept(store, scenes.said("mine", "my own words"))
    assert (await unread(store, PHONE), await unread(store, DESKTOP)) == (2, 2)
    await see(store, PHONE, 2)
    assert (await unread(store, PHONE), await unread(store, DESKTOP)) == (0, 2)


async def test_F3_a_position_beyond_the_total_is_no_negative_count(store: Store) -> None:
    await answered(store, "one")
    await see(store, PHONE, 5)
    assert await unread(store, PHONE) == 0
    await scenes.stop(store, new_epoch=True)
    assert await total(store) == 1


async def test_F4_a_new_viewer_begins_with_everything_seen(store: Store) -> None:
    for text in ("one", "two"):
        await answered(store, text)
    await store.write(lambda tx: places.begin_reading(tx, PHONE, str(KEY), 2))
    assert await unread(store, PHONE) == 0
    await answered(store, "three")
    assert await unread(store, PHONE) == 1


async def test_F5_of_all_that_a_turn_does_its_answer_alone_counts_once(store: Store) -> None:
    turn = await scenes.begin(store)
    steps = [
        Entry(kind=EntryKind.THINKING, text="hm", turn_id=turn.turn_id, step=0),
        Entry(kind=EntryKind.TOOL_CALL, call_id="1", tool="look", turn_id=turn.turn_id, step=0),
        Entry(kind=EntryKind.TOOL_RESULT, call_id="1", tool="look", turn_id=turn.turn_id, step=0),
    ]
    await store.write(lambda tx: scenes.turns.record(tx, turn, steps, NOW_MS))
    for text in ("grow", "growing", "growing up"):
        await scenes.draft(store, turn, text)
    assert await total(store) == 0
    await scenes.finish(store, turn, reply="growing up")
    assert await total(store) == 1


async def test_F6_a_reader_that_was_away_goes_on_without_gap_or_double(store: Store) -> None:
    await answered(store, "one")
    first = await page_since(store, {})
    await answered(store, "two")
    second = await page_since(store, first.cursor)
    whole = await page_since(store, {})
    assert [*first.events, *second.events] == whole.events
    assert (await page_since(store, second.cursor)).events == []


async def test_F7_the_totals_of_a_thousand_sessions_are_two_queries_without_histories(
    store: Store,
) -> None:
    assert isinstance(store, SqliteStore)
    for number in range(1000):
        key = SessionKey.of_chat(scenes.DESK, f"C{number}")
        await store.write(lambda tx, key=key: sessions.take_numbers(tx, key, 1, NOW_MS))  # type: ignore[misc]
    statements: list[str] = []

    def see_statement(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement)

    event.listen(store._engine, "before_cursor_execute", see_statement)
    found = await store.read(session_list.totals)
    queries = [statement for statement in statements if statement.startswith("SELECT")]
    assert found.active == 1000
    assert len(queries) == 2
    assert not any("messages" in statement for statement in queries)


async def test_F8_what_nobody_reports_as_seen_stays_unread(store: Store) -> None:
    await store.write(lambda tx: places.begin_reading(tx, DESKTOP, str(KEY), 0))
    await answered(store, "one")
    await page_since(store, {})
    assert await unread(store, DESKTOP) == 1


async def test_F9_a_session_that_a_reader_does_not_know_comes_with_its_whole_history(
    store: Store,
) -> None:
    await answered(store, "one")
    cursor = await store.read(events.heads)
    await answered(store, "begun on the phone", chat="C2")
    page = await page_since(store, cursor)
    kinds = [item.kind for item in page.events if item.session_key == str(OTHER)]
    assert kinds == ["accepted", "turn_started", "reply", "turn_ended"]
    assert await scenes.history_of(store, OTHER) == ["begun on the phone", "re begun on the phone"]


async def test_F10_a_slow_reader_is_given_the_newest_and_told_of_the_gap(store: Store) -> None:
    for number in range(5):
        await answered(store, f"m{number}")
    page = await page_since(store, {}, limit=4)
    assert len(page.events) == 4
    assert page.has_gap == {str(KEY)}
    assert page.events[-1].seq == (await store.read(events.heads))[str(KEY)]


async def test_F11_a_message_sent_twice_by_its_client_is_one(store: Store) -> None:
    message = InboundMessage(
        channel="web",
        identity="web:client-id-1",
        chat_id="global",
        chat_type=ChatType.DM,
        sender=Sender(id="me"),
        text="hello",
        raw="",
    )
    taken = [
        await store.write(
            lambda tx: admit_for_session(tx, message, SessionKey.of_global(), MODELS, NOW_MS)
        )
        for _ in range(2)
    ]
    assert taken[0].inbox_id == taken[1].inbox_id
    assert [item.is_duplicate for item in taken] == [False, True]
    assert len(await scenes.claim(store)) == 1


async def test_J4_a_new_conversation_stays_new_after_a_restart(template: Path) -> None:
    ground = SqliteGround(template, patience_s=20)
    try:
        first = await ground.open("one")
        await answered(first, "old")
        await scenes.stop(first, new_epoch=True)
        await first.close()
        again = await ground.open("two")
        await answered(again, "new")
        row = await again.read(lambda tx: sessions.find(tx, KEY))
        assert row is not None
        assert await scenes.history_of(again, KEY, row["epoch"]) == ["new", "re new"]
        assert await scenes.history_of(again, KEY, 0) == ["old", "re old"]
    finally:
        await ground.close()
