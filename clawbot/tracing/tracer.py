"""The traces of one worker's turns.

The id of a trace is the turn's, so that what several attempts at it did (after a kill, or once
people have decided) stands in one tree: the turn, from the arrival of its first message to its end,
and the attempts below it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from clawbot.agent.calling import Timing
from clawbot.channels import load
from clawbot.config import Config
from clawbot.logs import Redactor
from clawbot.ports import Clock
from clawbot.store.claims import Claim
from clawbot.tracing.files import TraceFile, TraceRecord, recorded, sweep
from clawbot.tracing.names import spent
from clawbot.tracing.spans import Clean, Span, Trace, within

log = structlog.get_logger(__name__)

SAVE_S = 1.0
"""How often a trace that grows is written down: what a killed worker leaves of it."""

ENDED = frozenset({"done", "failed", "stopped"})
"""How a turn ends; after any other outcome somebody goes on with it."""


class Tracer:
    """Traces the turns of one worker; without `state_dir` and `on_end` it traces none.

    state_dir: where files are kept, None = no files. days: how many of them are kept, 0 = all.
    on_end: told of each span that ends.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        state_dir: Path | None = None,
        days: int = 0,
        on_end: Callable[[Span], None] | None = None,
        with_content: bool = False,
        clean: Clean = lambda value: value,
    ) -> None:
        self._clock = clock
        self._state_dir = state_dir
        self._days = days
        self._on_end = on_end
        self._with_content = with_content
        self._clean = clean
        self._swept: Path | None = None
        self._is_failing = False

    @asynccontextmanager
    async def turn(self, claim: Claim) -> AsyncIterator[TurnTrace | None]:
        """Trace what runs within: one attempt at a turn. None = nothing is traced."""
        if self._state_dir is None and self._on_end is None:
            yield None
            return
        trace = Trace(
            _trace_id(claim.turn_id),
            self._clock,
            with_content=self._with_content,
            clean=self._clean,
            on_end=self._on_end or (lambda _: None),
        )
        turn = TurnTrace(trace, claim)
        saving = self._begin_files(turn) if self._state_dir is not None else None
        try:
            with within(turn.attempt):
                yield turn
        finally:
            if saving is not None:
                saving.cancel()
            turn.close()
            if trace.save is not None:
                await trace.save()

    def _begin_files(self, turn: TurnTrace) -> asyncio.Task[None]:
        assert self._state_dir is not None  # noqa: S101 - the caller has looked
        trace = turn.trace
        file = TraceFile.of(self._state_dir, turn.record(self._clock.now_ms()))
        in_order = asyncio.Lock()

        async def save() -> None:
            async with in_order:
                trace.has_changed = False
                job = asyncio.to_thread(file.write, recorded(trace), trace.dropped, turn.outcome)
                await self._try(job, file.path)

        async def keep_saving() -> None:
            while True:
                await self._clock.sleep(SAVE_S)
                if trace.has_changed:
                    await save()

        trace.save = save
        return asyncio.create_task(keep_saving(), name="trace")

    async def _try(self, job: Awaitable[None], path: Path) -> None:
        """Write a file; one that cannot be written costs the trace and never the turn."""
        day = path.parent
        try:
            await job
            if self._days and day != self._swept:  # once a day: not every host has a housekeeping
                self._swept = day
                await asyncio.to_thread(sweep, day.parent, self._clock.now_ms(), self._days)
        except OSError as error:
            if not self._is_failing:
                log.warning("trace_not_written", error=str(error))
            self._is_failing = True
        else:
            self._is_failing = False


class TurnTrace:
    """The trace of one attempt. outcome: how it ended; "" = it runs, or it was killed."""

    def __init__(self, trace: Trace, claim: Claim) -> None:
        self.trace = trace
        self.outcome = ""
        self._claim = claim
        self._turn: Span | None = None
        self._turn_id = f"{trace.trace_id[:15]}1"  # the same for every attempt, and never zero
        self.attempt = trace.begin("invoke_agent clawbot", self._turn_id)
        self.attempt.set(
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "clawbot",
                "gen_ai.conversation.id": str(claim.session),
                "clawbot.turn": claim.turn_id,
                "clawbot.attempt": claim.fence,
                "clawbot.is_resumed": claim.is_resumed,
            }
        )

    def ended(self, outcome: str, timing: Timing) -> None:
        """The attempt is over, and with most outcomes the turn."""
        self.outcome = outcome
        told = {
            "clawbot.outcome": outcome,
            "clawbot.error_id": timing.error_id,
            **spent(timing.usage),
        }
        self.attempt.set({"gen_ai.request.model": timing.model or None, **told})
        failed = outcome == "failed"
        if failed:
            self.attempt.fail("failed")
        if outcome in ENDED:
            claim, trace = self._claim, self.trace
            self._turn = turn = trace.begin(
                "turn",
                "",
                span_id=self._turn_id,
                started_ns=claim.rows[0].accepted_ms * 1_000_000,
            )
            turn.set(
                {
                    "gen_ai.conversation.id": str(claim.session),
                    "clawbot.turn": claim.turn_id,
                    "clawbot.channel": claim.rows[-1].channel,
                    "clawbot.messages": len(claim.rows),
                    **told,
                }
            )
            if failed:
                turn.fail("failed")

    def close(self) -> None:
        """End what still runs."""
        if not self.outcome:
            self.ended("released", Timing())
        if self._turn is not None:
            self.trace.end(self._turn)
        self.trace.close()

    def record(self, now_ms: int) -> TraceRecord:
        """What a file says of the attempt."""
        claim = self._claim
        return TraceRecord(
            trace_id=self.trace.trace_id,
            turn=claim.turn_id,
            session=str(claim.session),
            channel=claim.rows[-1].channel,
            process=os.getpid(),
            fence=claim.fence,
            started_ms=now_ms,
        )


def _trace_id(turn_id: str) -> str:
    """The turn's own id, which is as long as that of a trace."""
    if re.fullmatch("(?!0{32})[0-9a-f]{32}", turn_id):
        return turn_id
    return hashlib.sha256(turn_id.encode()).hexdigest()[:32]


@asynccontextmanager
async def open_tracer(config: Config, clock: Clock, process_id: str) -> AsyncIterator[Tracer]:
    """The tracer of a worker, as the config wants it; leaving sends what waits."""
    section = config.tracing
    collector = None
    if section.otlp_endpoint is not None:
        make = await asyncio.to_thread(load, "clawbot.tracing.otlp:Collector")
        headers = {key: value.get_secret_value() for key, value in section.otlp_headers.items()}
        collector = await asyncio.to_thread(make, section.otlp_endpoint, headers, process_id)
    redactor = Redactor(secret.get_secret_value() for secret in config.secrets())
    try:
        yield Tracer(
            clock,
            state_dir=config.state_dir if section.files else None,
            days=config.retention.traces_days,
            on_end=None if collector is None else collector.ended,
            with_content=section.content,
            clean=redactor.clean,
        )
    finally:
        if collector is not None:
            await asyncio.to_thread(collector.close)
