"""What is measured, as processes: the model, the bare pipeline and the daemon."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from tests.bench.load import BOT_TOKEN, SIGNING_SECRET

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 30.0
ROOT = Path(__file__).parent.parent.parent
CONFIG = """\
state_dir: {folder}/state
model: openai-chat:echo
providers:
  openai-chat: {{base_url: "{model_url}", api_key: made-up}}
web: {{enabled: false}}
limits: {{sender_per_minute: 0, chat_per_minute: 0}}
log: {{level: {log_level}}}
channels:
  slack:
    mode: http
    bot_token: {bot_token}
    signing_secret: {signing_secret}
    listen_port: 0
    api_base_url: {api_url}/api/
    allow: {{dm: ['*'], groups: ['*'], senders: ['*']}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Something that messages are sent to. `pids` are its processes."""

    name: str
    target: str
    pids: Sequence[int]

    def cpu_s(self) -> float:
        """The processor time that its processes have used so far."""
        ticks = os.sysconf("SC_CLK_TCK")
        total = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / ticks


class NotStarted(RuntimeError):
    """A process ended, or was silent, before it was ready; says what it logged."""

    def __init__(self, log: Path) -> None:
        super().__init__(f"{log.name}:\n{log.read_text()}")


@asynccontextmanager
async def process(
    *arguments: str, log: Path, reads_line: bool = True
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A Python process, and the first line that it prints; its stderr goes into `log`."""
    with log.open("ab") as errors:
        started = await asyncio.create_subprocess_exec(
            *(sys.executable, *arguments),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
        )
    try:
        line = ""
        if reads_line and started.stdout is not None:
            async with asyncio.timeout(START_TIMEOUT_S):
                line = (await started.stdout.readline()).decode().strip()
            if not line:
                raise NotStarted(log)
        yield started, line
    finally:
        if started.returncode is None:
            started.terminate()
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await started.wait()


@asynccontextmanager
async def model(folder: Path) -> AsyncIterator[str]:
    """The simulated model, which answers at once; its base URL."""
    async with model_subject(folder) as subject:
        yield subject.target


@asynccontextmanager
async def model_subject(folder: Path) -> AsyncIterator[Subject]:
    """The same, as something that uses time of its own; `target` is its base URL."""
    command = ("-m", "tests.simulators.model", "--echo")
    async with process(*command, log=folder / "model.log") as (started, line):
        url = json.loads(line)["base_urls"]["openai-chat"]
        yield Subject(name="model", target=url, pids=[started.pid])


@asynccontextmanager
async def bare(
    folder: Path,
    model_url: str,
    api_url: str,
    *,
    name: str = "bare",
    like: Path | None = None,
    tuned: bool = False,
) -> AsyncIterator[Subject]:
    """The bare pipeline; see `tests.bench.bare`."""
    command = ["-m", "tests.bench.bare", model_url, api_url]
    command += [] if like is None else ["--like", str(like)]
    command += ["--tuned"] if tuned else []
    async with process(*command, log=folder / f"{name}.log") as (started, line):
        yield Subject(name=name, target=line, pids=[started.pid])


async def newest_request(model_url: str) -> dict[str, Any]:
    """The body of the newest call that the simulated model has had."""
    doors = str(URL(model_url).origin() / "sim" / "requests")
    async with aiohttp.ClientSession() as session, session.get(doors) as response:
        requests = await response.json()
    body: dict[str, Any] = requests[-1]["body"]
    return body


@asynccontextmanager
async def daemon(
    folder: Path, model_url: str, api_url: str, *, profiled: bool = False
) -> AsyncIterator[Subject]:
    """`clawbot run`; or, to be profiled, its two parts without the supervisor above them."""
    config = folder / "clawbot.yaml"
    config.write_text(
        CONFIG.format(
            folder=folder,
            model_url=model_url,
            api_url=api_url,
            bot_token=BOT_TOKEN,
            signing_secret=SIGNING_SECRET,
            log_level="info",
        )
    )
    arguments = ("--config", str(config))
    log = folder / "clawbot.log"
    if not profiled:
        run = ("-m", "clawbot", "run", *arguments)
        async with process(*run, log=log, reads_line=False) as (started, _):
            target = await _listening(folder, started, log)
            pids = [started.pid, *_children(started.pid)]
            yield Subject(name="clawbot", target=target, pids=pids)
        return
    profiler = ("-m", "tests.bench.profiled")
    worker = (*profiler, str(folder / "worker.profile"), "worker", *arguments)
    adapter = (*profiler, str(folder / "adapter.profile"), "adapter", "slack", *arguments)
    async with (
        process(*worker, log=folder / "worker.log", reads_line=False) as (first, _),
        process(*adapter, log=log, reads_line=False) as (second, _),
    ):
        target = await _listening(folder, second, log)
        yield Subject(name="clawbot", target=target, pids=[first.pid, second.pid])


async def _listening(folder: Path, started: asyncio.subprocess.Process, log: Path) -> str:
    """Where the channel listens, which its adapter tells in the store."""
    async with asyncio.timeout(START_TIMEOUT_S):
        while True:
            if started.returncode is not None:
                raise NotStarted(log)
            facts = query(folder, "SELECT facts FROM channel_state WHERE state = 'up'")
            if facts:
                return str(json.loads(facts[0][0])["listening"])
            await asyncio.sleep(0.05)


def query(folder: Path, sql: str) -> list[tuple[str, ...]]:
    """Read the daemon's store from outside; nothing where there is no store yet."""
    path = folder / "state" / "clawbot.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        try:
            return connection.execute(sql).fetchall()
        except sqlite3.OperationalError:
            return []  # its tables are being made


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in listed.split()]
