"""Writes summaries of what leaves working memory, beside the turns and never in their way.

A turn that sees its history grow too long asks for one; a cheap model writes it in the background,
piece by piece, each time folding the earlier summary in; the next turn finds it. If that fails,
requests go on without: what does not fit is left out, and it is tried again later, each time after
a longer wait. Nothing is kept here but which sessions are being worked on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

import structlog

from clawbot.agent.calling import Caller, Timing
from clawbot.agent.summary import Chunk, next_chunk, summary_request, usable
from clawbot.errors import ModelError, StoreUnavailable
from clawbot.history import Spent
from clawbot.ports import Clock, Model, Store, Transaction
from clawbot.recollection import Summary
from clawbot.session_key import SessionKey
from clawbot.store import costs, history, summaries
from clawbot.store.costs import Payer
from clawbot.store.summaries import SummaryClaim
from clawbot.tracing.spans import lasting_span, save_again, span

log = structlog.get_logger(__name__)

MOST_CHUNKS = 12
"""Pieces of one summary; what is left is a later one's."""

MOST_WAITING = 256
_FAILURES = (ModelError, TimeoutError)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLimits:
    """Bounds of a summary; see the config section `compaction`."""

    summary_tokens: int
    chunk_tokens: int
    timeout_s: float
    at_once: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionJob:
    """What to summarise: a session's epoch up to and with an entry.

    model: the session's own. for_tokens: see `recollection.Summary`.
    """

    session: SessionKey
    epoch: int
    through_seq: int
    for_tokens: int
    model: str


class NoSummary(Exception):
    """The model wrote nothing that can be used as a summary."""


class Compactor:
    """Writes the summaries of one worker process. Leaving its context ends what runs.

    get_model: the model that writes for a session's model; None = no summaries.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        get_model: Callable[[str], Awaitable[Model | None]],
        limits: CompactionLimits,
        caller: Caller,
    ) -> None:
        self._store = store
        self._clock = clock
        self._get_model = get_model
        self._limits = limits
        self._caller = caller
        self._room = asyncio.Semaphore(limits.at_once)
        self._running: dict[SessionKey, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def want(self, job: CompactionJob) -> None:
        """Summarise in the background, unless the session is being worked on. Never waits."""
        if job.session in self._running or len(self._running) >= MOST_WAITING:
            return
        task = asyncio.create_task(self._in_background(job), name=f"summary {job.session}")
        self._running[job.session] = task
        task.add_done_callback(lambda _: self._running.pop(job.session, None))

    async def settled(self) -> None:
        """Wait until nothing runs."""
        while self._running:
            await asyncio.wait(list(self._running.values()))

    async def run(self, job: CompactionJob, *, within_s: float | None = None) -> bool:
        """Summarise now; whether there is a new summary. Raise StoreUnavailable.

        within_s: how long somebody waits for it at most.
        """
        model = await self._get_model(job.model)
        if model is None:
            return False
        now_ms, busy_ms = self._clock.now_ms(), round(self._limits.timeout_s * 2000)
        claimed = await self._store.write(
            partial(
                summaries.claim, key=job.session, epoch=job.epoch, now_ms=now_ms, busy_ms=busy_ms
            )
        )
        if claimed is None:
            return False
        return await self._summarise(job, claimed, model, within_s)

    async def _in_background(self, job: CompactionJob) -> None:
        traced = None
        try:
            async with self._room:
                with lasting_span("compaction in the background") as traced:
                    await self.run(job)
        except StoreUnavailable as error:
            log.warning("summary_not_stored", session=str(job.session), error=str(error))
        except Exception:
            log.exception("summary_crashed", session=str(job.session))
        finally:
            await save_again(traced)

    async def _summarise(
        self, job: CompactionJob, claimed: SummaryClaim, model: Model, within_s: float | None
    ) -> bool:
        spent: list[Spent] = []
        try:
            async with asyncio.timeout(within_s):
                with span("compaction"):
                    summary = await self._written(job, claimed, model, spent)
        except (*_FAILURES, NoSummary) as error:
            reason = error.kind if isinstance(error, ModelError) else type(error).__name__
            log.warning("summary_failed", session=str(job.session), reason=reason)
            await self._give_up(claimed, spent, is_failure=True)
            return False
        if summary is None:
            await self._give_up(claimed, spent, is_failure=False)
            return False
        is_kept = await self._store.write(
            partial(self._keep, claimed=claimed, summary=summary, spent=spent)
        )
        log.info(
            "summary_written" if is_kept else "summary_stale",
            session=str(job.session),
            through_seq=summary.through_seq,
            chars=len(summary.text),
        )
        if not is_kept:
            await self._give_up(claimed, (), is_failure=False)
        return is_kept

    def _keep(
        self, tx: Transaction, claimed: SummaryClaim, summary: Summary, spent: Sequence[Spent]
    ) -> bool:
        self._pay(tx, claimed, spent)
        return summaries.write(tx, claimed, summary)

    async def _give_up(
        self, claimed: SummaryClaim, spent: Sequence[Spent], *, is_failure: bool
    ) -> None:
        def unit(tx: Transaction) -> None:
            self._pay(tx, claimed, spent)
            summaries.give_up(tx, claimed, now_ms=self._clock.now_ms(), is_failure=is_failure)

        await self._store.write(unit)

    def _pay(self, tx: Transaction, claimed: SummaryClaim, spent: Sequence[Spent]) -> None:
        payer = Payer(session=claimed.session, epoch=claimed.epoch)
        costs.add(tx, payer, spent, self._clock.now_ms())

    async def _written(
        self, job: CompactionJob, claimed: SummaryClaim, model: Model, spent: list[Spent]
    ) -> Summary | None:
        """The new summary; None when there is nothing to add."""
        earlier = claimed.earlier
        text = "" if earlier is None else earlier.text
        after = begin = 0 if earlier is None else earlier.through_seq
        for _ in range(MOST_CHUNKS):
            chunk = await self._store.read(partial(self._chunk, job=job, after=after))
            if chunk is None:
                break
            if chunk.text:
                text = await self._fold(model, text, chunk.text, spent)
            after = chunk.through_seq
            if chunk.is_last:
                break
        if after == begin:
            return None
        return Summary(text=text, through_seq=after, for_tokens=job.for_tokens)

    def _chunk(self, tx: Transaction, job: CompactionJob, after: int) -> Chunk | None:
        entries = history.between(tx, job.session, job.epoch, after=after, through=job.through_seq)
        return next_chunk(entries, self._limits.chunk_tokens)

    async def _fold(self, model: Model, earlier: str, record: str, spent: list[Spent]) -> str:
        request = summary_request(earlier, record, self._limits.summary_tokens)
        timing = Timing()
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                reply = await self._caller.call(model, request, lambda _text: None, timing)
        finally:
            spent += timing.lost
        if reply.usage is not None:
            spent.append(Spent(usage=reply.usage))
        text = usable(reply.text, f"{earlier}\n{record}", self._limits.summary_tokens)
        if text is None:
            raise NoSummary
        return text
