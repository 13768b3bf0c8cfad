"""`python -m tests.simulators.feishu --port 0`: the simulator alone, driven over its admin door.

Prints one JSON line with its addresses, secrets and ids, then serves until SIGINT or SIGTERM. The
doors are listed in `admin`; for example:

    curl -d '{"name": "alice"}' $ADMIN_URL/user
    curl -d '{"chat": "team", "user": "alice", "text": "hello", "mention": true}' $ADMIN_URL/say
"""

import argparse
import asyncio
import json
import signal
import sys

from .admin import add_admin_door, facts
from .simulator import FeishuSimulator


async def serve(arguments: argparse.Namespace) -> None:
    """Run until a signal asks to stop."""
    simulator = FeishuSimulator(
        port=arguments.port,
        ack_timeout_s=arguments.ack_timeout,
        retry_delays_s=arguments.retry_delays,
        bot_name=arguments.bot_name,
    )
    add_admin_door(simulator)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with simulator:
        if arguments.webhook_url:
            await simulator.use_webhook(arguments.webhook_url)
        sys.stdout.write(json.dumps(facts(simulator)) + "\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulators.feishu")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--webhook-url", default="", help="push by HTTP to this URL")
    parser.add_argument("--bot-name", default="robot", help="the name of the app's bot")
    parser.add_argument("--ack-timeout", type=float, default=3.0, help="seconds")
    parser.add_argument(
        "--retry-delays", type=float, nargs="*", default=[0.1, 0.3, 0.6, 1.0], help="seconds"
    )
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
