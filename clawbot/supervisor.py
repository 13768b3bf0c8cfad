"""Keeps the parts of the daemon running: restarts alone what ended, gives up on a bad config.

A child is anything with a name that can be run until it ends; `clawbot.process.child` makes one of
a command, `clawbot.process.hosting` one of a part in this process. The supervisor knows no part.

A child that ends is restarted with growing, jittered delays; after `budget` short runs in a row it
is `degraded` and tried rarely; with exit code 78 it is `broken` and left alone until the config is
changed, for an admin must act; one that ended because the store is away is tried again soon, for as
long as that lasts. None of this touches the other children.
"""

from __future__ import annotations

import asyncio
import random
import signal
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import structlog

from clawbot.ports import Clock
from clawbot.process.stopping import Stopping, first_of

log = structlog.get_logger(__name__)

EXIT_BAD_CONFIG = 78
"""EX_CONFIG of sysexits.h; systemd's RestartPreventExitStatus= names it too."""

EXIT_STORE_AWAY = 69
"""EX_UNAVAILABLE: the store was out of reach. That is no fault of the child's and not counted."""

RELEASE_TIMEOUT_S = 10.0


class RunChild(Protocol):
    """Runs a child once."""

    async def __call__(
        self, process_id: str, on_ready: Callable[[], None], stopping: Stopping
    ) -> int:
        """Run until it ends by itself or is asked to stop; return the exit code (0 = clean).

        Call `on_ready` once when it works. Never raises for what the child did.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """Something to keep running. The name is unique and a part of its process ids."""

    name: str
    run: RunChild


class ChildState(StrEnum):
    """How a child is."""

    STARTING = "starting"
    UP = "up"
    RESTARTING = "restarting"
    DEGRADED = "degraded"
    BROKEN = "broken"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStatus:
    """What `status` shows of a child. `exit_code` is of its last run (negative = a signal), which
    `worked` tells of too: whether it came so far. since_ms: since when it is in this state.
    """

    name: str
    state: ChildState = ChildState.STARTING
    process_id: str = ""
    restarts: int = 0
    exit_code: int | None = None
    worked: bool = True
    since_ms: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether nothing new is to be expected soon: it works, or it will not by itself."""
        return self.state in {ChildState.UP, ChildState.DEGRADED, ChildState.BROKEN}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When to try again. A run shorter than `short_run_s` counts against the budget."""

    first_delay_s: float = 0.5
    longest_delay_s: float = 15.0
    short_run_s: float = 60.0
    budget: int = 5
    degraded_delay_s: float = 60.0

    def delay_s(self, short_runs: int) -> float:
        """How long to wait after so many short runs in a row (0 = the last one was long)."""
        if self.is_spent(short_runs):
            return self.degraded_delay_s
        return min(self.first_delay_s * 2.0 ** max(short_runs - 1, 0), self.longest_delay_s)

    def is_spent(self, short_runs: int) -> bool:
        """Whether the budget is used up."""
        return short_runs > self.budget


class Mending(Protocol):
    """Tells when what a child refused to run with has been changed."""

    async def mark(self) -> object:
        """What it is now."""
        ...

    async def differs(self, mark: object) -> None:
        """Wait until it is something else than that."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What the supervisor tells the outside.

    ended: a process is gone; free what it owned (awaited before its successor starts).
    changed: the state of some child changed; all are given.
    mending: when to try a broken child again; None = never. It ends nothing by itself.
    ready: called once, when every child works or has settled, at the latest after `ready_within_s`.
    """

    ended: Callable[[str], Awaitable[None]]
    changed: Callable[[Sequence[ChildStatus]], None]
    ready: Callable[[], None]
    mending: Mending | None = None
    ready_within_s: float = 30.0


class Supervisor:
    """Runs children until it is asked to stop, or until nothing is left that could run."""

    def __init__(
        self,
        children: Sequence[Child],
        *,
        hooks: Hooks,
        clock: Clock,
        policy: RestartPolicy | None = None,
    ) -> None:
        self._children = children
        self._hooks = hooks
        self._clock = clock
        self._policy = policy or RestartPolicy()
        now_ms = clock.now_ms()
        self._status = {one.name: ChildStatus(name=one.name, since_ms=now_ms) for one in children}
        self._settled = asyncio.Event()
        self._all_broken = asyncio.Event()

    @property
    def statuses(self) -> list[ChildStatus]:
        """How all children are now."""
        return list(self._status.values())

    async def run(self, stopping: Stopping) -> int:
        """Return the exit code: 0 after a clean stop, 78 when everything is broken, else 1."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tell_when_ready(stopping), name="ready")
            keepers = [
                group.create_task(self._keep(child, stopping), name=child.name)
                for child in self._children
            ]
        if all(one.state is ChildState.BROKEN for one in self.statuses):
            log.error("nothing_left_to_run")
            return EXIT_BAD_CONFIG
        return int(not all(keeper.result() for keeper in keepers))

    async def _tell_when_ready(self, stopping: Stopping) -> None:
        await first_of(
            self._settled.wait(),
            stopping.stop.wait(),
            self._clock.sleep(self._hooks.ready_within_s),
        )
        if not stopping.stop.is_set():
            self._hooks.ready()

    async def _keep(self, child: Child, stopping: Stopping) -> bool:
        """Return whether it ended cleanly when it was asked to stop."""
        short_runs = 0
        while not stopping.stop.is_set():
            begun, mending = self._clock.monotonic(), self._hooks.mending
            mark = None if mending is None else await mending.mark()
            code = await self._run_once(child, stopping)
            if stopping.stop.is_set():
                before = self._status[child.name]
                self._put(replace(before, state=ChildState.STOPPED, exit_code=code))
                # What never worked has nothing to drain, however it ends by itself.
                had_work = before.state is ChildState.UP or code == -signal.SIGKILL
                return code == 0 or not had_work
            if code == EXIT_BAD_CONFIG:
                log.error("child_broken", child=child.name, exit_code=code)
                self._put(
                    replace(self._status[child.name], state=ChildState.BROKEN, exit_code=code)
                )
                if not await self._was_mended(mark, stopping):
                    return True
                continue
            if code == EXIT_STORE_AWAY:
                await self._wait_for_restart(child, code, 0, stopping)
                continue
            is_short = self._clock.monotonic() - begun < self._policy.short_run_s
            short_runs = short_runs + 1 if is_short else 0
            await self._wait_for_restart(child, code, short_runs, stopping)
        self._put(replace(self._status[child.name], state=ChildState.STOPPED))
        return True

    async def _was_mended(self, mark: object, stopping: Stopping) -> bool:
        """Wait until a broken child may be tried again; False when it will not be."""
        if self._hooks.mending is None:
            return False
        changed, stopped = self._hooks.mending.differs(mark), stopping.stop.wait()
        await first_of(changed, stopped, self._all_broken.wait())
        return not (stopping.stop.is_set() or self._all_broken.is_set())

    async def _run_once(self, child: Child, stopping: Stopping) -> int:
        process_id = f"{child.name}-{uuid.uuid4().hex[:8]}"
        self._put(
            replace(self._status[child.name], state=ChildState.STARTING, process_id=process_id)
        )

        works = False

        def on_ready() -> None:
            nonlocal works
            works = True
            log.info("child_up", child=child.name)
            self._put(replace(self._status[child.name], state=ChildState.UP))

        code = await child.run(process_id, on_ready, stopping)
        self._put(replace(self._status[child.name], worked=works))
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await self._hooks.ended(process_id)
        except Exception:
            # The process's leases expire by themselves; the other children must go on.
            log.exception("release_failed", ended=process_id)
        return code

    async def _wait_for_restart(
        self, child: Child, code: int, short_runs: int, stopping: Stopping
    ) -> None:
        # Up to half more, so that children that fell together do not come back together.
        delay_s = self._policy.delay_s(short_runs) * random.uniform(1.0, 1.5)  # noqa: S311 no secret
        is_spent = self._policy.is_spent(short_runs)
        log.warning(
            "child_ended",
            child=child.name,
            exit_code=code,
            retry_in_s=round(delay_s, 2),
            degraded=is_spent,
        )
        before = self._status[child.name]
        state = ChildState.DEGRADED if is_spent else ChildState.RESTARTING
        self._put(replace(before, state=state, restarts=before.restarts + 1, exit_code=code))
        await first_of(stopping.stop.wait(), self._clock.sleep(delay_s))

    def _put(self, after: ChildStatus) -> None:
        before = self._status[after.name]
        if after.state != before.state:
            after = replace(after, since_ms=self._clock.now_ms())
        self._status[after.name] = after
        if after.state != before.state:
            self._hooks.changed(self.statuses)
        if all(one.is_settled for one in self.statuses):
            self._settled.set()
        if all(one.state is ChildState.BROKEN for one in self.statuses):
            self._all_broken.set()
