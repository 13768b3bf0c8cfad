"""Spans, and the one that the running code is in.

The current span is carried by the context, so that what runs in a task of its own (a tool, a
sub-agent) stands below what began it. Where no trace runs, `span` yields None and does nothing.
Nothing here waits, and nothing here raises.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, cast

from clawbot.errors import LeaseLost, ModelError, TurnParked, TurnStopped
from clawbot.ports import Clock
from clawbot.text import head_and_tail

Value = str | bool | int | float | Sequence[str]
Kind = Literal["internal", "client"]
Clean = Callable[[object], object]
"""Takes secrets out of a value, however deep."""

MOST_SPANS = 10_000
"""What a trace holds of a turn without end; the rest is counted."""

TEXT_CHARS = 4_000
NAME_CHARS = 120

_current: ContextVar[Span | None] = ContextVar("clawbot_span", default=None)


@dataclass(slots=True, eq=False)
class Span:
    """A piece of work in a trace. Times are Unix nanoseconds; `ended_ns` None = it still runs.

    error: why it came to nothing, as a class of errors; "" = it did not fail. outlives: whether it
    may go on when its turn is over.
    """

    trace: Trace
    name: str
    kind: Kind
    span_id: str
    parent_id: str
    started_ns: int
    outlives: bool = False
    ended_ns: int | None = None
    error: str = ""
    attributes: dict[str, Value] = field(default_factory=dict)

    def set(self, attributes: Mapping[str, Value | None]) -> None:
        """Add attributes; None is left out."""
        for key, value in attributes.items():
            if value is not None:
                self.attributes[key] = cast("Value", self.trace.clean(value))
        self.trace.has_changed = True

    def set_content(self, key: str, content: Callable[[], object]) -> None:
        """Add what people, models or tools said, as JSON; only where that is asked for."""
        if self.trace.with_content:
            # Secrets first: a cut could leave half of one.
            bounded = _bounded(self.trace.clean(content()))
            self.attributes[key] = json.dumps(bounded, ensure_ascii=False, default=str)
            self.trace.has_changed = True

    def fail(self, error: BaseException | str) -> None:
        """Note what ended it. A turn that waits for people has not failed."""
        if isinstance(error, TurnParked):
            self.set({"clawbot.outcome": "parked"})
        elif not self.error:
            self.error = error if isinstance(error, str) else _class_of(error)
            self.attributes["error.type"] = self.error


class Trace:
    """The spans of one attempt at a turn.

    on_end: told of each span that ends. save: writes down how far the trace is, where files are
    kept.
    """

    def __init__(
        self,
        trace_id: str,
        clock: Clock,
        *,
        with_content: bool = False,
        clean: Clean = lambda value: value,
        on_end: Callable[[Span], None] = lambda _: None,
    ) -> None:
        self.trace_id = trace_id
        self.with_content = with_content
        self.spans: list[Span] = []
        self.dropped = 0
        self.has_changed = False
        self.save: Callable[[], Awaitable[None]] | None = None
        self._clean = clean
        self._on_end = on_end
        self._clock = clock
        self._zero_ns = clock.now_ms() * 1_000_000 - round(clock.monotonic() * 1e9)

    def now_ns(self) -> int:
        """Unix nanoseconds, on a clock that never goes back."""
        return self._zero_ns + round(self._clock.monotonic() * 1e9)

    def clean(self, value: object) -> object:
        """The value as it may be shown."""
        return self._clean(value)

    def begin(
        self,
        name: str,
        parent_id: str,
        *,
        kind: Kind = "internal",
        outlives: bool = False,
        started_ns: int | None = None,
        span_id: str = "",
    ) -> Span:
        """A span that begins now, or began before."""
        span = Span(
            trace=self,
            name=str(self._clean(name))[:NAME_CHARS],
            kind=kind,
            span_id=span_id or secrets.token_hex(8),
            parent_id=parent_id,
            started_ns=self.now_ns() if started_ns is None else started_ns,
            outlives=outlives,
        )
        self.has_changed = True
        if len(self.spans) < MOST_SPANS:
            self.spans.append(span)
        else:
            self.dropped += 1
        return span

    def end(self, span: Span) -> None:
        """The span is over; a second call does nothing."""
        if span.ended_ns is None:
            span.ended_ns = self.now_ns()
            self.has_changed = True
            self._on_end(span)

    def close(self) -> None:
        """End what still runs and may not outlive its turn."""
        for span in reversed(self.spans):
            if span.ended_ns is None and not span.outlives:
                span.fail("left_running")
                self.end(span)


def current() -> Span | None:
    """The span that the running code is in."""
    return _current.get()


@contextmanager
def within(span: Span) -> Iterator[None]:
    """Make a span the current one, and end it; what is raised fails it."""
    token = _current.set(span)
    try:
        yield
    except BaseException as error:
        span.fail(error)
        raise
    finally:
        _current.reset(token)
        span.trace.end(span)


@contextmanager
def span(name: str, kind: Kind = "internal") -> Iterator[Span | None]:
    """A span below the current one; None where no trace runs."""
    parent = _current.get()
    if parent is None:
        yield None
        return
    trace = parent.trace
    own = trace.begin(name, parent.span_id, kind=kind, outlives=parent.outlives)
    with within(own):
        yield own


@contextmanager
def lasting_span(name: str) -> Iterator[Span | None]:
    """A span that may go on when the turn that began it is over; see `save_again`."""
    parent = _current.get()
    if parent is None:
        yield None
        return
    own = parent.trace.begin(name, parent.span_id, outlives=True)
    with within(own):
        yield own


async def save_again(own: Span | None) -> None:
    """Write down what a lasting span came to."""
    if own is not None and own.trace.save is not None:
        await own.trace.save()


def _class_of(error: BaseException) -> str:
    """What kind of error it is; never its text, which may hold what people said."""
    if isinstance(error, ModelError):
        return error.kind
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, TurnStopped | LeaseLost):
        return "stopped" if isinstance(error, TurnStopped) else "lease_lost"
    return type(error).__name__


def _bounded(value: object) -> object:
    """The value with each text in it bounded."""
    if isinstance(value, str):
        return head_and_tail(value, TEXT_CHARS)
    if isinstance(value, dict):
        return {key: _bounded(entry) for key, entry in value.items()}
    return [_bounded(entry) for entry in value] if isinstance(value, list) else value
