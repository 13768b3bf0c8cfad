"""The command; see the package."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.postgres import Cluster
from tests.soak.ground import soak


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="postgres")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--platforms", default="slack,feishu,wecom,wechat")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="a new folder for logs and state, which stays")
    chosen = parser.parse_args(arguments)
    cluster = Cluster.start() if chosen.store == "postgres" else None
    try:
        with tempfile.TemporaryDirectory(prefix="clawbot-soak-") as temporary:
            folder = chosen.keep or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            report = asyncio.run(
                soak(
                    folder,
                    minutes=chosen.minutes,
                    seed=chosen.seed,
                    names=chosen.platforms.split(","),
                    cluster=cluster,
                    workers=chosen.workers,
                )
            )
    finally:
        if cluster is not None:
            cluster.stop()
    sys.stdout.write(json.dumps(asdict(report), indent=2) + "\n")
    return int(bool(report.problems))


if __name__ == "__main__":
    sys.exit(main())
