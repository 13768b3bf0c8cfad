"""Wires the processes: which parts `clawbot run` runs, and in which processes.

Which parts there are and what they are made of stands in `clawbot.parts`; how they are kept running
in `clawbot.supervisor`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from clawbot.channel_board import ChannelBoard
from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.errors import StoreAway
from clawbot.housekeeping import Housekeeping
from clawbot.parts import adapter_part, open_store, release_process, web_part, worker_part
from clawbot.ports import Part, Store
from clawbot.process.child import ChildProcess
from clawbot.process.children_file import ChildrenFile
from clawbot.process.hosting import AWAY_PAUSE_S, HostedPart
from clawbot.process.notify import VARIABLES, Notifier
from clawbot.process.part import run_part
from clawbot.process.stopping import Stopping, on_hangup, on_signals
from clawbot.reloading import ConfigMending
from clawbot.supervisor import Child, ChildStatus, Hooks, Mending, Supervisor
from clawbot.transcripts import TranscriptKeeper

log = structlog.get_logger(__name__)

WEB = "web"
WEB_URL_FILE = "web.url"
"""Where the web part writes the page's address with its token, in the state dir, mode 0600."""

# Each outer party waits longer than the inner one, so that the inner one's own end is what we see:
# the part drains within its grace, its process cuts it off later, the supervisor kills later still,
# systemd (TimeoutStopSec=) last.
CUT_OFF_MARGIN_S = 5.0
KILL_MARGIN_S = 10.0

SideJob = Coroutine[None, None, None]

OpenSharing = Callable[[Store, str], AbstractAsyncContextManager[Part]]
"""Opens a part on a store, for a process id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnablePart:
    """A part to run: its name among the children, and the arguments of `clawbot` that run it."""

    name: str
    arguments: tuple[str, ...]
    open_part: OpenSharing
    channel: str | None = None


def worker(config: Config, number: int = 1) -> RunnablePart:
    """A worker; the number tells several of one supervisor apart."""
    return RunnablePart(
        name=f"worker-{number}",
        arguments=("worker",),
        open_part=lambda store, process_id: worker_part(config, store, process_id),
    )


def adapter(config: Config, channel: str) -> RunnablePart:
    """The adapter of a configured channel."""
    return RunnablePart(
        name=f"adapter-{channel}",
        arguments=("adapter", channel),
        open_part=lambda store, process_id: adapter_part(config, store, process_id, channel),
        channel=channel,
    )


def web(config: Config) -> RunnablePart:
    """The web page."""
    return RunnablePart(
        name=WEB,
        arguments=("web",),
        open_part=lambda store, process_id: web_part(config, store, process_id),
        channel=WEB,
    )


def parts_of(config: Config) -> list[RunnablePart]:
    """Everything that `clawbot run` runs."""
    parts = [worker(config, number) for number in range(1, config.workers + 1)]
    parts += [adapter(config, name) for name, one in config.channels.items() if one.enabled]
    if config.web.enabled:
        parts.append(web(config))
    return parts


def as_processes(
    parts: Sequence[RunnablePart], config: Config, path: Path, environ: Mapping[str, str]
) -> list[Child]:
    """Each part as a process of its own, started by `python -m clawbot`."""
    inherited = {name: value for name, value in environ.items() if name not in VARIABLES}
    return [
        Child(
            name=part.name,
            run=ChildProcess(
                command=(
                    *(sys.executable, "-m", "clawbot"),
                    *part.arguments,
                    *("--config", str(path)),
                ),
                environ=inherited,
                kill_after_s=config.limits.grace_s + KILL_MARGIN_S,
                ready_after_s=config.limits.ready_s,
            ),
        )
        for part in parts
    ]


def in_this_process(parts: Sequence[RunnablePart], config: Config, store: Store) -> list[Child]:
    """All parts beside each other in one event loop."""
    drain_s = config.limits.grace_s + CUT_OFF_MARGIN_S
    return [
        Child(
            name=part.name,
            run=HostedPart(
                open_part=partial(part.open_part, store),
                drain_s=drain_s,
                ready_after_s=config.limits.ready_s,
            ),
        )
        for part in parts
    ]


async def run_daemon(
    config: Config,
    config_path: Path | None,
    environ: Mapping[str, str],
    announce: Callable[[str], None],
) -> int:
    """Run everything until a signal ends it; return the exit code.

    config_path: what the child processes read; None hosts all parts in this process instead.
    announce: told the page's address once it can be opened.
    """
    url_file = config.state_dir / WEB_URL_FILE
    await asyncio.to_thread(url_file.unlink, missing_ok=True)
    store = await _open_patiently(config)
    try:
        parts = parts_of(config)
        if config_path is None:
            children = in_this_process(parts, config, store)
        else:
            children = as_processes(parts, config, config_path, environ)
        # Child processes read the file when they start; parts in this process do not.
        mending = None
        if config_path is not None:
            mending = ConfigMending(file=config_path, clock=SystemClock())
        file = ChildrenFile(config.state_dir)
        daemon = Daemon(store, Notifier(environ), parts, file, mending)
        housekeeping = Housekeeping(store, SystemClock(), config.retention, config.state_dir)
        beside: dict[str, SideJob] = {"housekeeping": housekeeping.run()}
        if config.web.enabled:
            beside["announce"] = daemon.announce_page(url_file, announce)
        if config.transcripts:
            keeper = TranscriptKeeper(store, SystemClock(), config.state_dir)
            beside["transcripts"] = keeper.run()
        return await daemon.run(children, beside)
    finally:
        await store.close()


async def _open_patiently(config: Config) -> Store:
    """Open the store, as soon as it is there: after a power cut all machines start at once."""
    has_waited = False
    while True:
        try:
            store = await open_store(config)
        except StoreAway as error:
            if not has_waited:
                log.warning("store_away", error=error)
            has_waited = True
            await asyncio.sleep(AWAY_PAUSE_S)
        else:
            if has_waited:
                log.info("store_back")
            return store


class Daemon:
    """A supervisor and what runs beside it: the watchdog and the channels' states."""

    def __init__(
        self,
        store: Store,
        notifier: Notifier,
        parts: Sequence[RunnablePart],
        file: ChildrenFile,
        mending: Mending | None = None,
    ) -> None:
        self._store = store
        self._mending = mending
        self._file = file
        self._notifier = notifier
        self._clock = SystemClock()
        self._stopping = Stopping()
        self._is_ready = asyncio.Event()
        self._board = ChannelBoard(
            store,
            self._clock,
            {part.name: part.channel for part in parts if part.channel},
            silent={WEB},
        )

    async def run(self, children: Sequence[Child], beside: Mapping[str, SideJob]) -> int:
        """Run the children until a signal ends it, and these jobs beside them."""
        supervisor = Supervisor(
            children,
            hooks=Hooks(
                ended=self._ended,
                changed=self._changed,
                ready=self._ready,
                mending=self._mending,
            ),
            clock=self._clock,
        )
        side_jobs = {
            "watchdog": self._notifier.feed_watchdog(self._clock),
            "board": self._board.run(),
            "children": self._file.run(),
            **beside,
        }
        self._file.post(supervisor.statuses)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(job, name=name) for name, job in side_jobs.items()]
            with on_signals(self._signalled), on_hangup(self._signalled):
                code = await supervisor.run(self._stopping)
            for task in running:
                task.cancel()
        return code

    async def announce_page(self, url_file: Path, announce: Callable[[str], None]) -> None:
        """Tell the page's address when all is ready and the web part has written it."""
        await self._is_ready.wait()
        while True:
            with suppress(FileNotFoundError):
                announce((await asyncio.to_thread(url_file.read_text, "utf-8")).strip())
                return
            await self._clock.sleep(0.2)

    async def _ended(self, process_id: str) -> None:
        await release_process(self._store, process_id)

    def _changed(self, statuses: Sequence[ChildStatus]) -> None:
        self._notifier.status(", ".join(f"{one.name} {one.state}" for one in statuses))
        self._board.post(statuses)
        self._file.post(statuses)

    def _ready(self) -> None:
        self._notifier.ready()
        self._is_ready.set()
        log.info("daemon_ready")

    def _signalled(self, number: int) -> None:
        log.info("stop_requested", signal=number, insisted=self._stopping.stop.is_set())
        self._notifier.stopping()
        if self._stopping.now.is_set():
            os._exit(128 + number)
        self._stopping.request()


async def run_alone(config: Config, part: RunnablePart, environ: MutableMapping[str, str]) -> int:
    """Run one part, with a store of its own, as this whole process; return the exit code."""

    @asynccontextmanager
    async def open_part(process_id: str) -> AsyncIterator[Part]:
        store = await open_store(config)
        try:
            async with part.open_part(store, process_id) as opened:
                yield opened
        finally:
            await store.close()

    grace_s = config.limits.grace_s
    return await run_part(
        part.name,
        open_part,
        environ,
        drain_s=grace_s + CUT_OFF_MARGIN_S,
        linger_s=grace_s + KILL_MARGIN_S,
    )
