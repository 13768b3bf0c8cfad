"""`python -m tests.payloads PLATFORM ROWS.jsonl > RESULTS.jsonl`."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from clawbot.config_sections import LogConfig
from clawbot.logs import configure_logs
from tests.payloads.platforms import PLATFORMS, platform
from tests.payloads.rows import load_rows
from tests.payloads.runner import run


async def main() -> None:
    """Read the command line, run all rows, print one result a line."""
    parser = argparse.ArgumentParser(prog="python -m tests.payloads", description=__doc__)
    parser.add_argument("platform", choices=PLATFORMS)
    parser.add_argument("rows", type=Path, help="a file of recorded payloads; see README.md")
    arguments = parser.parse_args()
    configure_logs(LogConfig(level="error"))  # on stderr: the results stand on stdout
    for name in ("http_proxy", "https_proxy", "all_proxy"):  # the API is on this machine
        os.environ.pop(name, None)
        os.environ.pop(name.upper(), None)
    async for result in run(platform(arguments.platform), load_rows(arguments.rows)):
        sys.stdout.write(result.as_json() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
