"""Run the simulated provider alone: `python -m tests.simulators.model --port 0 [--echo]`.

Prints one JSON line with the base URL of each provider and of the admin doors, then serves until
it is terminated.
"""

import argparse
import asyncio
import json
import signal
import sys

from .admin import Admin
from .endpoints import ENDPOINTS
from .rules import Strictness
from .script import echo
from .server import ModelSimulator


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulators.model", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1, 0 for a free one")
    parser.add_argument(
        "--echo", action="store_true", help='answer "echo: <text>" to calls no step expects'
    )
    parser.add_argument(
        "--context-tokens", type=int, default=None, help="size of the context window, in tokens"
    )
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    simulator = ModelSimulator(
        echo if arguments.echo else None,
        strictness=Strictness(context_tokens=arguments.context_tokens),
    )
    await simulator.start(Admin(simulator).application(), port=arguments.port)
    try:
        urls = {provider: simulator.base_url(provider) for provider in ENDPOINTS}
        sys.stdout.write(json.dumps({"base_urls": urls, "admin": simulator.admin_url}) + "\n")
        sys.stdout.flush()
        await stopped.wait()
    finally:
        await simulator.stop()


if __name__ == "__main__":
    asyncio.run(_serve(_arguments()))
