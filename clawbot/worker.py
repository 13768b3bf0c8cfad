"""A worker: claims turns and runs them side by side (`clawbot.turn_run`).

It tells its turns when somebody stopped them or took them over, and on SIGTERM lets them finish or
gives them back within the grace.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from clawbot.agent.prompt import user_entries
from clawbot.errors import StoreUnavailable
from clawbot.lease import Heartbeat
from clawbot.ports import Clock, Store
from clawbot.scheduler import Scheduler
from clawbot.store import claims, sessions, waiting
from clawbot.store.claims import Claim, QueueOf, collecting
from clawbot.store.topics import STOPS, TURNS
from clawbot.tracing.tracer import Tracer
from clawbot.turn_run import TurnRun, TurnRunner

log = structlog.get_logger(__name__)

CLAIM_BATCH = 32
LOOK_AGAIN_S = 1.0
LEAST_WAIT_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """Bounds of a worker; see the config sections `turns` and `limits`.

    task_timeout_s: the like of `turn_timeout_s`, for tasks that the agent itself began.
    turns_per_chat: how many of them one chat may have, so that a flood leaves room for the others.
    pools: of which it runs the turns; none = of all.
    queue_of: the policy of a session. debounces: whether sessions may wait for more of a burst.
    """

    turns: int
    turn_timeout_s: float
    grace_s: float
    context_rows: int
    task_timeout_s: float = 7200
    turns_per_chat: int = 16
    pools: tuple[str, ...] = ()
    queue_of: QueueOf = collecting
    debounces: bool = False


class Worker:
    """One worker process's work; a `ports.Part`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        heartbeat: Heartbeat,
        runner: TurnRunner,
        limits: WorkerLimits,
        scheduler: Scheduler | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._heartbeat = heartbeat
        self._runner = runner
        self._scheduler = scheduler
        self._tracer = tracer
        self._limits = limits
        self._running: dict[str, TurnRun] = {}
        self._stragglers: set[asyncio.Task[Any]] = set()
        self._none_running = asyncio.Event()
        self._none_running.set()
        self._has_begun = asyncio.Event()
        self._hearing: asyncio.Task[bool] | None = None
        self._is_short = self._was_freed = False

    async def ready(self) -> None:
        """See `ports.Readiness`: it claims turns."""
        await self._has_begun.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Claim and run turns until `stop`; then finish or give back what runs, within the grace.

        Raise LeaseLost when others may have taken this worker's turns over.
        """
        await self._heartbeat.begin()
        self._has_begun.set()
        async with asyncio.TaskGroup() as group:
            side_tasks = [
                group.create_task(self._heartbeat.run(), name="heartbeat"),
                group.create_task(self._watch_stops(), name="stops"),
                group.create_task(self._watch_newcomers(), name="newcomers"),
            ]
            if self._scheduler is not None:
                side_tasks.append(group.create_task(self._scheduler.run(), name="schedules"))
            try:
                await self._claim_turns(group, stop)
                await self._drain()
            finally:
                for task in side_tasks:
                    task.cancel()
        await self._heartbeat.end()

    # -- claiming ----------------------------------------------------------------------------------

    async def _claim_turns(self, group: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        ear = self._store.listen([TURNS])
        stopped = group.create_task(stop.wait(), name="stop")
        try:
            while not stop.is_set():
                claimed = await self._claim()
                for claim in claimed:
                    run = self._run_of(claim)
                    self._running[claim.turn_id] = run
                    self._none_running.clear()
                    group.create_task(self._turn(run), name=f"turn {claim.turn_id}")
                if len(claimed) < CLAIM_BATCH and not self._was_freed:
                    wait_s = await self._wait_s()
                    self._hearing = group.create_task(ear.wait(wait_s), name="ear")
                    waited = {self._hearing, stopped}
                    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                    self._hearing.cancel()
        finally:
            stopped.cancel()
            ear.close()

    def _run_of(self, claim: Claim) -> TurnRun:
        return TurnRun(
            self._store,
            self._clock,
            self._runner,
            claim,
            timeout_s=self._limits.task_timeout_s if claim.is_task else self._limits.turn_timeout_s,
            policy=self._limits.queue_of(claim.session, claim.rows[0].channel, claim.settings),
            tracer=self._tracer,
        )

    async def _wait_s(self) -> float:
        """How long to wait for a ring: not longer than until a session's wait is over."""
        if not self._limits.debounces:
            return LOOK_AGAIN_S
        try:
            next_ms = await self._store.read(waiting.next_ms)
        except StoreUnavailable:
            return LOOK_AGAIN_S
        wait_ms = LOOK_AGAIN_S * 1000 if next_ms is None else next_ms - self._clock.now_ms()
        return min(LOOK_AGAIN_S, max(wait_ms / 1000, LEAST_WAIT_S))

    async def _claim(self) -> list[Claim]:
        room = min(CLAIM_BATCH, self._limits.turns - len(self._running))
        chats = Counter(run.claim.session.chat for run in self._running.values())
        # What ends while this looks may make room that it does not see.
        self._is_short, self._was_freed = True, False
        if room <= 0 or not self._heartbeat.is_fresh:
            return []
        now_ms = self._clock.now_ms()
        try:
            claimed = await self._store.write(
                lambda tx: claims.claim(
                    tx,
                    self._heartbeat.process_id,
                    limit=room,
                    now_ms=now_ms,
                    context_rows=self._limits.context_rows,
                    compose=user_entries,
                    queue_of=self._limits.queue_of,
                    running=chats,
                    per_chat=self._limits.turns_per_chat,
                    pools=self._limits.pools,
                )
            )
        except StoreUnavailable as error:
            log.warning("claim_failed", error=str(error))
            return []
        chats.update(claim.session.chat for claim in claimed)
        fullest = max(chats.values(), default=0)
        self._is_short = len(claimed) == room or fullest >= self._limits.turns_per_chat
        self._was_freed = self._was_freed and self._is_short
        return claimed

    async def _watch_stops(self) -> None:
        """End turns that were stopped or taken over; one query for all of them."""
        ear = self._store.listen([STOPS])
        try:
            while True:
                await ear.wait(LOOK_AGAIN_S)
                running = list(self._running.values())
                if not running:
                    continue
                keys = [str(item.claim.session) for item in running]
                try:
                    marks = await self._store.read(partial(sessions.stop_marks, keys=keys))
                except StoreUnavailable as error:
                    log.warning("stops_not_read", error=str(error))
                    continue
                for item in running:
                    stop_seq, fence = marks.get(str(item.claim.session), (0, -1))
                    if fence != item.claim.fence:
                        item.end("lease")
                    elif item.claim.first_seq <= stop_seq:
                        item.end("stop")
        finally:
            ear.close()

    async def _watch_newcomers(self) -> None:
        """End turns that a newer message of the same person interrupts, where that is the rule."""
        ear = self._store.listen([TURNS])
        try:
            while True:
                await ear.wait(LOOK_AGAIN_S)
                runs = [run for run in self._running.values() if run.policy == "interrupt"]
                if not runs:
                    continue
                found = partial(waiting.interrupted, running=[run.claim for run in runs])
                try:
                    interrupted = await self._store.read(found)
                except StoreUnavailable as error:
                    log.warning("newcomers_not_read", error=str(error))
                    continue
                for run in runs:
                    if run.claim.turn_id in interrupted:
                        run.end("interrupt")
        finally:
            ear.close()

    async def _drain(self) -> None:
        """Let turns finish within the grace, then give the rest back."""
        if self._running:
            await self._heartbeat.drain()
        try:
            async with asyncio.timeout(self._limits.grace_s):
                await self._none_running.wait()
        except TimeoutError:
            for item in list(self._running.values()):
                item.end("drain")
            await self._none_running.wait()

    # -- one turn ----------------------------------------------------------------------------------

    async def _turn(self, run: TurnRun) -> None:
        try:
            await run.run()
        finally:
            del self._running[run.claim.turn_id]
            if not self._running:
                self._none_running.set()
            if self._is_short and self._hearing is not None:
                self._was_freed = True
                self._hearing.cancel()  # there is room again: look at once
            if run.straggler is not None:
                self._stragglers.add(run.straggler)
                run.straggler.add_done_callback(self._forget)

    def _forget(self, straggler: asyncio.Task[Any]) -> None:
        self._stragglers.discard(straggler)
        if not straggler.cancelled() and (error := straggler.exception()) is not None:
            log.warning("straggler_failed", exc_info=error)
