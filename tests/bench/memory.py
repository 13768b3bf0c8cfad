"""Working memory: `python -m tests.bench.memory [--json FILE] [--times 30]`.

Measures what must not depend on how much was ever said: a request from histories of 100, 10,000
and 100,000 messages; and what must not hold up other chats: a tool result and a paste of 5 MB, and
texts that are hard to count. The gap is the longest time for which the event loop did nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from clawbot.agent.memory import MemoryLimits, MemoryModel, Pinned, WorkingMemory, reach_of
from clawbot.agent.model_sizes import ModelSize
from clawbot.agent.saved import SavedTexts
from clawbot.agent.tokens import TokenCounter, open_counter
from clawbot.history import Entry, EntryKind
from clawbot.ports import Store, Transaction
from clawbot.recollection import Recollection
from clawbot.session_key import SessionKey
from clawbot.store import history, memories, migrate, sessions
from clawbot.store.doorbell import bell_folder
from clawbot.store.engine import open_sqlite_engine, open_sqlite_store
from tests.bench import report

HISTORIES = (100, 10_000, 100_000)
LIMITS = MemoryLimits(history_messages=80, max_output_tokens=4096, result_chars=50_000)
MODEL = MemoryModel(
    name="bench:model",
    size=ModelSize(window_tokens=64_000, factor=1.1),
    sends_thinking=False,
)
MEGABYTES = 5_000_000
NOW_MS = 1_760_000_000_000
HARD_TEXTS = {
    "JSON": '{"id": 12345, "name": "value"},\n' * 160_000,
    "one letter": "a" * 1_000_000,
    "spaces": " " * 1_000_000,
    "Chinese": "测" * 300_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that was measured; gap_ms is 0 where it was not."""

    name: str
    ms: float
    gap_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the measurements share."""

    store: Store
    counter: TokenCounter
    folder: Path
    times: int

    def memory(self, recollection: Recollection) -> WorkingMemory:
        """The working memory of a turn."""
        return WorkingMemory(
            recollection,
            turn_id="now",
            pinned=Pinned(rules="Be brief."),
            tools=(),
            model=MODEL,
            limits=LIMITS,
            counter=self.counter,
            saved=SavedTexts(root=self.folder / "saved"),
        )

    async def request(self, key: SessionKey) -> int:
        """Load what a turn needs of a history and make its request; how many entries it holds."""
        reach = reach_of(MODEL, LIMITS)
        recollection = await self.store.read(lambda tx: memories.recall(tx, key, 0, "now", reach))
        return len((await self.memory(recollection).request()).entries)


def fill(tx: Transaction, key: SessionKey, first: int, count: int) -> None:
    """A part of a conversation."""
    entries = [
        Entry(
            kind=EntryKind.USER if number % 2 == 0 else EntryKind.ASSISTANT,
            text=f"message {number}: what was said in it is about as long as a message is",
            turn_id=f"old{number // 2}",
            step=-1 if number % 2 == 0 else 0,
        )
        for number in range(first, first + count)
    ]
    history.append(tx, key, 0, first + 1, entries, NOW_MS)


def key_of(messages: int) -> SessionKey:
    """The session with so many messages."""
    return SessionKey.of_chat("bench", str(messages))


async def make_history(store: Store, messages: int) -> None:
    """A session with so many messages, the newest of which is to be answered."""
    key = key_of(messages)
    await store.write(lambda tx: sessions.take_numbers(tx, key, messages, NOW_MS))
    for first in range(0, messages - 1, 5000):
        count = min(5000, messages - 1 - first)
        await store.write(partial(fill, key=key, first=first, count=count))
    now = Entry(kind=EntryKind.USER, text="and now?", turn_id="now")
    await store.write(lambda tx: history.append(tx, key, 0, messages, [now], NOW_MS))


async def measured(work: Callable[[], Awaitable[object]], times: int) -> tuple[float, float]:
    """Milliseconds of the middle run, and the longest gap of the loop in all of them."""
    gap = 0.0

    async def watch() -> None:
        nonlocal gap
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            gap = max(gap, time.perf_counter() - before - 0.001)

    watching = asyncio.create_task(watch())
    taken = []
    try:
        for _ in range(times):
            started = time.perf_counter()
            await work()
            taken.append(time.perf_counter() - started)
            await asyncio.sleep(0)
    finally:
        watching.cancel()
    return statistics.median(taken) * 1000, gap * 1000


async def histories(bench: Bench) -> list[Row]:
    """A request from histories of different lengths, in turns: what else the machine does falls on
    all of them.
    """
    for messages in HISTORIES:
        await make_history(bench.store, messages)
    found: dict[int, list[tuple[float, float]]] = {messages: [] for messages in HISTORIES}
    for _ in range(bench.times):
        for messages in HISTORIES:
            work = partial(bench.request, key_of(messages))
            found[messages].append(await measured(work, 1))
    return [
        Row(
            name=f"request from {messages:,} messages",
            ms=statistics.median(ms for ms, _ in runs),
            gap_ms=max(gap_ms for _, gap_ms in runs),
        )
        for messages, runs in found.items()
    ]


async def large_texts(bench: Bench) -> list[Row]:
    """A tool result and a paste of 5 MB."""
    call = Entry(kind=EntryKind.TOOL_CALL, call_id="a", tool="read_file", turn_id="now", step=0)
    result = Entry(kind=EntryKind.TOOL_RESULT, call_id="a", turn_id="now", step=0)
    task = Entry(kind=EntryKind.USER, text="read it", turn_id="now", seq=1)
    row = '{"id": 12345, "name": "value", "text": "中文"},\n'
    text = row * (MEGABYTES // len(row.encode()))

    async def keep_result() -> None:
        memory = bench.memory(Recollection(entries=(task, call)))
        kept = await memory.kept_result(Entry(**{**_fields(result), "text": text}), 0)
        memory.extend([kept])
        await memory.request()

    async def answer_paste() -> None:
        paste = Entry(kind=EntryKind.USER, text=text, turn_id="now", seq=1)
        await bench.memory(Recollection(entries=(paste,))).request()

    rows = []
    for name, work in (("tool result", keep_result), ("paste", answer_paste)):
        ms, gap_ms = await measured(work, max(3, bench.times // 10))
        rows.append(Row(name=f"{name} of 5 MB", ms=ms, gap_ms=gap_ms))
    return rows


def _fields(entry: Entry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in Entry.__slots__}


async def counting(bench: Bench) -> list[Row]:
    """Texts that are hard to count."""
    rows = []
    for name, text in HARD_TEXTS.items():
        work = partial(bench.counter.in_thread, partial(bench.counter.count, text))
        ms, gap_ms = await measured(work, 3)
        rows.append(Row(name=f"count {len(text.encode()):,} bytes: {name}", ms=ms, gap_ms=gap_ms))
    return rows


def prepare(path: Path) -> None:
    """An empty database."""
    engine = open_sqlite_engine(path)
    migrate.upgrade(engine)
    engine.dispose()


@asynccontextmanager
async def open_bench(folder: Path, times: int) -> AsyncIterator[Bench]:
    """A store of its own."""
    await asyncio.to_thread(prepare, folder / "store.db")
    bells = await asyncio.to_thread(bell_folder, folder)
    store = await open_sqlite_store(folder / "store.db", bells, "bench")
    try:
        async with await open_counter() as counter:
            yield Bench(store=store, counter=counter, folder=folder, times=times)
    finally:
        await store.close()


async def run(folder: Path, times: int = 30) -> list[Row]:
    """All measurements."""
    async with open_bench(folder, times) as bench:
        return [*await histories(bench), *await large_texts(bench), *await counting(bench)]


def show(rows: list[Row]) -> None:
    """A table."""
    table = Table(title="working memory")
    table.add_column("what")
    table.add_column("median", justify="right")
    table.add_column("longest gap of the loop", justify="right")
    for row in rows:
        table.add_row(row.name, f"{row.ms:.2f} ms", f"{row.gap_ms:.1f} ms")
    Console().print(table)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory")
    parser.add_argument("--times", type=int, default=30, help="how often each request is made")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clawbot-bench-") as folder:
        rows = uvloop.run(run(Path(folder), chosen.times))
        facts = report.environment(Path(folder))
    show(rows)
    if chosen.json is not None:
        told = {"facts": facts, "rows": [asdict(row) for row in rows]}
        chosen.json.write_text(json.dumps(told, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
