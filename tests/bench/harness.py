"""What the harness costs a plain question: `python -m tests.bench.harness [--rounds 20] [--parts]`.

Two workers, each a process with a store of its own, answer the same questions in turns, so that
what else the machine does falls on both: one whose agent has nothing but the model, and one with
the whole harness: all tools, rules, AGENTS.md, skills and budgets. No question uses any of it.
`--parts` adds workers that have one part each. The model answers at once, which it never does in
earnest: the share of a real answer is smaller.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import structlog
import uvloop
from rich.console import Console
from rich.table import Table

from clawbot.config import load_config
from clawbot.parts import open_store
from clawbot.ports import Store
from clawbot.session_key import SessionKey
from clawbot.work_dirs import work_dir_of
from tests.bench.sessions import memory_kb
from tests.bench.stores import CHANNEL, CONFIG, Level
from tests.bench.subjects import Subject, model_subject, process

WANTED_PERCENT = 10.0
SESSIONS = 12
NOTHING, EVERYTHING = "nothing", "everything"

_NO_TOOLS = "tools: {offered: [], ask_dangerous: false}"
_NO_NOTES = "project: {agents_bytes: 0, skills: 0}"
_RULES = "\n".join(
    f"    - {{do: deny, tool: bash, arguments: '^program-{number}\\b', reason: not here}}"
    for number in range(20)
)
_TOOLS = f"tools:\n  rules:\n{_RULES}"
_BUDGETS = "budgets: {session: {usd: 100}, user_day: {usd: 1000}, day: {tokens: 1000000000}}"
KINDS: Mapping[str, tuple[str, ...]] = {
    NOTHING: (_NO_TOOLS, _NO_NOTES),
    "tools": (_TOOLS, _NO_NOTES),
    "notes": (_NO_TOOLS,),
    "budgets": (_NO_TOOLS, _NO_NOTES, _BUDGETS),
    EVERYTHING: (_TOOLS, _BUDGETS),
}
"""What a worker has, by its name: the sections of its config."""

_NOTES = "Use tabs. Answer in short sentences, and name the files that you have changed.\n" * 50
_SKILL = "---\nname: {name}\ndescription: How we do {name}, step by step.\n---\nFirst, look.\n"


@dataclass(slots=True)
class Kind:
    """One worker, and what was measured of it."""

    name: str
    store: Store
    subject: Subject
    model: Subject
    took_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    model_ms: list[float] = field(default_factory=list)

    async def ask(self, round_name: str) -> None:
        """Ask each session one question, one after the other; keep what it took."""
        level = Level(self.store, round_name)
        before, of_model = self.subject.cpu_s(), self.model.cpu_s()
        for number in range(SESSIONS):
            await level.ask(number, session=f"chat-{number}")
        self.cpu_ms.append((self.subject.cpu_s() - before) / SESSIONS * 1000)
        self.model_ms.append((self.model.cpu_s() - of_model) / SESSIONS * 1000)
        self.took_ms += await self.store.read(level.latencies)

    def forget(self) -> None:
        """Let what was measured so far not count."""
        for measured in (self.took_ms, self.cpu_ms, self.model_ms):
            measured.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one worker; milliseconds for each question, megabytes of the process's own memory.

    model_ms: the processor time of the stand-in for the model, which reads and checks what it is
    sent; it is a part of `took_ms`, and no part of clawbot.
    """

    name: str
    questions: int
    took_ms: float
    model_ms: float
    cpu_ms: float
    memory_mb: float


def put_notes(state_dir: Path) -> None:
    """AGENTS.md and ten skills in the directory of each session."""
    for number in range(SESSIONS):
        folder = work_dir_of(state_dir, SessionKey.of_chat(CHANNEL, f"chat-{number}"))
        folder.mkdir(parents=True)
        (folder / "AGENTS.md").write_text(_NOTES)
        for skill in range(10):
            place = folder / f".claw/skills/skill-{skill}"
            place.mkdir(parents=True)
            (place / "SKILL.md").write_text(_SKILL.format(name=f"skill-{skill}"))


@asynccontextmanager
async def open_kind(folder: Path, name: str, model: Subject) -> AsyncIterator[Kind]:
    """A worker of its own on a store of its own."""
    home = folder / name
    home.mkdir()
    config = home / "clawbot.yaml"
    text = CONFIG.format(folder=home, database="", model_url=model.target)
    config.write_text("\n".join((text, *KINDS[name])))
    loaded = load_config(config)
    put_notes(loaded.state_dir)
    store = await open_store(loaded)
    try:
        run = ("-m", "clawbot", "worker", "--config", str(config))
        async with process(*run, log=home / "worker.log", reads_line=False) as (started, _):
            yield Kind(name, store, Subject(name=name, target="", pids=[started.pid]), model)
    finally:
        await store.close()


async def measure(names: Sequence[str], rounds: int) -> list[Figures]:
    """Ask all in turns."""
    with tempfile.TemporaryDirectory(prefix="clawbot-harness-") as made:
        folder = Path(made)
        async with AsyncExitStack() as stack:
            model = await stack.enter_async_context(model_subject(folder))
            kinds = [
                await stack.enter_async_context(open_kind(folder, name, model)) for name in names
            ]
            for number in range(rounds + 2):
                if number == 2:  # what is loaded at first does not count
                    for kind in kinds:
                        kind.forget()
                for kind in kinds if number % 2 else reversed(kinds):
                    await kind.ask(f"round-{number}")
            return [figures_of(kind) for kind in kinds]


def figures_of(kind: Kind) -> Figures:
    """Of the times the faster half counts, for what else the machine does only makes them longer;
    they are stored in whole milliseconds.
    """
    took = sorted(kind.took_ms)
    return Figures(
        name=kind.name,
        questions=len(took),
        took_ms=round(statistics.fmean(took[: (len(took) + 1) // 2]), 2),
        model_ms=round(statistics.fmean(kind.model_ms), 2),
        cpu_ms=round(statistics.fmean(kind.cpu_ms), 2),
        memory_mb=round(memory_kb(kind.subject.pids[0]) / 1024, 1),
    )


def percent(one: float, bare: float) -> float:
    """How much more one is."""
    return round((one / bare - 1) * 100, 1)


def show(found: Sequence[Figures]) -> None:
    """Print a table; the first is what the others are compared with."""
    columns = ("the agent has", "took ms", "", "model's CPU", "", "CPU ms", "", "memory MB", "")
    table = Table(*columns, title="What the harness costs a plain question")
    bare = found[0]
    for one in found:
        cells = [one.name]
        for name in ("took_ms", "model_ms", "cpu_ms", "memory_mb"):
            value, least = getattr(one, name), getattr(bare, name)
            cells += [f"{value}", "" if one is bare else f"{percent(value, least):+.1f} %"]
        table.add_row(*cells)
    Console(width=100).print(table)
    whole = found[-1]
    added_ms = whole.took_ms - bare.took_ms
    own = percent(whole.took_ms - whole.model_ms, bare.took_ms - bare.model_ms)
    sys.stdout.write(
        f"With the whole harness a plain question takes {own:+.1f} % (wanted: at most "
        f"{WANTED_PERCENT:.0f} %) beside the model's own time, and "
        f"{percent(whole.took_ms, bare.took_ms):+.1f} % with that of the stand-in, which answers "
        f"at once; where the model takes a second, {added_ms / 10:+.2f} %.\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.harness")
    parser.add_argument("--rounds", type=int, default=20, help=f"of {SESSIONS} questions each")
    parser.add_argument("--parts", action="store_true", help="also each part of it alone")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    chosen = parser.parse_args(arguments)
    quiet = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(wrapper_class=quiet)
    names = tuple(KINDS) if chosen.parts else (NOTHING, EVERYTHING)
    found = uvloop.run(measure(names, chosen.rounds))
    show(found)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
