"""Everything Slack pushes to the app: events, slash commands, button presses, with their retries.

One `Delivery` is one thing Slack wants acknowledged, however often it is sent. How it travels (a
web socket or signed HTTP) is the transport's business; what it says is made in `shapes`.
"""

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .waiting import Bell
from .workspace import Json, Workspace

DeliveryKind = Literal["events_api", "slash_commands", "interactive"]
State = Literal["held", "pending", "acked", "lost"]


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """One event, command or press and what became of it."""

    kind: DeliveryKind
    payload: Json
    state: State = "pending"
    attempts: int = 0
    reasons: list[str] = field(default_factory=list)
    ack_payload: Json | None = None
    acks: int = 0
    after: "Delivery | None" = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    first_sent: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def event(self) -> Json:
        """The inner event; empty for commands and presses."""
        event: Json = self.payload.get("event", {})
        return event

    @property
    def event_id(self) -> str:
        """Slack's event_id; empty for commands and presses."""
        return str(self.payload.get("event_id", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one attempt ended: acked, or the retry_reason of the next one."""

    acked: bool
    reason: str = ""
    retry: bool = True


class Transport(Protocol):
    """A way to the app."""

    async def attempt(self, delivery: Delivery, number: int, reason: str) -> Outcome:
        """Send once and wait for the ack; sets `delivery.first_sent` as soon as order is safe."""
        ...


class Feed:
    """Queues, sends and re-sends deliveries, and remembers them all."""

    def __init__(
        self,
        workspace: Workspace,
        bell: Bell,
        *,
        retry_delays_s: Sequence[float],
        verification_token: str,
    ) -> None:
        self._workspace = workspace
        self._bell = bell
        self._retry_delays_s = tuple(retry_delays_s)
        self._verification_token = verification_token
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: list[Delivery] | None = None
        self.crashes: list[BaseException] = []
        self.deliveries: list[Delivery] = []
        self.transport: Transport | None = None
        self.on_ack: Callable[[Delivery, Json], None] = lambda _delivery, _payload: None

    def publish(self, event: Json, *, after: Delivery | None = None) -> Delivery:
        """Wrap an inner event as an event_callback and send it."""
        event_id = self._workspace.new_id("Ev0")
        return self.send("events_api", self._callback(event, event_id), after=after)

    def send(self, kind: DeliveryKind, payload: Json, *, after: Delivery | None = None) -> Delivery:
        """Send any payload as it is."""
        delivery = Delivery(kind=kind, payload=payload, after=after)
        self.deliveries.append(delivery)
        if self._held is not None and kind == "events_api":
            delivery.state = "held"
            self._held.append(delivery)
        else:
            self._start(delivery)
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
            delivery.state, delivery.after = "pending", None
            self._start(delivery)

    def redeliver(self, delivery: Delivery, *, new_event_id: bool = False) -> Delivery:
        """Send the same thing once more, as a delivery of its own."""
        payload = dict(delivery.payload)
        if new_event_id:
            payload["event_id"] = self._workspace.new_id("Ev0")
        return self.send(delivery.kind, payload)

    def ack(self, delivery: Delivery, payload: Json | None) -> None:
        """The app has acknowledged; a second ack of the same delivery only counts."""
        delivery.acks += 1
        if delivery.state != "acked":
            delivery.state, delivery.ack_payload = "acked", payload
            delivery.settled.set()
            if payload:
                self.on_ack(delivery, payload)
        self._bell.ring()

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
                "slack simulator: deliveries crashed",
                [each for each in self.crashes if isinstance(each, Exception)],
            )

    def _start(self, delivery: Delivery) -> None:
        self.spawn(self._run(delivery))

    def _reap(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.crashes.append(error)

    async def _run(self, delivery: Delivery) -> None:
        if delivery.after is not None:
            await delivery.after.first_sent.wait()
        retries = len(self._retry_delays_s) if delivery.kind == "events_api" else 0
        reason = ""
        for number in range(retries + 1):
            if number:
                await asyncio.sleep(self._retry_delays_s[number - 1])
                if delivery.state == "acked":  # a late ack, while the delay ran
                    return
            outcome = await self._attempt(delivery, number, reason)
            if outcome.acked:
                return
            reason = outcome.reason
            delivery.reasons.append(reason)
            self._bell.ring()
            if not outcome.retry:
                break
        if delivery.state != "acked":
            delivery.state = "lost"
        delivery.settled.set()
        self._bell.ring()

    async def _attempt(self, delivery: Delivery, number: int, reason: str) -> Outcome:
        if self.transport is None:
            return Outcome(acked=False, reason="no_transport", retry=False)
        try:
            return await self.transport.attempt(delivery, number, reason)
        finally:
            delivery.first_sent.set()

    def _callback(self, event: Json, event_id: str) -> Json:
        workspace = self._workspace
        return {
            "token": self._verification_token,
            "team_id": workspace.team_id,
            "context_team_id": workspace.team_id,
            "context_enterprise_id": None,
            "api_app_id": workspace.app_id,
            "event": event,
            "type": "event_callback",
            "event_id": event_id,
            "event_time": int(workspace.now()),
            "authorizations": [
                {
                    "enterprise_id": None,
                    "team_id": workspace.team_id,
                    "user_id": workspace.bot.id,
                    "is_bot": True,
                    "is_enterprise_install": False,
                }
            ],
            "is_ext_shared_channel": False,
            "event_context": f"4-{uuid.uuid4().hex}",
        }
