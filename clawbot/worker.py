"""A worker: claims turns, runs them side by side, ends each in one transaction.

The life of a turn here: claim → agent loop (each step recorded under the claim's fence) → finish.
It can end early in four ways: it is stopped (somebody said so), it fails (a visible error), the
worker drains (another one resumes it), or the lease is lost (nothing more is written).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import structlog

from clawbot.agent.loop import Answer, Timing, interrupted
from clawbot.agent.prompt import user_entries
from clawbot.drafts import DraftWriter
from clawbot.errors import LeaseLost, ModelError, StoreUnavailable, TurnStopped, new_error_id
from clawbot.failures import failure_text, notice_of
from clawbot.history import Entry, EntryKind
from clawbot.lease import Heartbeat
from clawbot.logs import TurnSummary, log_turn
from clawbot.ports import Clock, Reporter, Store
from clawbot.store import claims, history, sessions, turns
from clawbot.store.claims import Claim
from clawbot.store.topics import STOPS, TURNS
from clawbot.store.turns import Outcome

log = structlog.get_logger(__name__)

CLAIM_BATCH = 32
LOOK_AGAIN_S = 1.0
MAX_UNCLEAN_ATTEMPTS = 3
STORE_RETRY_S = 1.0
STOPPED_NOTE = "(stopped by the user)"


class TurnRunner(Protocol):
    """What a worker runs a turn with."""

    async def run(
        self, claim: Claim, journal: StoreJournal, reporter: Reporter, timing: Timing
    ) -> Answer:
        """Run the turn to its answer. Raise ModelError, LeaseLost or TurnStopped."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """Bounds of a worker; see the config sections `turns` and `limits`."""

    turns: int
    turn_timeout_s: float
    grace_s: float
    context_rows: int
    history_rows: int


class StoreJournal:
    """A turn's `agent.loop.Journal` in the store."""

    def __init__(self, store: Store, clock: Clock, claim: Claim, history_rows: int) -> None:
        self.turn_id = claim.turn_id
        self._store = store
        self._clock = clock
        self._claim = claim
        self._history_rows = history_rows

    async def load(self) -> list[Entry]:
        """See `Journal`."""
        claim = self._claim
        return await self._store.read(
            lambda tx: history.load(tx, claim.session, claim.epoch, newest=self._history_rows)
        )

    async def record(self, entries: Sequence[Entry], *, is_progress: bool = True) -> list[Entry]:
        """See `Journal`."""
        now_ms = self._clock.now_ms()
        return await self._store.write(
            lambda tx: turns.record(tx, self._claim, entries, now_ms, is_progress=is_progress)
        )


@dataclass(slots=True, kw_only=True)
class Running:
    """A turn that runs in this worker. `ending` says why it shall end early: stop or drain."""

    claim: Claim
    ending: asyncio.Future[str] = field(default_factory=asyncio.Future)

    def end(self, why: str) -> None:
        """Ask the turn to end; the first reason counts."""
        if not self.ending.done():
            self.ending.set_result(why)


class Worker:
    """One worker process's work; a `ports.Part`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        heartbeat: Heartbeat,
        runner: TurnRunner,
        limits: WorkerLimits,
    ) -> None:
        self._store = store
        self._clock = clock
        self._heartbeat = heartbeat
        self._runner = runner
        self._limits = limits
        self._running: dict[str, Running] = {}
        self._none_running = asyncio.Event()
        self._none_running.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Claim and run turns until `stop`; then finish or give back what runs, within the grace.

        Raise LeaseLost when others may have taken this worker's turns over.
        """
        await self._heartbeat.begin()
        async with asyncio.TaskGroup() as group:
            side_tasks = [
                group.create_task(self._heartbeat.run(), name="heartbeat"),
                group.create_task(self._watch_stops(), name="stops"),
            ]
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
                    running = Running(claim=claim)
                    self._running[claim.turn_id] = running
                    self._none_running.clear()
                    group.create_task(self._turn(running), name=f"turn {claim.turn_id}")
                if len(claimed) < CLAIM_BATCH:
                    waiting = group.create_task(ear.wait(LOOK_AGAIN_S), name="ear")
                    await asyncio.wait({waiting, stopped}, return_when=asyncio.FIRST_COMPLETED)
                    waiting.cancel()
        finally:
            stopped.cancel()
            ear.close()

    async def _claim(self) -> list[Claim]:
        room = min(CLAIM_BATCH, self._limits.turns - len(self._running))
        if room <= 0 or not self._heartbeat.is_fresh:
            return []
        now_ms = self._clock.now_ms()
        try:
            return await self._store.write(
                lambda tx: claims.claim(
                    tx,
                    self._heartbeat.process_id,
                    limit=room,
                    now_ms=now_ms,
                    context_rows=self._limits.context_rows,
                    compose=user_entries,
                )
            )
        except StoreUnavailable as error:
            log.warning("claim_failed", error=str(error))
            return []

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

    async def _drain(self) -> None:
        """Let turns finish within the grace, then give the rest back."""
        try:
            async with asyncio.timeout(self._limits.grace_s):
                await self._none_running.wait()
        except TimeoutError:
            for item in list(self._running.values()):
                item.end("drain")
            await self._none_running.wait()

    # -- one turn ----------------------------------------------------------------------------------

    async def _turn(self, running: Running) -> None:
        claim = running.claim
        timing = Timing()
        started = self._clock.monotonic()
        with structlog.contextvars.bound_contextvars(
            turn=claim.turn_id, session=str(claim.session), channel=claim.rows[-1].channel
        ):
            outcome = "released"
            try:
                outcome = await self._run(running, timing)
            except LeaseLost:
                outcome = "lease_lost"
            finally:
                del self._running[claim.turn_id]
                if not self._running:
                    self._none_running.set()
                self._log_turn(claim, outcome, timing, started)

    async def _run(self, running: Running, timing: Timing) -> str:
        """Run a turn and end it; return the state it ended in, for the log."""
        claim = running.claim
        journal = self._journal(claim)
        drafts = DraftWriter(self._store, self._clock, claim)
        if claim.attempt >= MAX_UNCLEAN_ATTEMPTS:
            log.error("turn_abandoned", attempts=claim.attempt)
            failed = self._failed(claim, "crashed", new_error_id(), drafts)
            return await self._finish(claim, failed, drafts)
        work = asyncio.create_task(self._answer(claim, journal, drafts, timing), name="agent")
        writer = asyncio.create_task(drafts.run(), name="drafts")
        try:
            either: list[asyncio.Future[Any]] = [work, running.ending]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            writer.cancel()
            if not work.done():
                work.cancel()
            await asyncio.wait({work, writer})
        if work.cancelled():
            why = running.ending.result()
            if why == "drain":
                now_ms = self._clock.now_ms()
                await self._store.write(lambda tx: claims.give_back(tx, claim, now_ms))
                return "given_back"
            if why == "lease":
                raise LeaseLost
            outcome = await self._stopped(journal, drafts.newest)
        else:
            try:
                outcome = work.result()
            except TurnStopped:
                outcome = await self._stopped(journal, drafts.newest)
        timing.error_id = outcome.error_id
        finishing = self._clock.monotonic()
        state = await self._finish(claim, outcome, drafts)
        timing.finish_ms = round((self._clock.monotonic() - finishing) * 1000)
        return state

    def _journal(self, claim: Claim) -> StoreJournal:
        return StoreJournal(self._store, self._clock, claim, self._limits.history_rows)

    async def _answer(
        self, claim: Claim, journal: StoreJournal, drafts: DraftWriter, timing: Timing
    ) -> Outcome:
        """Run the agent; every failure but a lost lease or a stop becomes a visible one."""
        error_id = new_error_id()
        try:
            async with asyncio.timeout(self._limits.turn_timeout_s):
                answer = await self._runner.run(claim, journal, drafts, timing)
        except (LeaseLost, TurnStopped):
            raise
        except TimeoutError:
            log.warning("turn_timed_out", error_id=error_id)
            return self._failed(claim, "timeout", error_id, drafts)
        except ModelError as error:
            log.warning("model_failed", error_id=error_id, kind=error.kind, error=str(error))
            return self._failed(claim, error.kind, error_id, drafts)
        except Exception:
            log.exception("turn_crashed", error_id=error_id)
            return self._failed(claim, "crashed", error_id, drafts)
        route = claim.route
        grows = route is None or route.can_edit
        reply = "\n\n".join(answer.texts) if grows else answer.texts[-1]
        return Outcome(state="done", entries=answer.entries, reply=reply, usage=timing.usage)

    def _failed(self, claim: Claim, kind: str, error_id: str, drafts: DraftWriter) -> Outcome:
        """A visible error, after what people saw already."""
        text = failure_text(kind, error_id, like=claim.rows[-1].text)
        return Outcome(
            state="failed",
            reply=f"{drafts.newest}\n\n{text}" if drafts.written else text,
            notice=notice_of(kind),
            error_id=error_id,
        )

    async def _stopped(self, journal: StoreJournal, shown: str) -> Outcome:
        """A stopped turn keeps what it did and showed; open calls are closed, so that the history
        is whole.
        """
        turn_id = journal.turn_id
        recorded = [entry for entry in await journal.load() if entry.turn_id == turn_id]
        step = 1 + max((entry.step for entry in recorded), default=-1)
        texts = [entry.text for entry in recorded if entry.kind is EntryKind.ASSISTANT]
        unfinished = shown.removeprefix("\n\n".join(texts)).strip()
        entries = interrupted(recorded, turn_id)
        if unfinished:
            entries.append(
                Entry(kind=EntryKind.ASSISTANT, text=unfinished, turn_id=turn_id, step=step)
            )
        entries.append(Entry(kind=EntryKind.NOTE, text=STOPPED_NOTE, turn_id=turn_id, step=step))
        return Outcome(state="stopped", entries=tuple(entries))

    async def _finish(self, claim: Claim, outcome: Outcome, drafts: DraftWriter) -> str:
        """Commit the end, for as long as the lease holds."""
        while True:
            now_ms = self._clock.now_ms()
            try:
                await self._store.write(
                    partial(turns.finish, turn=claim, outcome=outcome, now_ms=now_ms)
                )
            except StoreUnavailable as error:
                log.warning("finish_failed", error=str(error))
                await self._clock.sleep(STORE_RETRY_S)
            except TurnStopped:
                outcome = await self._stopped(self._journal(claim), drafts.newest)
            else:
                return outcome.state

    def _log_turn(self, claim: Claim, outcome: str, timing: Timing, started: float) -> None:
        stages = {
            "wait": claim.started_ms - claim.rows[0].accepted_ms,
            "model": timing.model_ms,
            "tools": timing.tools_ms,
            "finish": timing.finish_ms,
            "total": round((self._clock.monotonic() - started) * 1000),
        }
        if timing.first_text_ms is not None:
            stages["first_token"] = timing.first_text_ms
        log_turn(
            log,
            TurnSummary(
                turn=claim.turn_id,
                session=str(claim.session),
                outcome=outcome,
                model=timing.model,
                messages=len(claim.rows),
                steps=timing.steps,
                attempt=claim.attempt + 1,
                input_tokens=timing.usage.input_tokens,
                output_tokens=timing.usage.output_tokens,
                error_id=timing.error_id,
                stages_ms=stages,
            ),
        )
