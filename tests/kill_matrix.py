"""`python -m tests.kill_matrix`: kill every kind of process at every point of a message's path.

Real `clawbot adapter` and `clawbot worker` processes in front of a simulated platform and a
simulated model, in both stores; on PostgreSQL the server's processes are killed too. Each seed goes
through all points with all victims in an order of its own, with some kills at any moment between.
Prints what came of it, and exits with 0 when every message was answered exactly once, and no
reply's fate is unknown where a key or a look-up tells it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.matrix.matrix import open_matrix
from tests.matrix.nursery import Nursery
from tests.matrix.platforms import PLATFORMS
from tests.matrix.points import KillPoint, points_of
from tests.matrix.strikes import Figures, Strike, Victim
from tests.postgres import Cluster

STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
ANY_TIME = 10
LONGEST_S = 2.0


def strikes_of(platform: str, store: str, seed: int) -> list[Strike]:
    """Every point with every victim, and some moments, in the seed's order."""
    points = points_of(platform, store)
    by_name = {point.name: point for point in points}
    chance = random.Random(seed)  # noqa: S311 - no secret
    strikes: list[Strike] = []
    for point in points:
        if point.after:
            first = by_name[point.after]
            strikes.append(Strike(point=first, victims=(first.role,), recovery=point))
            continue
        strikes += [Strike(point=point, victims=each) for each in victims_at(point, store)]
    for _ in range(ANY_TIME):
        victims = chance.choice(everybody(store))
        strikes.append(Strike(point=None, victims=victims, after_s=chance.uniform(0, LONGEST_S)))
    chance.shuffle(strikes)
    return strikes


def everybody(store: str) -> list[tuple[Victim, ...]]:
    """Who dies at a point: one kind of process, both, as when their machine does, the database."""
    found: list[tuple[Victim, ...]] = [("adapter",), ("worker",), ("adapter", "worker")]
    return found if store == "sqlite" else [*found, ("backend",), ("server",)]


def victims_at(point: KillPoint, store: str) -> list[tuple[Victim, ...]]:
    """Who is killed while a message is at a point; in the middle of a call only its own process."""
    return [(point.role,)] if point.is_loose else everybody(store)


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201 the output of a command


async def run(
    platform: str,
    store: str,
    seed: int,
    nursery: Nursery,
    *,
    cluster: Cluster | None,
    until_s: float,
) -> Figures:
    """One seed of a platform on a store."""
    with tempfile.TemporaryDirectory(prefix="clawbot-kills-") as folder:
        opened = open_matrix(Path(folder), platform, nursery, seed=seed, cluster=cluster)
        async with opened as matrix:
            figures = await matrix.run(strikes_of(platform, store, seed), until_s)
    say(f"{platform:15} {STORES[store]:10} seed {seed}: {figures} in {figures.took_s:.0f} s")
    for problem in figures.problems:
        say(f"    {problem}")
    return figures


def show_kills(kills: Counter[tuple[str, str]]) -> None:
    """The kills by point, and in brackets by victim."""
    by_point: dict[str, Counter[str]] = {}
    for (point, victim), count in sorted(kills.items()):
        by_point.setdefault(point, Counter())[victim] += count
    say("kills by point:")
    for point, victims in by_point.items():
        told = ", ".join(f"{victim} {count}" for victim, count in victims.items())
        say(f"    {point:24} {victims.total():4}  ({told})")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds on the platforms and stores; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill_matrix", description=__doc__)
    parser.add_argument("--platform", choices=["all", *PLATFORMS], default="all")
    parser.add_argument("--store", choices=["both", *STORES], default="both")
    parser.add_argument("--seeds", type=int, default=1, help="how many orders of the points")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument(
        "--minutes", type=float, help="as many seeds as fit, shared by all platforms and stores"
    )
    chosen = parser.parse_args(arguments)
    platforms = list(PLATFORMS) if chosen.platform == "all" else [chosen.platform]
    stores = list(STORES) if chosen.store == "both" else [chosen.store]
    pairs = [(platform, store) for platform in platforms for store in stores]
    total = Figures()
    with Nursery() as nursery:
        end = time.monotonic() + 60 * chosen.minutes if chosen.minutes else None
        for number, (platform, store) in enumerate(pairs):
            now = time.monotonic()
            until_s = float("inf") if end is None else now + (end - now) / (len(pairs) - number)
            cluster = Cluster.start() if store == "postgres" else None
            try:
                for seed in itertools.count(chosen.first_seed):
                    is_over = (
                        seed >= chosen.first_seed + chosen.seeds
                        if end is None
                        else (time.monotonic() > until_s)
                    )
                    if is_over:
                        break
                    running = run(platform, store, seed, nursery, cluster=cluster, until_s=until_s)
                    total.add(asyncio.run(running))
            finally:
                if cluster is not None:
                    cluster.stop()
    show_kills(total.kills)
    say(f"in all: {total} in {total.took_s:.0f} s")
    return int(bool(total.problems))


if __name__ == "__main__":
    sys.exit(main())
