"""`python -m tests.bench.feishu`: what the Feishu adapter costs, beside the SDK's own client.

Both are measured in one run, each in a fresh process, in front of the simulator in another one:
time and memory of the import, time and CPU for a message sent and for one received. The adapter's
figures hold all that it does for a message but the store.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

CHATS = 200
EVENTS = 400
_WAIT_S = 60.0
_IMPORT = (
    "from tests.bench.stopwatch import Stopwatch; import json; watch = Stopwatch(); import {}; "
    "print(json.dumps(watch.per(1)))"
)
IMPORTS = ("aiohttp", "adapters.feishu.adapter", "lark_oapi")
SUBJECTS = (
    ("feishu_ours", "send"),
    ("feishu_sdk", "send"),
    ("feishu_sdk", "send_async"),
    ("feishu_ours", "receive"),
    ("feishu_sdk", "receive"),
)


def main() -> None:
    """Measure everything, print a table."""
    for module in IMPORTS:
        command = [sys.executable, "-c", _IMPORT.format(module)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        show(f"import {module}", json.loads(done.stdout))
    for module, act in SUBJECTS:
        show(f"{act} {module}", measure(module, act))


def show(name: str, figures: dict[str, float]) -> None:
    """Print one line."""
    told = "".join(f"{key:>9} {value:8.2f}" for key, value in figures.items())
    sys.stdout.write(f"{name:32}{told}\n")
    sys.stdout.flush()


def measure(module: str, act: str) -> dict[str, float]:
    """One subject; events are said once it is connected."""
    with simulator() as facts:
        door(facts, "user", name="alice")
        facts["dm"] = door(facts, "dm", user="alice")
        facts["chats"] = [door(facts, "group", name=f"g{number}") for number in range(CHATS)]
        facts["events"] = EVENTS
        command = [sys.executable, "-m", f"tests.bench.{module}", act, json.dumps(facts)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            if act == "receive":
                door(facts, "wait_connected", timeout_s=_WAIT_S)
                for number in range(EVENTS + 1):
                    door(facts, "say", chat=facts["dm"], user="alice", text=f"hello {number}")
            assert process.stdout is not None
            line = process.stdout.readline()
            process.kill()
        return dict(json.loads(line))


@contextmanager
def simulator() -> Iterator[Any]:
    """The simulator as a process of its own; yields its facts."""
    command = [sys.executable, "-m", "tests.simulators.feishu", "--ack-timeout", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def door(facts: Any, opened: str, **arguments: Any) -> Any:
    """Open a door of the simulator."""
    url, body = f"{facts['admin_url']}/{opened}", json.dumps(arguments).encode()
    with urlopen(Request(url, data=body), timeout=_WAIT_S) as answer:  # noqa: S310  # loopback
        return json.loads(answer.read())["result"]


if __name__ == "__main__":
    main()
