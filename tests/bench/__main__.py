"""`python -m tests.bench [--people 1 8 32] [--json FILE] [--profile]`; see the package."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from tests.bench import report, subjects
from tests.bench.load import Load, Platform, open_platform
from tests.bench.report import Comparison, Figures
from tests.bench.subjects import Subject

WARM_UP_ROUNDS = 3


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument(
        "--people", type=int, nargs="+", default=[1, 8, 32], help="how many write at once"
    )
    parser.add_argument(
        "--messages", type=int, default=160, help="about how many are sent in a round of a level"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="of each level, in turns; the middle one counts"
    )
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument(
        "--profile", action="store_true", help="also show where the daemon's time goes (slower)"
    )
    return parser.parse_args()


async def compare(chosen: argparse.Namespace, folder: Path) -> int:
    """Measure, print, and check that nothing was lost; the exit code."""
    loads = [
        Load(people=people, messages=people * max(4, chosen.messages // max(people, 4)))
        for people in chosen.people
    ]
    facts = report.environment(folder)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        platform = await enter(open_platform())
        model_url = await enter(subjects.model(folder))
        clawbot = await enter(
            subjects.daemon(folder, model_url, platform.url, profiled=chosen.profile)
        )
        warm_up = Load(people=max(chosen.people), messages=max(chosen.people) * WARM_UP_ROUNDS)
        await platform.measure(clawbot.target, warm_up)
        same = await same_request(folder, model_url)
        start = partial(subjects.bare, folder, model_url, platform.url)
        yardsticks = [
            await enter(start(name="bare", like=same)),
            await enter(start(name="short")),
            await enter(start(name="tuned", tuned=True)),
        ]
        for subject in yardsticks:
            await platform.measure(subject.target, warm_up)
            if subject.name == "bare":
                await check_same(same, model_url)
        comparisons = [
            await compared(platform, yardsticks, clawbot, load, chosen.rounds) for load in loads
        ]
        sent = warm_up.messages + sum(load.messages for load in loads) * chosen.rounds
    stored = int(subjects.query(folder, "SELECT count(*) FROM inbox WHERE state = 'done'")[0][0])
    report.show(comparisons, facts)
    sys.stdout.write(f"{stored} of {sent} messages stand in the store as answered\n")
    if chosen.profile:
        for name in ("adapter", "worker"):
            text = await asyncio.to_thread((folder / f"{name}.profile").read_text)
            sys.stdout.write(f"\n#### {name}\n{text}")
    if chosen.json is not None:
        text = report.as_json(comparisons, facts, stored)
        await asyncio.to_thread(chosen.json.write_text, text + "\n")
    return 0 if stored == sent else 1


async def same_request(folder: Path, model_url: str) -> Path:
    """A file with clawbot's newest request, for a pipeline that shall make the same."""
    path = folder / "request.json"
    body = await subjects.newest_request(model_url)
    await asyncio.to_thread(path.write_text, json.dumps(body))
    return path


async def check_same(path: Path, model_url: str) -> None:
    """Raise where the newest request has not the tools and instructions of the one in the file."""
    wanted = json.loads(await asyncio.to_thread(path.read_text))
    made = await subjects.newest_request(model_url)
    if asks(wanted) != asks(made) or len(asks(wanted)) == 1:
        raise RuntimeError("the bare pipeline does not make clawbot's request")


def asks(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The instructions and tools of a request. What the library says of a provider is no part."""
    functions = [tool["function"] for tool in body["tools"]]
    return [body["messages"][0], *[{**function, "strict": None} for function in functions]]


async def compared(
    platform: Platform, yardsticks: Sequence[Subject], clawbot: Subject, load: Load, rounds: int
) -> Comparison:
    """All subjects under one load, in turns, so that what else the machine does falls on all."""
    figures = defaultdict[str, list[Figures]](list)
    for _ in range(rounds):
        for subject in (*yardsticks, clawbot):
            before = subject.cpu_s()
            times = await platform.measure(subject.target, load)
            used = subject.cpu_s() - before
            figures[subject.name].append(report.figures(subject.name, load, times, used))
    bare, *others = [middle(figures[one.name]) for one in yardsticks]
    return Comparison(bare=bare, others=others, clawbot=middle(figures[clawbot.name]))


def middle(figures: list[Figures]) -> Figures:
    """Those of the round that was neither the fastest nor the slowest."""
    return sorted(figures, key=lambda each: each.per_message_ms)[len(figures) // 2]


def main() -> int:
    """Run in a folder of its own."""
    chosen = arguments()
    with tempfile.TemporaryDirectory(prefix="clawbot-bench-") as folder:
        return uvloop.run(compare(chosen, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
