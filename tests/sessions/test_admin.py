"""Scenarios A5, A6, E5 and parts of A7, J5, J7: what is done to whole sessions."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select

from clawbot.errors import (
    InvalidSettings,
    LeaseLost,
    NoSuchSession,
    SessionTaken,
    StoreUnavailable,
    WorkDirsDiffer,
)
from clawbot.history import EntryKind
from clawbot.ports import Store, Transaction
from clawbot.seed import given_seed
from clawbot.session_key import SessionKey
from clawbot.store import copies, deletion, events, history, seeds, session_admin
from clawbot.store.schema import metadata, sessions
from clawbot.store.session_list import SessionFilter, list_sessions, totals
from tests.contracts.store import Ground
from tests.contracts.store import scenes as contract
from tests.contracts.store.scenes import NOW_MS
from tests.sessions.scenes import ask, claim, finish, rows_about, talk

KEY = SessionKey.of_chat("desk", "C1")
OTHER = SessionKey.of_chat("desk", "C2")


async def kinds_of(store: Store, key: SessionKey) -> list[str]:
    page = await store.read(lambda tx: events.since(tx, {}))
    return [event.kind for event in page.events if event.session_key == str(key)]


async def texts_of(store: Store, key: SessionKey, epoch: int = 0) -> list[str]:
    entries = await store.read(lambda tx: history.load(tx, key, epoch, newest=1000))
    return [entry.text for entry in entries if entry.kind is EntryKind.USER]


async def test_a5_a_hundred_first_messages_at_once_make_one_session(store: Store) -> None:
    await asyncio.gather(*(ask(store, KEY, f"m{n}", f"id{n}") for n in range(100)))
    rows = await store.read(lambda tx: list(tx.conn.execute(select(sessions)).mappings()))
    assert [(row["key"], row["last_seq"]) for row in rows] == [(str(KEY), 100)]
    numbers = await contract.column(store, "inbox.seq")
    assert sorted(numbers) == list(range(1, 101))


async def test_a5_a_hundred_openings_at_once_are_one_session_and_a_failed_one_is_none(
    store: Store,
) -> None:
    def fail(tx: Transaction) -> None:
        session_admin.open_session(tx, KEY, NOW_MS)
        raise WorkDirsDiffer

    with pytest.raises(WorkDirsDiffer):
        await store.write(fail)
    with pytest.raises(NoSuchSession):
        await store.read(lambda tx: session_admin.get(tx, KEY))
    opened = await asyncio.gather(
        *(store.write(lambda tx: session_admin.open_session(tx, KEY, NOW_MS)) for _ in range(100))
    )
    assert len(set(map(repr, opened))) == 1
    assert len(await store.read(lambda tx: list_sessions(tx, SessionFilter()))) == 1


async def test_a6_a_session_that_works_elsewhere_is_an_error_and_never_rebound_in_silence(
    store: Store,
) -> None:
    await store.write(lambda tx: session_admin.open_session(tx, KEY, NOW_MS, work_dirs=["/x"]))
    with pytest.raises(WorkDirsDiffer, match="works in /x, not in /y"):
        await store.write(lambda tx: session_admin.open_session(tx, KEY, NOW_MS, work_dirs=["/y"]))
    same = await store.write(
        lambda tx: session_admin.open_session(tx, KEY, NOW_MS, work_dirs=["/x"])
    )
    assert same.work_dirs == ("/x",)
    assert await kinds_of(store, KEY) == ["rebound"]
    await store.write(
        lambda tx: session_admin.open_session(tx, KEY, NOW_MS, work_dirs=["/y", "/z"], rebind=True)
    )
    page = await store.read(lambda tx: events.since(tx, {}))
    assert page.events[-1].kind == "rebound"
    assert page.events[-1].data == {"from": ["/x"], "to": ["/y", "/z"]}


async def test_e5_a_session_is_renamed_archived_and_comes_back_with_a_message(
    store: Store,
) -> None:
    await talk(store, KEY, "hello")
    await store.write(lambda tx: session_admin.rename(tx, KEY, "  my\nplan ", NOW_MS))
    await store.write(lambda tx: session_admin.set_archived(tx, KEY, NOW_MS, archived=True))
    shown = await store.read(lambda tx: list_sessions(tx, SessionFilter()))
    assert shown == []
    archived = await store.read(lambda tx: list_sessions(tx, SessionFilter(archived=True)))
    assert [view.words for view in archived] == ["my plan"]
    await ask(store, KEY, "again")
    shown = await store.read(lambda tx: list_sessions(tx, SessionFilter()))
    assert [view.key for view in shown] == [str(KEY)]
    assert (await kinds_of(store, KEY))[-3:] == ["renamed", "archived", "accepted"]


async def test_e5_lists_are_filtered_by_text_and_channel_and_bounded(store: Store) -> None:
    for number in range(5):
        await talk(store, SessionKey.of_chat("desk", f"C{number}"), "x", now_ms=NOW_MS + number)
    await talk(store, SessionKey.of_chat("desk-2", "C9"), "x", now_ms=NOW_MS + 9)
    await store.write(
        lambda tx: session_admin.rename(tx, SessionKey.of_chat("desk", "C3"), "100 % Plan", NOW_MS)
    )

    async def keys(**wanted: object) -> list[str]:
        views = await store.read(
            lambda tx: list_sessions(tx, SessionFilter(**wanted))  # type: ignore[arg-type]
        )
        return [view.key for view in views]

    assert await keys(text="0 % pl") == ["desk:C3"]
    assert await keys(text="_") == []
    assert await keys(channel="desk") == ["desk:C4", "desk:C3", "desk:C2", "desk:C1", "desk:C0"]
    assert await keys(limit=2) == ["desk-2:C9", "desk:C4"]
    counted = await store.read(totals)
    assert (counted.active, counted.archived, counted.working, counted.replies) == (6, 0, 0, 6)


async def test_e5_deletion_leaves_nothing_of_what_was_said_and_frees_the_key(store: Store) -> None:
    secret = "token_12345"
    task = KEY.with_task("7")
    for key in (KEY, task, OTHER):
        await store.write(lambda tx, key=key: seeds.give(tx, key, given_seed(secret), NOW_MS))
        await talk(store, key, secret)
        await store.write(lambda tx, key=key: session_admin.rename(tx, key, secret, NOW_MS))
    for chat in ("C1", "C2"):
        await contract.accept(store, contract.said(chat, secret, chat_id=chat, raw=secret))
    for turn in await claim(store):
        await finish(store, turn, secret)
    await contract.accept(store, contract.said("waits", secret, raw=secret))
    before = await store.read(lambda tx: rows_about(tx, secret))
    assert {"messages", "events", "inbox", "sessions", "seeds", "outbox"} <= set(before)
    for key in (KEY, task, OTHER):
        await store.write(lambda tx, key=key: deletion.delete_session(tx, key, NOW_MS))
    assert await store.read(lambda tx: rows_about(tx, secret)) == []
    assert await store.read(lambda tx: list_sessions(tx, SessionFilter(archived=None))) == []
    assert await claim(store) == []
    with pytest.raises(NoSuchSession):
        await store.write(lambda tx: deletion.delete_session(tx, KEY, NOW_MS))
    await talk(store, KEY, "a new life")
    info = await store.read(lambda tx: session_admin.get(tx, KEY))
    assert (info.title, info.archived, info.visible_total) == ("", False, 1)
    assert await texts_of(store, KEY, info.epoch) == ["a new life"]


async def test_e5_a_copy_of_a_message_that_was_deleted_is_not_answered_again(store: Store) -> None:
    message = contract.said("once", "hello")
    first = await contract.accept(store, message)
    await store.write(lambda tx: deletion.delete_session(tx, KEY, NOW_MS))
    again = await contract.accept(store, message)
    assert (again.is_duplicate, again.inbox_id) == (True, first.inbox_id)
    assert await claim(store) == []


async def test_e5_deletion_while_busy_stops_first_and_the_old_turn_writes_nothing(
    store: Store,
) -> None:
    await ask(store, KEY, "work")
    (turn,) = await claim(store)
    await ask(store, KEY, "and more")
    done = await store.write(lambda tx: deletion.delete_session(tx, KEY, NOW_MS))
    assert (done.had_turn, done.withdrawn) == (True, 1)
    with pytest.raises(LeaseLost):
        await finish(store, turn)
    # Not even when the key has a new turn under it.
    await ask(store, KEY, "something else")
    (new_turn,) = await claim(store)
    assert new_turn.fence != turn.fence
    with pytest.raises(LeaseLost):
        await finish(store, turn)
    await finish(store, new_turn)
    assert await texts_of(store, KEY, new_turn.epoch) == ["something else"]


async def test_e5_a_reply_that_people_saw_begin_is_sent_to_its_end_after_a_deletion(
    store: Store,
) -> None:
    turn = await contract.begin(store)
    await contract.draft(store, turn, "half of it")
    (row,) = await contract.take_replies(store)
    await store.write(lambda tx: deletion.delete_session(tx, KEY, NOW_MS))
    assert await contract.column(store, "outbox.state") == ["pending"]
    assert await contract.column(store, "outbox.text") == ["half of it"]
    await contract.settle(store, row)
    assert await contract.column(store, "outbox.session_key") == [None]


async def test_every_table_with_a_session_is_known_to_deletion() -> None:
    with_key = {table.name for table in metadata.sorted_tables if "session_key" in table.c}
    emptied = {table.name for table in deletion.content_tables()}
    assert with_key - emptied == deletion.NO_CONTENT


async def test_e5_and_j4_a_reset_begins_an_empty_history_that_stays_empty(store: Store) -> None:
    await talk(store, KEY, "one", "two")
    done = await store.write(lambda tx: session_admin.reset(tx, KEY, NOW_MS))
    assert done.epoch == 1
    assert await texts_of(store, KEY, 1) == []
    await talk(store, KEY, "three")
    assert await texts_of(store, KEY, 1) == ["three"]
    assert await texts_of(store, KEY, 0) == ["one", "two"]
    with pytest.raises(NoSuchSession):
        await store.write(lambda tx: session_admin.reset(tx, OTHER, NOW_MS))


async def test_j7_a_fork_has_the_history_and_then_goes_its_own_way(store: Store) -> None:
    await talk(store, KEY, "one", "two")
    await store.write(lambda tx: session_admin.change_settings(tx, KEY, {"max_steps": 3}, NOW_MS))
    target = KEY.with_task("fork")
    done = await store.write(lambda tx: copies.fork(tx, KEY, target, NOW_MS))
    assert done.entries == 10
    await talk(store, target, "three")
    await talk(store, KEY, "four")
    assert await texts_of(store, target) == ["one", "two", "three"]
    assert await texts_of(store, KEY) == ["one", "two", "four"]
    info = await store.read(lambda tx: session_admin.get(tx, target))
    assert (info.settings.max_steps, info.visible_total) == (3, 1)
    with pytest.raises(SessionTaken):
        await store.write(lambda tx: copies.fork(tx, KEY, target, NOW_MS))


async def test_j7_a_fork_may_take_an_earlier_epoch_or_a_part(store: Store) -> None:
    await talk(store, KEY, "one", "two")
    first = await store.read(lambda tx: history.load(tx, KEY, 0, newest=100))
    await store.write(lambda tx: session_admin.reset(tx, KEY, NOW_MS))
    await talk(store, KEY, "three")
    target = SessionKey.of_chat("web", "part")
    await store.write(
        lambda tx: copies.fork(tx, KEY, target, NOW_MS, epoch=0, through_seq=first[4].seq)
    )
    assert await texts_of(store, target) == ["one"]
    with pytest.raises(NoSuchSession, match="epoch 7"):
        await store.write(lambda tx: copies.fork(tx, KEY, OTHER, NOW_MS, epoch=7))


async def test_j7_continue_finds_the_newest_session_of_a_directory(store: Store) -> None:
    here = SessionKey.of_directory("/home/me/a")
    for number, key in enumerate(
        [
            here,
            here.with_task("old"),
            SessionKey.of_directory("/home/me/a0"),
            SessionKey.of_directory("/home/me/a/b"),
        ]
    ):
        await talk(store, key, "x", now_ms=NOW_MS + number * 10)
    found = await store.read(lambda tx: session_admin.newest_of_directory(tx, "/home/me/a"))
    assert found == here.with_task("old")
    assert await store.read(lambda tx: session_admin.newest_of_directory(tx, "/home")) is None


async def test_j5_order_is_by_number_also_when_the_clock_goes_back(store: Store) -> None:
    await talk(store, KEY, "one", now_ms=NOW_MS)
    await talk(store, KEY, "two", now_ms=NOW_MS - 3_600_000)
    await talk(store, KEY, "three", now_ms=NOW_MS - 60_000)
    assert await texts_of(store, KEY) == ["one", "two", "three"]
    page = await store.read(lambda tx: events.since(tx, {}))
    assert [event.seq for event in page.events] == sorted(event.seq for event in page.events)
    info = await store.read(lambda tx: session_admin.get(tx, KEY))
    assert info.active_ms >= NOW_MS - 60_000


async def when_back(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """All rows, once the database can be read again."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await store.read(contract.everything)
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def test_j3_a_disk_that_takes_no_more_is_an_error_and_what_was_there_stays(
    ground: Ground, store: Store
) -> None:
    await talk(store, KEY, "one")
    before = await store.read(contract.everything)
    with ground.unwritable():
        for change in (
            partial(session_admin.rename, key=KEY, title="x" * 200, now_ms=NOW_MS),
            partial(deletion.delete_session, key=KEY, now_ms=NOW_MS),
            partial(copies.fork, source=KEY, target=OTHER, now_ms=NOW_MS),
        ):
            with pytest.raises(StoreUnavailable):
                await store.write(change)
    assert await when_back(store) == before
    await talk(store, KEY, "two")
    assert await texts_of(store, KEY) == ["one", "two"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"max_steps": 0}, "max_steps"),
        ({"temperature": "hot"}, "temperature"),
        ({"model": "no-colon"}, "model"),
        ({"colour": 1}, "colour: unknown; there are history_messages"),
    ],
)
async def test_e4_settings_that_cannot_be_are_refused_and_nothing_changes(
    store: Store, values: dict[str, object], problem: str
) -> None:
    await talk(store, KEY, "x")
    with pytest.raises(InvalidSettings, match=problem):
        await store.write(lambda tx: session_admin.change_settings(tx, KEY, values, NOW_MS))
    assert (await kinds_of(store, KEY))[-1] == "turn_ended"
