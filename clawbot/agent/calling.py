"""Making model calls: within a time for the first token, tried again where that is safe, and paid.

A call is tried again only while nothing of its answer was shown, and only for what may pass: never
for a wrong key, an empty account or a request that is refused. What does not pass is the next
model's to answer, where the config names one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import stamina
import structlog

from clawbot.agent.limiter import Limiter
from clawbot.agent.outages import FALLBACK_KINDS, Outages
from clawbot.errors import ModelError
from clawbot.history import EMPTY, ModelReply, ModelRequest, Spent, Usage
from clawbot.ports import Clock, Model
from clawbot.tracing.names import answered, first_chunk, model_span
from clawbot.tracing.spans import Span

log = structlog.get_logger(__name__)

MODEL_TRIES = 3
LONGEST_WAIT_S = 30.0
"""A provider that wants a longer pause is not asked again in this turn."""

PAUSE_S = 2.0
"""How long the others wait when a provider says "too many" and not for how long."""

MOST_PAUSE_S = 300.0

CHARS_PER_TOKEN = 4

PriceOf = Callable[[str, Usage], int | None]
"""The price of a model's call in billionths of a US dollar; None = unknown."""


@dataclass(slots=True, kw_only=True)
class Timing:
    """Where the time of a turn went and what it cost, for its log line. Milliseconds.

    lost: calls that cost something and stand in no step of the history, failed ones above all.
    """

    model_ms: int = 0
    tools_ms: int = 0
    first_text_ms: int | None = None
    finish_ms: int = 0
    model: str = ""
    error_id: str | None = None
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    lost: list[Spent] = field(default_factory=list)


class ShownPartly(ModelError):
    """The model failed after a part of its answer was shown; it is not asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Makes model calls; it keeps nothing of any of them, only how providers and models are."""

    clock: Clock
    first_token_timeout_s: float
    price_of: PriceOf
    limiter: Limiter
    outages: Outages

    async def reply(
        self,
        models: Sequence[Model],
        request: ModelRequest,
        show: Callable[[str], None] | None,
        timing: Timing,
    ) -> ModelReply:
        """One answer, of the first of the models that works, its usage with that model's name and
        the price; `show` is given its text as it grows, whole each time; None = nobody sees it.
        Raise ModelError.
        """
        started = self.clock.monotonic()
        asked = self.outages.in_order(models)
        try:
            for model, following in zip(asked, [*asked[1:], None], strict=True):
                try:
                    reply = await self._insist(model, request, show, timing)
                except ShownPartly:
                    raise
                except ModelError as error:
                    if error.kind in FALLBACK_KINDS and len(models) > 1:
                        self.outages.note(model.name, error)
                    if error.kind not in FALLBACK_KINDS or following is None:
                        raise
                    log.warning(
                        "model_fallback",
                        model=model.name,
                        to=following.name,
                        kind=error.kind,
                        error=str(error),
                    )
                else:
                    self.outages.forget(model.name)
                    timing.model = model.name
                    return reply
        finally:
            timing.model_ms += since(self.clock, started)
        raise AssertionError  # the last model's answer or error has ended it

    async def _insist(
        self,
        model: Model,
        request: ModelRequest,
        show: Callable[[str], None] | None,
        timing: Timing,
    ) -> ModelReply:
        """One model's answer, asked for again where that is safe."""
        async for attempt in stamina.retry_context(
            on=_wait_before_retry, attempts=MODEL_TRIES, wait_initial=0.5, timeout=None
        ):
            with attempt:
                return await self.call(model, request, show, timing)
        raise AssertionError  # retry_context either returns or raises

    async def call(
        self,
        model: Model,
        request: ModelRequest,
        show: Callable[[str], None] | None,
        timing: Timing,
    ) -> ModelReply:
        """A single call, when the provider's limits allow it; see `reply`."""
        with model_span(model.name, request) as span:
            return await self._call(model, request, show, timing, span)

    async def _call(
        self,
        model: Model,
        request: ModelRequest,
        show: Callable[[str], None] | None,
        timing: Timing,
        span: Span | None,
    ) -> ModelReply:
        provider = model.name.partition(":")[0]
        admitted = await self.limiter.admit(provider, _about(request))
        started = self.clock.monotonic()
        pieces: list[str] = []
        has_begun = False

        def on_text(piece: str) -> None:
            nonlocal has_begun
            if not has_begun:
                first_chunk(span)
            has_begun = True
            deadline.reschedule(None)
            if piece and show is not None:
                if timing.first_text_ms is None:
                    timing.first_text_ms = since(self.clock, started)
                pieces.append(piece)
                show("".join(pieces))

        try:
            async with asyncio.timeout(self.first_token_timeout_s) as deadline:
                reply = await model.reply(request, on_text)
        except TimeoutError as error:
            timing.lost.append(self._failed(model, None, is_charged=True))
            raise ModelError(
                f"model {model.name}: no answer within {self.first_token_timeout_s:g} s",
                kind="retryable",
            ) from error
        except ModelError as error:
            if error.kind == "rate_limited":
                self.limiter.pause(provider, min(error.retry_after_s or PAUSE_S, MOST_PAUSE_S))
            timing.lost.append(self._failed(model, error.usage, is_charged=has_begun))
            if pieces:
                raise ShownPartly(str(error), kind=error.kind) from error
            raise
        timing.steps += 1
        usage = self.priced(model, reply.usage)
        admitted.tokens = usage.input_tokens + usage.output_tokens or admitted.tokens
        timing.usage += usage
        answered(span, reply, usage)
        return replace(reply, usage=usage)

    def priced(self, model: Model, usage: Usage | None) -> Usage:
        """What a call cost, with the name of who was asked and the price."""
        named = replace(usage or EMPTY, model=model.name)
        cost = None if usage is None else self.price_of(model.name, usage)
        return replace(named, cost_nanos=cost)

    def _failed(self, model: Model, usage: Usage | None, *, is_charged: bool) -> Spent:
        """A call of which nothing came; nobody knows what one costs that had begun."""
        priced = self.priced(model, usage)
        if usage is None and not is_charged:
            priced = replace(priced, cost_nanos=0)
        return Spent(usage=priced, has_failed=True)


def _wait_before_retry(error: Exception) -> bool | float:
    if isinstance(error, ShownPartly) or not isinstance(error, ModelError):
        return False
    if error.kind not in {"retryable", "rate_limited"}:
        return False
    if error.retry_after_s is None:
        return True  # stamina's own waits, each longer than the last, with jitter
    if error.retry_after_s > LONGEST_WAIT_S:
        return False
    return error.retry_after_s + random.random()  # noqa: S311 - so that not all come back at once


def _about(request: ModelRequest) -> int:
    """About how many tokens a call will take; what it took replaces it afterwards."""
    chars = sum(len(entry.text) + len(entry.arguments) for entry in request.entries)
    return (len(request.system) + chars) // CHARS_PER_TOKEN


def since(clock: Clock, started: float) -> int:
    """Milliseconds since a moment of the clock's `monotonic`."""
    return round((clock.monotonic() - started) * 1000)
