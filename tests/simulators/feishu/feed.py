"""Everything Feishu pushes to the app: events and callbacks, with their re-pushes.

One `Delivery` is one thing Feishu wants acknowledged, however often it is sent. How it travels (the
long connection or a webhook) is the transport's business; what it says is made in `shapes`.
"""

import asyncio
import copy
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .bell import Bell
from .callbacks import problem_of
from .tenant import Json

State = Literal["held", "pending", "acked", "lost"]


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """One event or callback and what became of it. `raw`: sent instead of the payload, if set."""

    payload: Json
    raw: bytes = b""
    state: State = "pending"
    attempts: int = 0
    reasons: list[str] = field(default_factory=list)
    answer: Any = None
    acks: int = 0
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def event_type(self) -> str:
        """Its type, of either format."""
        header, event = self.payload.get("header", {}), self.payload.get("event", {})
        return str(header.get("event_type") or event.get("type", ""))

    @property
    def event_id(self) -> str:
        """Its id, of either format."""
        header = self.payload.get("header", {})
        return str(header.get("event_id") or self.payload.get("uuid", ""))

    @property
    def message_id(self) -> str:
        """The message it is about; "" if none."""
        event = self.payload.get("event", {})
        message = event.get("message", {})
        return str(message.get("message_id") or event.get("message_id", ""))

    @property
    def is_callback(self) -> bool:
        """Whether somebody waits for its answer, so that it is not sent again."""
        return self.event_type in {"card.action.trigger", "url.preview.get"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one attempt ended."""

    acked: bool
    reason: str = ""
    answer: Any = None


class Transport(Protocol):
    """A way to the app."""

    async def attempt(self, delivery: Delivery) -> Outcome:
        """Send once and wait for the acknowledgement."""
        ...


class Feed:
    """Queues, sends and re-sends deliveries, and remembers them all."""

    def __init__(self, bell: Bell, *, retry_delays_s: Sequence[float]) -> None:
        self._bell = bell
        self._retry_delays_s = tuple(retry_delays_s)
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: list[Delivery] | None = None
        self.crashes: list[BaseException] = []
        self.deliveries: list[Delivery] = []
        self.transport: Transport | None = None

    def send(self, payload: Json, *, raw: bytes = b"") -> Delivery:
        """Push a payload as it is."""
        delivery = Delivery(payload=payload, raw=raw)
        self.deliveries.append(delivery)
        if self._held is not None:
            delivery.state = "held"
            self._held.append(delivery)
        else:
            self.spawn(self._run(delivery))
        self._bell.ring()
        return delivery

    def hold(self) -> None:
        """Keep back events from now on until `release`."""
        self._held = [] if self._held is None else self._held

    def release(self, order: Literal["same", "reversed"] | Sequence[int] = "same") -> None:
        """Send what was kept back, in the given order (indexes into the arrival order)."""
        held, self._held = self._held or [], None
        match order:
            case "same":
                chosen = held
            case "reversed":
                chosen = held[::-1]
            case _:
                chosen = [held[index] for index in order]
        for delivery in chosen:
            delivery.state = "pending"
            self.spawn(self._run(delivery))

    def redeliver(
        self, delivery: Delivery, *, event_id: str = "", message_id: str = ""
    ) -> Delivery:
        """Send the same thing once more, as a delivery of its own, with other ids if told so."""
        payload = copy.deepcopy(delivery.payload)
        if event_id:
            payload["header"]["event_id"] = event_id
        if message_id:
            payload["event"]["message"]["message_id"] = message_id
        return self.send(payload)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run beside everything else until done or `close`; a crash surfaces in `close`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._reap)

    async def close(self) -> None:
        """Cancel what is under way; raise what crashed."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.crashes:
            raise ExceptionGroup(
                "feishu simulator: deliveries crashed",
                [each for each in self.crashes if isinstance(each, Exception)],
            )

    def _reap(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.crashes.append(error)

    async def _run(self, delivery: Delivery) -> None:
        delays = () if delivery.is_callback else self._retry_delays_s
        for number in range(len(delays) + 1):
            if number:
                await asyncio.sleep(delays[number - 1])
            if delivery.state == "acked":  # a late one, while the delay ran
                break
            outcome = self._judged(delivery, await self._attempt(delivery))
            if outcome.acked:
                delivery.state, delivery.answer = "acked", outcome.answer
                delivery.acks += 1
                break
            delivery.reasons.append(outcome.reason)
            self._bell.ring()
        if delivery.state != "acked":
            delivery.state = "lost"
        delivery.settled.set()
        self._bell.ring()

    def _judged(self, delivery: Delivery, outcome: Outcome) -> Outcome:
        """A callback is answered only by what Feishu can show."""
        if not outcome.acked or not delivery.is_callback:
            return outcome
        if problem := problem_of(outcome.answer):
            return Outcome(acked=False, reason=f"bad answer: {problem}")
        return outcome

    async def _attempt(self, delivery: Delivery) -> Outcome:
        if self.transport is None:
            return Outcome(acked=False, reason="no_transport")
        return await self.transport.attempt(delivery)
