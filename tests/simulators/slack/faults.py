"""What may go wrong on the Web API on purpose: one-shot faults and rate limits.

Only says *what* happens to a call; `web_api` makes it happen. Socket and event faults are in
`trouble`.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Literal, get_args

FaultKind = Literal[
    "http",  # answers `status` with an HTML page, the call is not processed
    "error",  # HTTP 200 {"ok": false, "error": ...}, not processed
    "ratelimited",  # HTTP 429 with Retry-After, not processed
    "hang",  # never answers, not processed
    "hang_after",  # processed, never answers
    "reset_before",  # connection reset, not processed
    "reset_after",  # processed, then the connection is reset
    "slow",  # processed, answered after `seconds`
    "bad_json",  # processed, HTTP 200 whose JSON body is cut short
    "html",  # processed, HTTP 200 with an HTML page
]
PROCESSED: frozenset[FaultKind] = frozenset(
    {"hang_after", "reset_after", "slow", "bad_json", "html"}
)
FOREVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way for a call to fail."""

    kind: FaultKind
    status: int = 200
    error: str = ""
    seconds: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """Read `http:502`, `error:is_archived`, `ratelimited:3`, `slow:1.5`, or a bare kind."""
        kind, _, detail = text.partition(":")
        if kind not in get_args(FaultKind):
            known = ", ".join(get_args(FaultKind))
            raise ValueError(f"slack simulator: unknown fault {text!r}; use one of {known}")
        match kind:
            case "http":
                return cls(kind="http", status=int(detail or 500))
            case "error":
                return cls(kind="error", error=detail or "internal_error")
            case "ratelimited":
                return cls(kind="ratelimited", status=429, seconds=float(detail or 1))
            case "slow":
                return cls(kind="slow", seconds=float(detail or 1))
            case _:
                return cls(kind=kind)  # type: ignore[arg-type]  # checked against get_args above

    @property
    def processed(self) -> bool:
        """Whether the call takes effect all the same."""
        return self.kind in PROCESSED


@dataclass(slots=True)
class _Planned:
    fault: Fault
    left: int


@dataclass(slots=True, kw_only=True)
class RateRule:
    """A token bucket for one method, one bucket a channel (or one for calls without channel)."""

    interval_s: float
    burst: int
    _full_at: dict[str, float] = field(default_factory=dict)

    def refuse_for(self, channel: str, now: float) -> float:
        """Seconds to wait, or 0 when the call may pass (and is counted)."""
        full_at = max(self._full_at.get(channel, 0.0), now)
        if full_at + self.interval_s > now + self.interval_s * self.burst + 1e-9:
            return full_at + self.interval_s - now - self.interval_s * self.burst
        self._full_at[channel] = full_at + self.interval_s
        return 0.0


class FaultPlan:
    """The faults still to come, by method; `*` stands for every method."""

    def __init__(self) -> None:
        self._planned: dict[str, deque[_Planned]] = {}
        self._rates: dict[str, RateRule] = {}

    def fail_next(self, method: str, how: Fault | str, times: int = 1) -> None:
        """Plan `how` for the next `times` calls of `method` (FOREVER: until `clear`)."""
        fault = Fault.parse(how) if isinstance(how, str) else how
        self._planned.setdefault(method, deque()).append(_Planned(fault, times))

    def clear(self, method: str | None = None) -> None:
        """Forget the planned faults and rate limits of one method, or all."""
        if method is None:
            self._planned.clear()
            self._rates.clear()
        self._planned.pop(method or "", None)
        self._rates.pop(method or "", None)

    def limit_rate(self, method: str, *, interval_s: float, burst: int = 1) -> None:
        """Answer 429 when `method` is called faster than one in `interval_s` in one channel."""
        self._rates[method] = RateRule(interval_s=interval_s, burst=burst)

    def take(self, method: str, channel: str) -> Fault | None:
        """The fault for this call, if one is due."""
        for name in (method, "*"):
            queue = self._planned.get(name)
            while queue and queue[0].left == 0:
                queue.popleft()
            if queue:
                if queue[0].left > 0:
                    queue[0].left -= 1
                return queue[0].fault
        if rule := self._rates.get(method):
            wait_s = rule.refuse_for(channel, asyncio.get_running_loop().time())
            if wait_s > 0:
                return Fault(kind="ratelimited", status=429, seconds=wait_s)
        return None
