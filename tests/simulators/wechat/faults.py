"""What may go wrong in an API call on purpose. Only says what happens; the API makes it happen."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

KINDS = ("error", "http", "hang", "hang_after", "reset_before", "reset_after", "slow", "html")
PROCESSED = frozenset({"hang_after", "reset_after", "slow", "html"})
FOREVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way for a call to fail; `detail` is a code, a status or seconds."""

    kind: str
    detail: str = ""

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """Read `error:45047`, `http:502`, `slow:1.5`, or a bare kind."""
        kind, _, detail = text.partition(":")
        if kind not in KINDS:
            raise ValueError(f"unknown fault {text!r}; use one of {', '.join(KINDS)}")
        return cls(kind=kind, detail=detail)


class FaultPlan:
    """The faults still to come, by the last word of a path (`send`); `*` stands for every one.

    `asked` counts the calls.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self._planned: dict[str, deque[list[object]]] = {}

    def fail_next(self, call: str, how: str, times: int = 1) -> None:
        """Plan a fault for the next `times` calls (FOREVER: until `clear`)."""
        self._planned.setdefault(call, deque()).append([Fault.parse(how), times])

    def clear(self) -> None:
        """Forget what is planned."""
        self._planned.clear()

    def take(self, call: str) -> Fault | None:
        """The fault for this call, if one is due."""
        self.asked[call] += 1
        for name in (call, "*"):
            queue = self._planned.get(name)
            while queue and queue[0][1] == 0:
                queue.popleft()
            if queue:
                fault, left = queue[0]
                assert isinstance(left, int)
                assert isinstance(fault, Fault)
                queue[0][1] = left - 1 if left > 0 else left
                return fault
        return None


async def answer_with(
    fault: Fault | None,
    request: web.Request,
    process: Callable[[], Awaitable[web.Response]],
    stopping: asyncio.Event,
) -> web.StreamResponse:
    """Process a call, or let it fail as planned."""
    if fault is None:
        return await process()
    response = await process() if fault.kind in PROCESSED else None
    match fault.kind:
        case "error":
            return web.json_response({"errcode": int(fault.detail or -1), "errmsg": "planned"})
        case "http":
            return web.Response(status=int(fault.detail or 502), text="<html>bad gateway</html>")
        case "html":
            return web.Response(text="<html>not what you asked for</html>")
        case "slow":
            await asyncio.sleep(float(fault.detail or 1))
            assert response is not None
            return response
        case "hang" | "hang_after":
            await stopping.wait()
        case _:
            pass
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
