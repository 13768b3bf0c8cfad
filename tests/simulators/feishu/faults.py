"""What may go wrong on the Open API on purpose: one-shot faults and rate limits.

Only says *what* happens to a call; `open_api` makes it happen. Faults of connections and events are
in `trouble`.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Literal, get_args

FaultKind = Literal[
    "http",  # answers `status` with an HTML page, the call is not processed
    "error",  # answers with `code`, not processed
    "ratelimited",  # `status` 400 or 429 with code 99991400 and the reset header, not processed
    "hang",  # never answers, not processed
    "hang_after",  # processed, never answers
    "reset_before",  # connection reset, not processed
    "reset_after",  # processed, then the connection is reset
    "slow",  # processed, answered after `seconds`
    "bad_json",  # processed, HTTP 200 whose JSON body is cut short
    "html",  # processed, HTTP 502 with an HTML page
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
    code: int = 0
    seconds: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """Read `http:502`, `error:230020`, `ratelimited:3`, `ratelimited:3:400`, `slow:1.5`, or a
        bare kind.
        """
        kind, _, detail = text.partition(":")
        if kind not in get_args(FaultKind):
            known = ", ".join(get_args(FaultKind))
            raise ValueError(f"feishu simulator: unknown fault {text!r}; use one of {known}")
        match kind:
            case "http":
                return cls(kind="http", status=int(detail or 500))
            case "error":
                return cls(kind="error", code=int(detail or 2200))
            case "ratelimited":
                seconds, _, status = detail.partition(":")
                return cls(
                    kind="ratelimited", status=int(status or 429), seconds=float(seconds or 1)
                )
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
    """How many calls in how many seconds, for each chat or for the whole app."""

    calls: int
    seconds: float
    per_chat: bool
    _times: dict[str, deque[float]] = field(default_factory=dict)

    def refuse_for(self, chat: str, now: float) -> float:
        """Seconds to wait, or 0 when the call may pass (and is counted)."""
        times = self._times.setdefault(chat if self.per_chat else "", deque())
        while times and times[0] <= now - self.seconds:
            times.popleft()
        if len(times) >= self.calls:
            return times[0] + self.seconds - now
        times.append(now)
        return 0.0


class FaultPlan:
    """The faults still to come, by API name; `*` stands for every one."""

    def __init__(self) -> None:
        self._planned: dict[str, deque[_Planned]] = {}
        self._rates: dict[str, RateRule] = {}

    def fail_next(self, api: str, how: Fault | str, times: int = 1) -> None:
        """Plan `how` for the next `times` calls of `api` (FOREVER: until `clear_faults`)."""
        fault = Fault.parse(how) if isinstance(how, str) else how
        self._planned.setdefault(api, deque()).append(_Planned(fault, times))

    def clear(self, api: str | None = None) -> None:
        """Forget the planned faults and rate limits of one API, or all."""
        if api is None:
            self._planned.clear()
            self._rates.clear()
        self._planned.pop(api or "", None)
        self._rates.pop(api or "", None)

    def limit_rate(
        self, api: str, *, calls: int, seconds: float = 1.0, per_chat: bool = False
    ) -> None:
        """Refuse what comes faster; per chat with 230020, else with 99991400."""
        self._rates[api] = RateRule(calls=calls, seconds=seconds, per_chat=per_chat)

    def take(self, api: str, chat: str) -> Fault | None:
        """The fault for this call, if one is due."""
        for name in (api, "*"):
            queue = self._planned.get(name)
            while queue and queue[0].left == 0:
                queue.popleft()
            if queue:
                if queue[0].left > 0:
                    queue[0].left -= 1
                return queue[0].fault
        if rule := self._rates.get(api):
            wait_s = rule.refuse_for(chat, asyncio.get_running_loop().time())
            if wait_s > 0 and rule.per_chat:
                return Fault(kind="error", code=230020)
            if wait_s > 0:
                return Fault(kind="ratelimited", status=400, seconds=wait_s)
        return None
