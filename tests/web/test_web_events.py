"""The event stream: nothing missed, nothing doubled, nobody slowed down."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from clawbot.clock import SystemClock
from clawbot.ports import Store, Transaction
from clawbot.session_key import SessionKey
from clawbot.store import events, sessions
from clawbot.web.feed import EVENTS_PER_LOOK, QUEUED_CHANGES, Feed
from clawbot.web.markdown import Renderer
from tests.web.ground import (
    TOKEN,
    Caller,
    Script,
    Site,
    calling,
    is_ended,
    running_site,
    running_store,
    seqs,
)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running_site(tmp_path) as site:
        yield site


@pytest.fixture
async def caller(site: Site) -> AsyncIterator[Caller]:
    async with calling(site) as caller:
        yield caller


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with running_store(tmp_path) as store:
        yield store


def happen(tx: Transaction, key: SessionKey, count: int = 1) -> None:
    for _ in range(count):
        numbers = sessions.take_numbers(tx, key, 1, 1)
        events.append(tx, key, numbers.last_seq, numbers.epoch, "notice", {"text": "x"}, 1)


async def test_a_turn_is_told_from_its_acceptance_to_its_end(caller: Caller) -> None:
    cursor = (await caller.get("/api/sessions"))["cursor"]
    async with caller.events(cursor) as stream:
        await caller.say("hello", client_msg_id="m1")
        told = await stream.until(is_ended)
    kinds = [event["kind"] for _, body in told for event in body["events"]]
    assert kinds == ["accepted", "turn_started", "reply", "turn_ended"]
    assert told[-1][1]["session"]["total"] == 1
    assert told[-1][1]["session"]["state"] == "idle"


async def test_a_stream_that_breaks_goes_on_without_gap_or_double(caller: Caller) -> None:
    cursor = (await caller.get("/api/sessions"))["cursor"]
    told = []
    for number in range(6):
        if number % 2:  # what happens while the page is away
            await caller.say("away", client_msg_id=f"a{number}")
        async with caller.events(cursor) as stream:
            await caller.say("hello", client_msg_id=f"m{number}")
            # It breaks at the first word of a turn, or at its end.
            told += await stream.until(lambda *one, n=number: n % 3 != 0 or is_ended(*one))
            cursor["global"] = told[-1][1]["head"]
    await caller.until(lambda page: page["session"]["state"] == "idle")
    async with caller.events(cursor) as stream:
        await caller.say("!help", client_msg_id="last")
        told += await stream.until(lambda _, body: body["events"][-1]["kind"] == "notice")
    async with caller.events({}) as stream:
        whole = [await stream.next()]
    assert seqs(told, "global") == seqs(whole, "global")
    assert len(seqs(told, "global")) > 20


async def test_two_pages_that_come_at_any_time_are_told_the_same(caller: Caller) -> None:
    cursor = (await caller.get("/api/sessions"))["cursor"]
    async with caller.events(cursor) as early:
        for number in range(5):
            await caller.say("hello", session=f"web:{number}", client_msg_id=f"m{number}")
        async with caller.events(cursor) as late:
            first = [message for _ in range(5) for message in await early.until(is_ended)]
            second = [message for _ in range(5) for message in await late.until(is_ended)]
    for number in range(5):
        assert seqs(first, f"web:{number}") == seqs(second, f"web:{number}")
        assert len(seqs(first, f"web:{number}")) == 4


async def test_a_page_that_was_away_too_long_is_told_to_read_the_transcript(
    site: Site, caller: Caller
) -> None:
    key = SessionKey.of_chat("web", "busy")
    await site.store.write(lambda tx: happen(tx, key, EVENTS_PER_LOOK + 5))
    async with caller.events({"web:busy": 2}) as stream:
        kind, body = await stream.next()
    assert (kind, body["has_gap"]) == ("change", True)
    assert body["head"] == EVENTS_PER_LOOK + 5
    assert len(body["events"]) == EVENTS_PER_LOOK


async def test_a_cursor_of_another_store_is_told_to_read_everything(
    site: Site, caller: Caller
) -> None:
    await site.store.write(lambda tx: happen(tx, SessionKey.of_global()))
    async with caller.events({"global": 900, "web:gone": 5}) as stream:
        assert (await stream.next())[0] == "resync"
        await caller.say("!help", client_msg_id="m1")
        kind, body = await stream.next()
    assert (kind, body["session"]["key"]) == ("change", "global")


async def test_drafts_of_the_shown_session_are_pushed_and_no_others(
    site: Site, caller: Caller
) -> None:
    may_end = asyncio.Event()

    async def turn(script: Script) -> str:
        script.shows(f"Working for {script.session}")
        await may_end.wait()
        return "done"

    site.runner.turns += [turn, turn]
    async with caller.events({}, session="web:shown") as stream:
        await caller.say("hello", session="web:other", client_msg_id="m1")
        await caller.until(lambda page: page["running"] and page["running"]["html"], "web:other")
        await caller.say("hello", session="web:shown", client_msg_id="m2")

        def has_text(kind: str, body: dict[str, dict[str, str]]) -> bool:
            return kind == "draft" and bool(body["running"] and body["running"]["html"])

        told = await stream.until(has_text)
        may_end.set()
        told += await stream.until(lambda kind, body: kind == "draft" and not body["running"])
    drafts = [body for kind, body in told if kind == "draft"]
    assert {body["session"] for body in drafts} == {"web:shown"}
    shown = [body["running"]["html"] for body in drafts if body["running"]]
    assert shown[-1] == "<p>Working for web:shown</p>\n"


async def test_a_slow_page_loses_its_queue_and_holds_nobody_up(store: Store) -> None:
    feed = Feed(store, SystemClock(), Renderer())
    slow = await feed.subscribe(None, {})
    quick = await feed.subscribe(None, {})
    telling = asyncio.create_task(feed.run())
    taken: list[str] = []
    try:
        async with asyncio.timeout(20):
            for number in range(QUEUED_CHANGES + 1):
                key = SessionKey.of_chat("web", str(number))
                await store.write(lambda tx, key=key: happen(tx, key))
                if number % 100 == 0 or number == QUEUED_CHANGES:
                    while len(taken) <= number:
                        await quick.wake.wait()
                        taken += quick.take()
        assert slow.take() == ["event: resync\ndata: {}\n\n"]

        await store.write(lambda tx: happen(tx, SessionKey.of_global()))
        async with asyncio.timeout(20):
            await slow.wake.wait()
        (after,) = slow.take()
        assert '"key": "global"' in after
    finally:
        telling.cancel()
        await asyncio.wait([telling])


async def test_a_draft_that_was_not_sent_in_time_is_dropped_with_its_turn(
    site: Site, caller: Caller
) -> None:
    may_end = asyncio.Event()

    async def turn(script: Script) -> str:
        script.shows("half an")
        await may_end.wait()
        return "a whole answer"

    site.runner.turns.append(turn)
    feed = Feed(site.store, SystemClock(), Renderer())
    page = await feed.subscribe("global", {})
    telling = asyncio.create_task(feed.run())
    try:
        await caller.say("hello", client_msg_id="m1")
        await caller.until(lambda page: page["running"] and page["running"]["html"])
        may_end.set()
        await caller.until(lambda page: page["session"]["state"] == "idle")
        taken: list[str] = []
        async with asyncio.timeout(20):
            while not any("turn_ended" in one for one in taken):
                await page.wake.wait()
                taken += page.take()
        drafts = [one for one in taken if one.startswith("event: draft")]
        assert '"running": null' in drafts[-1]
    finally:
        telling.cancel()
        await asyncio.wait([telling])


async def test_a_stream_of_a_page_that_went_away_is_let_go(site: Site) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        aiohttp.ClientSession(headers=headers) as http,
        http.post(f"{site.base}/api/events", json={}) as response,
    ):
        await response.content.readline()
        assert site.part.open_streams == 1
        response.close()
    async with asyncio.timeout(20):
        while site.part.open_streams:  # noqa: ASYNC110 the server notices by itself
            await asyncio.sleep(0.02)


async def test_a_stream_with_a_bad_cursor_or_session_is_refused(caller: Caller) -> None:
    for body in ({"cursor": {"global": -1}}, {"cursor": [1]}, {"cursor": {"global": "1"}}):
        assert (await caller.post("/api/events", body))[0] == 400
    status, answer = await caller.post("/api/events", {"session": "nowhere"})
    assert (status, answer["error"]) == (400, "bad_session")
