"""`python -m tests.bench.tracing`: what traces cost a turn, against the same turn without them.

Turns of two steps and one tool run through the real worker on a real store, with the simulated
model, in turns without traces, with files, and with a collector; processor time of this process,
in which the model and the collector run too.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
import timeit
from contextlib import AsyncExitStack
from pathlib import Path

from clawbot.config_sections import LogConfig
from clawbot.logs import configure_logs
from clawbot.session_key import SessionKey
from clawbot.tracing.spans import span
from tests.sessions.ground import Chats, chats, write_config
from tests.simulators.collector import Collector
from tests.simulators.model import ModelSimulator, RecordedRequest, Reply, ToolCall

LOOK = Reply(tool_calls=(ToolCall(name="list_dir", arguments={"path": "."}),))
SPANS_A_TURN = 6


def answer(request: RecordedRequest) -> Reply:
    """Look once, then answer."""
    has_looked = any(message.tool_results for message in request.messages[-1:])
    return Reply(text="done") if has_looked else LOOK


async def measure(folder: Path, turns: int, rounds: int) -> dict[str, float]:
    """Milliseconds of processor time a turn, by how it is traced: the best of several rounds."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        model, collector = await enter(ModelSimulator(answer)), await enter(Collector())
        ways = {
            "off": "",
            "files": "tracing: {files: true}",
            "collector": f'tracing: {{otlp_endpoint: "{collector.url}"}}',
        }
        running = {
            name: await enter(chats(write_config(folder, model, extra, name), model))
            for name, extra in ways.items()
        }
        best = dict.fromkeys(ways, float("inf"))
        for number in range(rounds + 1):
            for name, chat in running.items():
                key = SessionKey.of_chat("web", f"{name}{number}")
                spent = await _round(chat, key, turns)
                if number:  # the first one warms up
                    best[name] = min(best[name], spent)
        return best


async def _round(chat: Chats, key: SessionKey, turns: int) -> float:
    started = time.process_time()
    for number in range(turns):
        await chat.say(key, f"question {number}")
    return (time.process_time() - started) * 1000 / turns


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tracing", description=__doc__)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    configure_logs(LogConfig(level="error"))
    with tempfile.TemporaryDirectory(prefix="clawbot-bench-") as folder:
        best = asyncio.run(measure(Path(folder), options.turns, options.rounds))

    def nothing() -> None:
        with span("nothing"):
            pass

    idle_us = min(timeit.repeat(nothing, number=10_000, repeat=5)) / 10_000 * 1e6
    sys.stdout.write(
        "".join(f"{name:>10}: {spent:6.2f} ms a turn\n" for name, spent in best.items())
        + f"a span where nothing is traced: {idle_us:.2f} µs, {SPANS_A_TURN} a turn\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
