"""What is too old is removed bit by bit, in both stores, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError
from sqlalchemy import func, insert, select

from clawbot.config_sections import RetentionConfig
from clawbot.housekeeping import DAY_MS, Housekeeping
from clawbot.messages import ChatType, InboundMessage, Sender
from clawbot.ports import Store, Transaction, Unit
from clawbot.session_key import SessionKey
from clawbot.store import blobs, events, inbox, notes, retention, session_admin, sessions
from clawbot.store.retention import BEGINNING, COMPACTED_PAGES, WINDOW_ROWS, Swept
from clawbot.store.schema import channel_notes, outbox, outbox_parts, seen
from clawbot.store.schema import inbox as inbox_rows
from tests.contracts.postgres_ground import PostgresGround, make_schema
from tests.contracts.sqlite_ground import SqliteGround
from tests.postgres import Cluster

NOW_MS = 1_800_000_000_000
KEEP = RetentionConfig(seen_days=7, inbox_days=30, outbox_days=30, events_days=30, archived_days=30)
ROUTE = {"chat_id": "c", "thread": None}
KEY = SessionKey.parse("slack:C1")


class StillClock:
    """A clock that stands; sleeping lets others go on."""

    def now_ms(self) -> int:
        return NOW_MS

    def monotonic(self) -> float:
        return NOW_MS / 1000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@pytest.fixture(params=["sqlite", "postgres"])
def ground(request: pytest.FixtureRequest, sqlite_template: Path) -> SqliteGround | PostgresGround:
    if request.param == "sqlite":
        return SqliteGround(sqlite_template, patience_s=20.0)
    cluster: Cluster = request.getfixturevalue("postgres")
    template = cluster.template("clawbot_schema", make_schema)
    return PostgresGround(cluster, template, patience_s=20.0)


@pytest.fixture
async def store(ground: SqliteGround | PostgresGround) -> AsyncIterator[Store]:
    try:
        yield await ground.open("housekeeper")
    finally:
        await ground.close()


def keeper(store: Store, section: RetentionConfig = KEEP) -> Housekeeping:
    return Housekeeping(store, StillClock(), section, Path("no state dir"))


def said(number: int | str, identity: str = "") -> InboundMessage:
    return InboundMessage(
        channel="slack",
        identity=identity or f"m{number}",
        transport_ids=(f"t{number}",),
        chat_id="c",
        chat_type=ChatType.DM,
        sender=Sender(id="u"),
        text="hello",
        raw="",
    )


def inbox_row(number: int, age_days: float, **more: object) -> dict[str, object]:
    at_ms = NOW_MS - round(age_days * DAY_MS)
    return {
        "channel": "slack",
        "identity": f"old{number}",
        "state": "done",
        "reason": "",
        "chat_id": "c",
        "chat_type": "dm",
        "sender_id": "u",
        "text": "hello",
        "accepted_ms": at_ms,
        "settled_ms": at_ms,
        "turn_id": f"turn{number}",
        **more,
    }


def fill(tx: Transaction, rows: Sequence[dict[str, object]]) -> None:
    tx.conn.execute(insert(inbox_rows), list(rows))
    marks = [
        {"channel": "slack", "transport_id": row["identity"], "at_ms": row["accepted_ms"]}
        for row in rows
    ]
    tx.conn.execute(insert(seen), marks)


def identities(tx: Transaction) -> set[str]:
    return set(tx.conn.execute(select(inbox_rows.c.identity)).scalars())


async def test_a_hundred_thousand_rows_go_in_small_units_while_messages_are_taken_in(
    store: Store,
) -> None:
    for start in range(0, 100_000, 10_000):
        rows = [inbox_row(start + number, 90) for number in range(10_000)]
        await store.write(partial(fill, rows=rows))
    sizes: list[int] = []
    accepted: list[int] = []
    done = asyncio.Event()

    class Watched:
        """The store, each of whose units tells what it removed."""

        async def write(self, unit: Unit[Swept | int]) -> Swept | int:
            result = await store.write(unit)
            sizes.append(result.removed if isinstance(result, Swept) else 0)
            return result

    async def talk() -> None:
        while not done.is_set():
            message = said(len(accepted))
            take = partial(inbox.put, message=message, state="queued", now_ms=NOW_MS)
            accepted.append(await store.write(take))

    talking = asyncio.create_task(talk())
    removed = await keeper(Watched()).round()  # type: ignore[arg-type]
    done.set()
    await talking
    assert (removed["inbox"], removed["seen"]) == (100_000, 100_000)
    assert max(sizes) <= WINDOW_ROWS
    assert len(accepted) > 20
    assert await store.read(identities) == {f"m{number}" for number in range(len(accepted))}


async def test_a_message_that_comes_again_within_the_time_is_still_known(store: Store) -> None:
    take = partial(inbox.put, message=said(1), state="done", now_ms=NOW_MS - 6 * DAY_MS)
    await store.write(take)
    await store.write(partial(inbox.put, message=said(2), state="done", now_ms=NOW_MS))
    await keeper(store).round()
    for again in (said(1), said(1, identity="another")):
        assert await store.read(partial(inbox.known, message=again)) is not None


async def test_what_has_not_ended_or_is_shown_by_itself_stays(store: Store) -> None:
    rows = [
        inbox_row(0, 90),
        inbox_row(1, 90, state="queued", settled_ms=None),
        inbox_row(2, 90, state="received", settled_ms=None),
        inbox_row(3, 90, turn_id=None, reason="command"),
        inbox_row(4, 90, turn_id=None, reason="withdrawn"),
        inbox_row(5, 29),
        inbox_row(6, 90),
    ]
    await store.write(partial(fill, rows=rows))
    await keeper(store).round()
    # The newest row stays for its number's sake.
    assert await store.read(identities) == {f"old{number}" for number in (1, 2, 3, 4, 5, 6)}


async def test_settled_replies_go_with_their_parts_and_held_ones_stay(store: Store) -> None:
    old = NOW_MS - 31 * DAY_MS
    states = ["sent", "held", "pending", "dead", "sent"]

    def prepare(tx: Transaction) -> None:
        for state in states:
            row = {
                "channel": "slack",
                "chat_id": "c",
                "state": state,
                "route": ROUTE,
                "created_ms": old,
                "settled_ms": None if state == "pending" else old,
            }
            new_id = tx.conn.execute(insert(outbox).returning(outbox.c.id), row).scalar_one()
            part = {"outbox_id": new_id, "part_no": 0, "key": f"k{new_id}", "state": "sent"}
            tx.conn.execute(insert(outbox_parts), part)

    await store.write(prepare)
    assert (await keeper(store).round())["outbox"] == 2
    left = await store.read(lambda tx: list(tx.conn.execute(select(outbox.c.state)).scalars()))
    parts = select(func.count()).select_from(outbox_parts)
    assert sorted(left) == ["held", "pending", "sent"]
    assert await store.read(lambda tx: tx.conn.execute(parts).scalar_one()) == 3


def happen(tx: Transaction, at_ms: int) -> None:
    numbers = sessions.take_numbers(tx, KEY, 1, at_ms)
    events.append(tx, KEY, numbers.last_seq, numbers.epoch, "notice", {}, at_ms)


async def test_a_reader_whose_cursor_is_older_than_the_oldest_event_finds_a_gap(
    store: Store,
) -> None:
    for age_days in (90, 90, 90, 1, 1):
        await store.write(partial(happen, at_ms=NOW_MS - age_days * DAY_MS))
    assert (await keeper(store).round())["events"] == 3
    gap = frozenset({str(KEY)})
    for cursor, expected in (({}, gap), ({str(KEY): 1}, gap), ({str(KEY): 3}, frozenset())):
        page = await store.read(partial(events.since, cursor=cursor))
        assert ([event.seq for event in page.events], page.has_gap) == ([4, 5], expected)
    assert (await store.read(partial(events.since, cursor=page.cursor))).has_gap == frozenset()


async def test_the_newest_event_of_a_session_stays(store: Store) -> None:
    for _ in range(3):
        await store.write(partial(happen, at_ms=NOW_MS - 90 * DAY_MS))
    await keeper(store).round()
    page = await store.read(partial(events.since, cursor={}))
    assert ([event.seq for event in page.events], page.has_gap) == ([3], frozenset({str(KEY)}))


async def test_notes_go_a_day_after_their_end(store: Store) -> None:
    for key, lasts_ms in (("short", 1), ("long", 3 * DAY_MS)):
        await store.write(
            partial(
                notes.change,
                channel="desk",
                key=key,
                change=lambda _text: "x",
                lasts_ms=lasts_ms,
                now_ms=NOW_MS - 2 * DAY_MS,
            )
        )
    assert (await keeper(store).round())["notes"] == 1
    left = await store.read(lambda tx: tx.conn.execute(select(channel_notes.c.key)).scalars().all())
    assert left == ["long"]


async def test_an_archived_session_goes_after_its_time_and_any_other_stays(store: Store) -> None:
    other = SessionKey.parse("slack:C2")
    for key in (KEY, other):
        await store.write(partial(sessions.take_numbers, key=key, count=1, now_ms=1))
    archive = partial(session_admin.set_archived, key=KEY, now_ms=1, archived=True)
    await store.write(archive)
    assert (await keeper(store).round())["archived"] == 1
    assert await store.read(partial(session_admin.is_free, key=KEY))
    assert not await store.read(partial(session_admin.is_free, key=other))


async def test_nothing_is_removed_that_is_to_be_kept_for_ever(store: Store) -> None:
    rows = [inbox_row(number, 5000) for number in range(3)]
    await store.write(partial(fill, rows=rows))
    nothing = RetentionConfig(
        seen_days=0, inbox_days=0, outbox_days=0, usage_days=0, blobs_days=0, traces_days=0
    )
    assert await keeper(store, nothing).round() == {"notes": 0}
    assert len(await store.read(identities)) == 3


async def test_a_round_that_was_cut_off_is_gone_on_with(store: Store) -> None:
    rows = [inbox_row(number, 90) for number in range(2 * WINDOW_ROWS + 10)]
    await store.write(partial(fill, rows=rows))
    before_ms = NOW_MS - 30 * DAY_MS
    first = await store.write(partial(retention.sweep_inbox, before_ms=before_ms, after=BEGINNING))
    assert (first.removed, first.after is None) == (WINDOW_ROWS, False)
    assert (await keeper(store).round())["inbox"] == WINDOW_ROWS + 9


async def kept(store: Store, *files: bytes, age_days: float) -> list[str]:
    return [await blobs.keep(store, file, NOW_MS - round(age_days * DAY_MS)) for file in files]


async def test_files_go_when_nothing_waits_for_them_any_more(store: Store) -> None:
    large = bytes(blobs.PART_BYTES * 3)
    old = await kept(store, b"old", large, b"asked", b"answer", age_days=8)
    (new,) = await kept(store, b"new", age_days=6)
    waiting = [{"kind": "file", "name": "a", "source": "", "blob": old[2]}]
    file = {"name": "b", "mime": "", "size_bytes": 6, "blob": old[3]}
    reply = {"channel": "slack", "chat_id": "c", "state": "pending", "route": ROUTE, "file": file}

    def prepare(tx: Transaction) -> None:
        fill(tx, [inbox_row(1, 8, state="queued", settled_ms=None, attachments=waiting)])
        tx.conn.execute(insert(outbox), {**reply, "created_ms": NOW_MS})

    await store.write(prepare)
    assert (await keeper(store).round())["blobs"] == 1 + 4
    found = [await blobs.fetch(store, digest) for digest in (*old, new)]
    assert found == [None, None, b"asked", b"answer", b"new"]


async def test_what_is_free_is_given_back_to_the_disk_bit_by_bit(store: Store) -> None:
    for start in range(0, 30_000, 10_000):
        rows = [inbox_row(start + number, 90, text="word " * 300) for number in range(10_000)]
        await store.write(partial(fill, rows=rows))
    full = await store.read(page_count)
    removed = await keeper(store).round()
    if not full:
        assert "pages" not in removed  # PostgreSQL does it by itself
        return
    assert removed["pages"] > 2 * COMPACTED_PAGES
    assert await store.read(page_count) < full / 2
    assert "pages" not in await keeper(store).round()


def page_count(tx: Transaction) -> int:
    """How many pages a SQLite file has; 0 elsewhere."""
    if tx.conn.dialect.name != "sqlite":
        return 0
    found: int = tx.conn.exec_driver_sql("PRAGMA page_count").scalar_one()
    return found


async def test_one_of_several_daemons_does_a_round(store: Store) -> None:
    keepers = [keeper(store) for _ in range(4)]
    ours = await asyncio.gather(*(store.write(each._is_ours) for each in keepers))
    assert sorted(ours) == [False, False, False, True]


@pytest.mark.parametrize("section", [{"seen_days": 1}, {"inbox_days": 1}])
def test_a_time_within_which_platforms_repeat_themselves_is_refused(
    section: dict[str, int],
) -> None:
    with pytest.raises(ValidationError, match="must be 0 or at least 2"):
        RetentionConfig(**section)
