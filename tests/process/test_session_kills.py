"""Scenario J1: a worker killed at random points leaves each history whole and legal.

A few kills each time; the whole scenario: CLAWBOT_KILLS=100 pytest --timeout 600 FILE
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from zlib import crc32

import pytest

from clawbot.agent.dialects import dialect_of
from clawbot.agent.wire import to_wire
from clawbot.config import load_config
from clawbot.history import Entry, EntryKind, ModelRequest
from clawbot.parts import STORE_FILE, open_store, release_process
from clawbot.ports import Store
from clawbot.session_key import SessionKey
from clawbot.store import history, inbox, processes
from tests.process.commands import clawbot
from tests.sessions.ground import write_config
from tests.sessions.scenes import ask
from tests.simulators.model import ModelSimulator, RecordedRequest, Reply, ToolCall

SESSIONS = 6
KILLS = int(os.environ.get("CLAWBOT_KILLS", "12"))
LEAST = 3
BOUND_S = 1.25 * KILLS
SLOWLY = 0.004
OPEN = {"received", "queued", "claimed"}


def answer(request: RecordedRequest) -> Reply:
    """A parallel tool call or two on the way, then a growing text."""
    newest = request.messages[-1]
    steps = sum(bool(message.tool_calls) for message in request.messages)
    is_odd = crc32(newest.text.encode()) % 2 == 1
    if (is_odd and not newest.tool_results) or steps % 3 == 1:
        calls = tuple(ToolCall(name="list_dir", arguments={"limit": n + 1}) for n in range(3))
        return Reply(text="I look.", tool_calls=calls, delay_s=SLOWLY)
    return Reply(text=tuple(f"word {number} " for number in range(8)), delay_s=SLOWLY)


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    """The strict model: an illegal request of a resumed turn fails the test."""
    async with ModelSimulator(answer) as simulator:
        yield simulator
        assert simulator.violations == []
        assert simulator.crashes == []


@pytest.fixture
async def store(tmp_path: Path, model: ModelSimulator) -> AsyncIterator[Store]:
    config = await asyncio.to_thread(load_config, write_config(tmp_path, model))
    opened = await open_store(config)
    yield opened
    await opened.close()


def key_of(number: int) -> SessionKey:
    key = SessionKey.of_chat("web", f"chat-{number}")
    return key.with_task("7") if number % 2 else key


async def entries_of(store: Store, key: SessionKey) -> list[Entry]:
    return await store.read(lambda tx: history.load(tx, key, 0, newest=100_000))


def check(entries: Sequence[Entry]) -> None:
    """What is stored can be sent, after whatever kill."""
    numbers = [entry.seq for entry in entries]
    assert numbers == sorted(set(numbers))
    dialect = dialect_of("openai-chat", None)
    assert dialect is not None
    to_wire(ModelRequest(system="", entries=tuple(entries)), dialect, "openai-chat:scripted")


def integrity(path: Path) -> str:
    with sqlite3.connect(path) as database:
        return str(database.execute("PRAGMA integrity_check").fetchone()[0])


async def test_j1_histories_are_whole_after_kills_at_random_points(
    tmp_path: Path, store: Store, model: ModelSimulator
) -> None:
    config = tmp_path / "clawbot-a.yaml"
    chance = random.Random(1)  # noqa: S311 - no secret
    give_up = time.monotonic() + BOUND_S
    kills, said = 0, dict.fromkeys(range(SESSIONS), 0)
    recorded: dict[int, list[Entry]] = {number: [] for number in range(SESSIONS)}
    while kills < LEAST or (kills < KILLS and time.monotonic() < give_up):
        calls = len(model.requests)
        async with clawbot(config, "worker") as worker:
            for number in said:
                await ask(store, key_of(number), f"message {said[number]}", uuid.uuid4().hex)
                said[number] += 1
            await model.wait_calls(calls + 1, 30)
            await asyncio.sleep(chance.uniform(0.0, 0.25))  # the random point
            await worker.kill()
        kills += 1
        assert await asyncio.to_thread(integrity, tmp_path / "a" / STORE_FILE) == "ok"
        for number, before in recorded.items():
            entries = await entries_of(store, key_of(number))
            assert entries[: len(before)] == before  # what was recorded stays, and as it was
            check(entries)
            recorded[number] = entries
    assert kills >= LEAST
    async with clawbot(config, "worker") as worker:
        await until_done(store)
        assert await worker.stop() == 0
    for number, count in said.items():
        entries = await entries_of(store, key_of(number))
        check(entries)
        users = [entry.text for entry in entries if entry.kind is EntryKind.USER]
        assert users == [f"message {turn}" for turn in range(count)]
        open_calls = {e.call_id for e in entries if e.kind is EntryKind.TOOL_CALL} - {
            e.call_id for e in entries if e.kind is EntryKind.TOOL_RESULT
        }
        assert not open_calls


async def release_workers(store: Store) -> None:
    """Free what the dead worker owned at once, as its supervisor does."""
    for row in await store.read(processes.live):
        await release_process(store, row.id)


async def until_done(store: Store) -> None:
    async with asyncio.timeout(60):
        while (await store.read(inbox.count_by_state)).keys() & OPEN:  # noqa: ASYNC110 others write
            await asyncio.sleep(0.05)
