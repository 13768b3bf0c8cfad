"""One turn in a worker: from its claim through the agent to its end, in one transaction.

It can end early: it is stopped (somebody said so) or interrupted (a newer message of the same
person takes its place), it fails (a visible error), it is parked (people must decide first; whoever
claims it then goes on), the worker drains (another one resumes it), or the lease is lost (nothing
more is written).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import structlog

from clawbot.agent.calling import Timing
from clawbot.agent.interruption import CUT_SHORT_NOTE, STOPPED_NOTE, cut_short
from clawbot.agent.loop import Answer
from clawbot.drafts import DraftWriter
from clawbot.errors import (
    LeaseLost,
    ModelError,
    StoreUnavailable,
    TurnParked,
    TurnStopped,
    new_error_id,
)
from clawbot.failures import failure_text, notice_of
from clawbot.journal import StoreJournal
from clawbot.logs import TurnSummary, log_turn
from clawbot.ports import Clock, Reporter, Store, Transaction
from clawbot.queueing import QueuePolicy
from clawbot.store import claims, turns
from clawbot.store.claims import Claim
from clawbot.store.turns import Outcome
from clawbot.tracing.tracer import Tracer

log = structlog.get_logger(__name__)

MAX_UNCLEAN_ATTEMPTS = 3
STORE_RETRY_S = 1.0
CANCEL_S = 1.0


class TurnRunner(Protocol):
    """What a worker runs a turn with."""

    async def run(
        self, claim: Claim, journal: StoreJournal, reporter: Reporter, timing: Timing
    ) -> Answer:
        """Run the turn to its answer. Raise ModelError, LeaseLost, TurnStopped or TurnParked."""
        ...


class TurnRun:
    """Runs one claimed turn.

    straggler: set when the agent did not end in time after it was cancelled; whatever it still
    wants to write is refused, because the turn's fence is gone.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        runner: TurnRunner,
        claim: Claim,
        *,
        timeout_s: float,
        policy: QueuePolicy = "collect",
        tracer: Tracer | None = None,
    ) -> None:
        self.claim = claim
        self.straggler: asyncio.Task[Outcome] | None = None
        self._store = store
        self._clock = clock
        self._runner = runner
        self._tracer = tracer or Tracer(clock)
        self._timeout_s = timeout_s
        self.policy = policy
        self._journal = StoreJournal(store, clock, claim, lets_join=policy == "steer")
        self._drafts = DraftWriter(store, clock, claim)
        self._timing = Timing(usage=claim.usage)
        self._ending: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def end(self, why: str) -> None:
        """Ask the turn to end: stop, interrupt, drain or lease; the first reason counts."""
        if not self._ending.done():
            self._ending.set_result(why)

    async def run(self) -> None:
        """Run the turn to its end, whatever that is, and log it."""
        claim = self.claim
        started = self._clock.monotonic()
        with structlog.contextvars.bound_contextvars(
            turn=claim.turn_id, session=str(claim.session), channel=claim.rows[-1].channel
        ):
            async with self._tracer.turn(claim) as trace:
                outcome = "released"
                try:
                    outcome = await self._run()
                except LeaseLost:
                    outcome = "lease_lost"
                finally:
                    if trace is not None:
                        trace.ended(outcome, self._timing)
                    self._log(outcome, started)

    async def _run(self) -> str:
        """Run the turn and end it; return the state it ended in, for the log."""
        claim = self.claim
        if claim.attempt >= MAX_UNCLEAN_ATTEMPTS:
            log.error("turn_abandoned", attempts=claim.attempt)
            return await self._finish(self._failed("crashed", new_error_id()))
        try:
            outcome = await self._answer_or_end()
        except TurnStopped:
            outcome = await self._stopped()
        if outcome is None:
            return await self._give_back()
        self._timing.error_id = outcome.error_id
        finishing = self._clock.monotonic()
        state = await self._finish(outcome)
        self._timing.finish_ms = round((self._clock.monotonic() - finishing) * 1000)
        return state

    async def _answer_or_end(self) -> Outcome | None:
        """Run the agent until it has answered or somebody asks the turn to end; None = let another
        worker go on with it. Raise LeaseLost or TurnStopped.
        """
        work = asyncio.create_task(self._answer(), name="agent")
        writer = asyncio.create_task(self._drafts.run(), name="drafts")
        try:
            either: list[asyncio.Future[Any]] = [work, self._ending]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            writer.cancel()
            work.cancel()  # nothing, when it is done
            await asyncio.wait({work, writer}, timeout=CANCEL_S)
        if not work.done():
            log.error("turn_does_not_end", waited_s=CANCEL_S)
            self.straggler = work
        elif not work.cancelled():
            return work.result()
        if not self._ending.done():
            error_id = new_error_id()
            log.error("agent_cancelled_itself", error_id=error_id)
            return self._failed("crashed", error_id)
        why = self._ending.result()
        if why == "lease":
            raise LeaseLost
        if why == "drain":
            return None
        return await (self._cut_short() if why == "interrupt" else self._stopped())

    async def _answer(self) -> Outcome:
        """Run the agent; every failure but a lost lease or a stop becomes a visible one."""
        claim, timing = self.claim, self._timing
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._runner.run(claim, self._journal, self._drafts, timing)
        except (LeaseLost, TurnStopped):
            raise
        except TurnParked:
            return Outcome(state="parked")
        except TimeoutError:
            error_id = new_error_id()
            log.warning("turn_timed_out", error_id=error_id)
            return self._failed("timeout", error_id)
        except ModelError as error:
            error_id = new_error_id()
            log.warning("model_failed", error_id=error_id, kind=error.kind, error=str(error))
            return self._failed(error.kind, error_id)
        except Exception:
            error_id = new_error_id()
            log.exception("turn_crashed", error_id=error_id)
            return self._failed("crashed", error_id)
        route = claim.reply_route
        grows = not claim.is_task and (route is None or route.can_edit)
        reply = "\n\n".join(answer.texts if grows else answer.texts[-1:]) or None
        return Outcome(
            state="done",
            entries=answer.entries,
            reply=reply,
            memory=answer.memory,
        )

    def _failed(self, kind: str, error_id: str) -> Outcome:
        """A visible error, after what people saw already."""
        text = failure_text(kind, error_id, like=self.claim.rows[-1].text)
        drafts = self._drafts
        return Outcome(
            state="failed",
            reply=f"{drafts.newest}\n\n{text}" if drafts.written else text,
            notice=notice_of(kind),
            error_id=error_id,
        )

    async def _stopped(self) -> Outcome:
        """A stopped turn keeps what it did and showed."""
        recorded = await self._journal.recorded()
        entries = cut_short(recorded, self.claim.turn_id, self._drafts.newest, STOPPED_NOTE)
        return Outcome(state="stopped", entries=tuple(entries))

    async def _cut_short(self) -> Outcome:
        """So does an interrupted one, whose messages wait again; if it did nothing yet, its history
        is only what people said, and reads on with what they say now.
        """
        shown, recorded = self._drafts.newest, await self._journal.recorded()
        if not shown and all(entry.step < 0 for entry in recorded):
            return Outcome(state="stopped")
        entries = cut_short(recorded, self.claim.turn_id, shown, CUT_SHORT_NOTE)
        return Outcome(state="stopped", entries=tuple(entries))

    async def _finish(self, outcome: Outcome) -> str:
        """Commit the end, for as long as the lease holds; one that cannot be written at all becomes
        a visible error, so that it disturbs no other turn.
        """
        while True:
            now_ms = self._clock.now_ms()
            try:
                await self._store.write(partial(self._end, outcome=outcome, now_ms=now_ms))
            except StoreUnavailable as error:
                log.warning("finish_failed", error=str(error))
                await self._clock.sleep(STORE_RETRY_S)
            except TurnStopped:
                outcome = await self._stopped()
            except LeaseLost:
                raise
            except Exception:
                if outcome.state == "failed":
                    raise
                error_id = new_error_id()
                log.exception("turn_end_refused", error_id=error_id)
                outcome = self._failed("crashed", error_id)
            else:
                return outcome.state

    async def _give_back(self) -> str:
        """Let another worker go on with the turn."""
        while True:
            unit = partial(claims.give_back, turn=self.claim, now_ms=self._clock.now_ms())
            try:
                await self._store.write(unit)
            except StoreUnavailable as error:
                log.warning("give_back_failed", error=str(error))
                await self._clock.sleep(STORE_RETRY_S)
            else:
                return "given_back"

    def _end(self, tx: Transaction, outcome: Outcome, now_ms: int) -> None:
        if outcome.state == "parked":
            text, timing = self._drafts.newest, self._timing
            turns.park(tx, self.claim, text, timing.usage, now_ms, lost=timing.lost)
        else:
            timing = self._timing
            turns.finish(
                tx,
                self.claim,
                replace(outcome, usage=timing.usage, lost=tuple(timing.lost)),
                now_ms,
            )

    def _log(self, outcome: str, started: float) -> None:
        claim, timing = self.claim, self._timing
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
