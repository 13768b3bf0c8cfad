"""`python -m tests.kill_matrix`: kill every kind of process at every point of a message's path.

Real `clawbot adapter` and `clawbot worker` processes, a simulated Slack and a simulated model, in
both stores; on PostgreSQL the server's processes are killed too. Each seed goes through all points
in an order of its own. Prints what came of it, and exits with 0 when every message was answered
exactly once and no reply's fate is unknown.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.contracts.postgres_ground import make_schema
from tests.postgres import Cluster
from tests.process.kill_points import POINTS, KillPoint
from tests.process.killing import Figures, open_matrix

RECOVERED_BY = {"lookup": "send.after", "reclaim": "tool.before", "resume": "step.after"}
"""After which kill the next process comes to a point of the recovery."""


def chains_of(seed: int) -> list[list[KillPoint]]:
    """All points in the seed's order; the adapter's and the worker's take turns."""
    by_name = {point.name: point for point in POINTS}
    chains: dict[str, list[list[KillPoint]]] = {"adapter": [], "worker": []}
    for point in POINTS:
        chain = [point]
        if point.is_recovery:
            chain.insert(0, by_name[RECOVERED_BY[point.name.partition(".")[0]]])
        chains[point.role].append(chain)
    order = random.Random(seed)  # noqa: S311 - no secret
    for each in chains.values():
        order.shuffle(each)
    longer, shorter = sorted(chains.values(), key=len, reverse=True)
    mixed: list[list[KillPoint]] = []
    for number, chain in enumerate(longer):
        mixed += [chain, *shorter[number : number + 1]]
    return mixed


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201 the output of a command


async def run(seed: int, name: str, database: str | None) -> Figures:
    """One seed on one store."""
    with tempfile.TemporaryDirectory(prefix="clawbot-kills-") as folder:
        async with open_matrix(Path(folder), seed, database) as matrix:
            started = time.monotonic()
            figures = await matrix.run(chains_of(seed))
    say(f"{name:10} seed {seed}: {figures} in {time.monotonic() - started:.0f} s")
    for problem in figures.problems:
        say(f"    {problem}")
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds on the stores; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill_matrix", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many orders of the points")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--store", choices=["both", "sqlite", "postgres"], default="both")
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    found: list[Figures] = []
    if chosen.store != "postgres":
        found += [asyncio.run(run(seed, "SQLite", None)) for seed in seeds]
    if chosen.store != "sqlite":
        cluster = Cluster.start()
        try:
            template = cluster.template("clawbot_schema", make_schema)
            for seed in seeds:
                url = cluster.url(cluster.create_database(template)).replace("+psycopg", "")
                found.append(asyncio.run(run(seed, "PostgreSQL", url)))
        finally:
            cluster.stop()
    say(
        f"in all: {sum(one.messages for one in found)} messages, "
        f"{sum(one.kills for one in found)} kills, lost {sum(one.lost for one in found)}, "
        f"doubled {sum(one.doubled for one in found)}, unknown {sum(one.unknown for one in found)}"
    )
    return int(any(one.problems for one in found))


if __name__ == "__main__":
    sys.exit(main())
