"""Many sessions: `python -m tests.bench.sessions [--sessions 10000] [--warm 200] [--json FILE]`.

Measures on a store with so many sessions what must not grow with them: lists, totals, a page of
one, the start of a process and of a command, and the memory of a worker: per session that is only
stored (idle), and per session whose turn waits for its model (warm).
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
from sqlalchemy import insert

from clawbot.clock import SystemClock
from clawbot.config import load_config
from clawbot.parts import open_store
from clawbot.ports import Store, Transaction
from clawbot.session_key import SessionKey
from clawbot.store import events, history, processes, session_admin
from clawbot.store.schema import messages, sessions, turns
from clawbot.store.session_list import SessionFilter, list_sessions, totals
from clawbot.store.transcript import transcript
from clawbot.transcripts import TranscriptKeeper
from tests.bench import report
from tests.bench.subjects import process
from tests.sessions.scenes import ask
from tests.simulators.model import ModelSimulator, Reply

ENTRIES = 10
TIMES = 20
NOW_MS = 1_760_000_000_000
CONFIG = """\
state_dir: {folder}/state
model: openai-chat:held
providers:
  openai-chat: {{base_url: "{model_url}", api_key: made-up}}
web: {{enabled: false}}
limits: {{grace_s: 1}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that was measured."""

    name: str
    value: float
    unit: str


def key_of(number: int) -> SessionKey:
    """A tenth of the sessions are tasks."""
    key = SessionKey.of_chat("slack", f"C{number:06}")
    return key.with_task("7") if number % 10 == 0 else key


def fill(tx: Transaction, first: int, count: int) -> None:
    """Sessions in which something was said a while ago."""
    numbers = range(first, first + count)
    rows = [
        {
            "key": str(key_of(number)),
            "title": f"Plan {number}" if number % 7 == 0 else "",
            "chat_type": "dm",
            "last_seq": ENTRIES,
            "visible_total": ENTRIES // 2,
            "created_ms": NOW_MS,
            "active_ms": NOW_MS + number,
        }
        for number in numbers
    ]
    tx.conn.execute(insert(sessions), rows)
    said = [
        {
            "session_key": str(key_of(number)),
            "epoch": 0,
            "seq": seq,
            "turn_id": f"t{number}-{seq // 2}",
            "kind": "assistant" if seq % 2 == 0 else "user",
            "text": f"message {seq} of session {number} " + "word " * 40,
            "created_ms": NOW_MS + number,
        }
        for number in numbers
        for seq in range(1, ENTRIES + 1)
    ]
    tx.conn.execute(insert(messages), said)
    ended = [
        {
            "id": f"t{number}-{turn}",
            "session_key": str(key_of(number)),
            "epoch": 0,
            "state": "done",
            "fence": 1,
            "first_seq": turn * 2 + 1,
            "last_seq": turn * 2 + 1,
            "started_ms": NOW_MS,
            "ended_ms": NOW_MS,
        }
        for number in numbers
        for turn in range(ENTRIES // 2)
    ]
    tx.conn.execute(insert(turns), ended)


async def median_ms(job: Callable[[], Awaitable[object]], times: int = TIMES) -> float:
    """How long something takes, usually."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        await job()
        taken.append((time.perf_counter() - started) * 1000)
    return round(statistics.median(taken), 2)


async def read_figures(store: Store, count: int) -> list[Figure]:
    """What people wait for when they look."""
    jobs: dict[str, Callable[[Transaction], object]] = {
        "list, the newest 50": partial(list_sessions, wanted=SessionFilter()),
        "list, 50 that hold a text": partial(list_sessions, wanted=SessionFilter(text="plan 77")),
        "list, all": partial(list_sessions, wanted=SessionFilter(limit=None)),
        "totals": totals,
        "heads of all sessions": events.heads,
        "a page of one session": partial(transcript, key=key_of(count // 2)),
        "the history of one session": lambda tx: history.load(tx, key_of(3), 0, newest=400),
        "one session": partial(session_admin.get, key=key_of(3)),
    }
    return [
        Figure(name=name, value=await median_ms(partial(store.read, job)), unit="ms")
        for name, job in jobs.items()
    ]


async def start_figures(config: Path) -> list[Figure]:
    """What a start costs: of a store in this process, and of a whole command."""
    loaded = load_config(config)

    async def open_and_list() -> None:
        store = await open_store(loaded)
        await store.read(partial(list_sessions, wanted=SessionFilter()))
        await store.close()

    async def command(*arguments: str) -> None:
        started = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "clawbot", *arguments),
            stdout=asyncio.subprocess.DEVNULL,
        )
        if await started.wait():
            raise RuntimeError(f"clawbot {' '.join(arguments)} failed")

    return [
        Figure(name="open the store and list", value=await median_ms(open_and_list, 5), unit="ms"),
        Figure(
            name="`clawbot version`, to compare",
            value=await median_ms(partial(command, "version"), 3),
            unit="ms",
        ),
        Figure(
            name="`clawbot sessions list`",
            value=await median_ms(partial(command, "sessions", "list", "--config", str(config)), 3),
            unit="ms",
        ),
    ]


async def transcript_figures(store: Store, state_dir: Path) -> list[Figure]:
    """What the readable copies cost: all of them once, and a look when nothing is new."""
    keeper = TranscriptKeeper(store, SystemClock(), state_dir)
    first = await median_ms(keeper.catch_up, 1)
    again = TranscriptKeeper(store, SystemClock(), state_dir)
    return [
        Figure(name="transcripts, all made", value=first, unit="ms"),
        Figure(
            name="transcripts, found again", value=await median_ms(again.catch_up, 1), unit="ms"
        ),
        Figure(name="transcripts, nothing new", value=await median_ms(keeper.catch_up), unit="ms"),
    ]


def memory_kb(pid: int) -> int:
    """The memory that a process has of its own."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    lines = [line.split() for line in text.splitlines()[1:]]
    return sum(int(line[1]) for line in lines if line[0].startswith("Private_"))


@asynccontextmanager
async def worker(config: Path, store: Store) -> AsyncIterator[int]:
    """A worker process that has done a first turn; its pid."""
    arguments = ("-m", "clawbot", "worker", "--config", str(config))
    async with process(*arguments, log=config.parent / "worker.log", reads_line=False) as (one, _):
        while not await store.read(processes.live):  # noqa: ASYNC110 another process writes it
            await asyncio.sleep(0.05)
        yield one.pid


async def worker_memory(
    config: Path, store: Store, model: ModelSimulator, warm: int
) -> tuple[int, int]:
    """A worker's memory with no turn, and with `warm` turns that wait for the model. KB."""
    async with worker(config, store) as pid:
        calls = len(model.requests)
        await ask(store, SessionKey.of_chat("web", "first"), "quick")
        await model.wait_calls(calls + 1)
        await asyncio.sleep(1)
        idle = memory_kb(pid)
        gates = [model.hold(when="wait") for _ in range(warm)]
        for number in range(warm):
            await ask(store, key_of(number), "wait")
        for gate in gates:
            await gate.reached
        await asyncio.sleep(1)
        busy = memory_kb(pid)
        for gate in gates:
            gate.release()
        return idle, busy


async def run(chosen: argparse.Namespace, folder: Path) -> list[Figure]:
    """Measure everything."""
    async with ModelSimulator(lambda _: Reply(text="ok")) as model:
        config = folder / "clawbot.yaml"
        config.write_text(CONFIG.format(folder=folder, model_url=model.base_url("openai-chat")))
        store = await open_store(load_config(config))
        try:
            empty, _ = await worker_memory(config, store, model, 0)
            for first in range(0, chosen.sessions, 1000):
                count = min(1000, chosen.sessions - first)
                await store.write(partial(fill, first=first, count=count))
            figures = await read_figures(store, chosen.sessions)
            figures += await start_figures(config)
            figures += await transcript_figures(store, folder / "state")
            idle, busy = await worker_memory(config, store, model, chosen.warm)
        finally:
            await store.close()
    per_idle = (idle - empty) / chosen.sessions
    per_warm = (busy - idle) / chosen.warm
    return [
        *figures,
        Figure(name="a worker's memory, empty store", value=empty, unit="KB"),
        Figure(name="memory per idle session", value=round(per_idle, 2), unit="KB"),
        Figure(name="memory per warm session", value=round(per_warm, 1), unit="KB"),
    ]


def show(figures: list[Figure], facts: dict[str, object], count: int) -> None:
    """Print a table."""
    console = Console(width=110)
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()), highlight=False)
    table = Table(title=f"{count} sessions of {ENTRIES} entries; medians")
    for column in ("what", "value", "unit"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for figure in figures:
        table.add_row(figure.name, str(figure.value), figure.unit)
    console.print(table)


def main() -> int:
    """Run in a folder of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sessions")
    parser.add_argument("--sessions", type=int, default=10_000, help="how many are stored")
    parser.add_argument("--warm", type=int, default=200, help="how many turns wait at once")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clawbot-bench-") as folder:
        facts = report.environment(Path(folder))
        figures = uvloop.run(run(chosen, Path(folder)))
    show(figures, facts, chosen.sessions)
    if chosen.json is not None:
        data = {"environment": facts, "figures": [asdict(figure) for figure in figures]}
        chosen.json.write_text(json.dumps(data, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
