"""Which answer a call gets: the steps a test expects, and the gates that hold a call half way."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from .answer import Answer, Reply
from .conversation import RecordedRequest

When = str | Callable[[RecordedRequest], bool] | None
Responder = Callable[[RecordedRequest], Answer | Awaitable[Answer]]

GATE_TIMEOUT_S = 20.0


class Gate:
    """A door inside an answer: the test waits until a call stands at it, then opens it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._reached = asyncio.Event()
        self._released = asyncio.Event()

    @property
    def is_reached(self) -> bool:
        """Whether a call has come to this gate."""
        return self._reached.is_set()

    @property
    def reached(self) -> Awaitable[None]:
        """Wait until a call stands at the gate; TimeoutError when none comes."""
        return self._wait_reached()

    def release(self) -> None:
        """Let the call go on; may be called before it arrives, and twice."""
        self._released.set()

    async def pass_through(self) -> None:
        """Stand at the gate until it is released (the simulator's side)."""
        self._reached.set()
        await self._released.wait()

    async def _wait_reached(self) -> None:
        try:
            async with asyncio.timeout(GATE_TIMEOUT_S):
                await self._reached.wait()
        except TimeoutError as error:
            raise TimeoutError(
                f"gate {self.name}: no model call came within {GATE_TIMEOUT_S:g} s; "
                "check `requests`, `violations` and `unexpected` of the simulator"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which calls are meant.

    `when` is a predicate or a part of the newest user text, `marker` a part of anything in the
    request (so that all calls of one session can be told from another's). None means any.
    """

    when: When = None
    marker: str | None = None

    def accepts(self, request: RecordedRequest) -> bool:
        """Whether this request is meant."""
        if self.marker is not None and self.marker not in request.all_text:
            return False
        if self.when is None:
            return True
        if isinstance(self.when, str):
            return self.when in request.last_user_text
        return self.when(request)

    def __str__(self) -> str:
        when = getattr(self.when, "__name__", repr(self.when))
        return f"when={when} marker={self.marker!r}"


@dataclass(slots=True, kw_only=True)
class Step:
    """One expected call and its answer."""

    match: Match
    answer: Answer
    used: bool = False


@dataclass(slots=True, kw_only=True)
class Hold:
    """A gate for the next call that matches; `after` counts deltas, None is before the headers."""

    match: Match
    after: int | None
    gate: Gate
    used: bool = False


@dataclass(slots=True)
class Script:
    """The expected calls. A call takes the first unused step that accepts it.

    Steps that accept the same calls are therefore used in order, while sessions told apart by
    `when` or `marker` each follow their own.
    """

    steps: list[Step] = field(default_factory=list)

    def add(self, answer: Answer, match: Match) -> None:
        """Expect one more call."""
        self.steps.append(Step(match=match, answer=answer))

    def take(self, request: RecordedRequest) -> Answer | None:
        """The answer for this call, or None when no step expects it."""
        for step in self.steps:
            if not step.used and step.match.accepts(request):
                step.used = True
                return step.answer
        return None

    @property
    def unused(self) -> list[Step]:
        """The steps no call has taken yet."""
        return [step for step in self.steps if not step.used]


def echo(request: RecordedRequest) -> Reply:
    """Answer with the newest user text: the responder of demos and benchmarks."""
    return Reply(text=f"echo: {request.last_user_text}")
