"""What is planned in the conversation of one turn; a `tools.schedule.Plans`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from clawbot.commands.answers import answer
from clawbot.commands.reminders import lines
from clawbot.errors import ToolError
from clawbot.messages import ChatType
from clawbot.ports import Clock, Store, Transaction, Unit
from clawbot.schedules import BadTime, local, next_ms, parse
from clawbot.store import schedules
from clawbot.store.claims import Claim
from clawbot.store.schedules import MOST_PER_CHAT, Schedule

LIKE = ""
"""The model is spoken to in English."""


class TurnPlans:
    """See the module. commit: takes what is to be committed with the call's result."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        turn: Claim,
        zone: str,
        commit: Callable[[Unit[None]], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._turn = turn
        self._zone = zone
        self._commit = commit

    async def add(self, when: str, text: str, *, may_be_silent: bool) -> str:
        """See `Plans`."""
        now_ms = self._clock.now_ms()
        try:
            times, rest = parse(when, self._zone, now_ms)
            due_ms = next_ms(times, now_ms, now_ms)
        except BadTime as error:
            told = answer(f"remind_bad_{error.problem}", like=LIKE)
            raise ToolError(f"when: {told.replace('!remind ', '')}") from error
        if rest or due_ms is None:
            raise ToolError(f"when: only a time, and text for what is to be done; this is {when!r}")
        base = self._turn.session.base
        planned = await self._store.read(partial(schedules.listing, base=base))
        if len(planned) >= MOST_PER_CHAT:
            raise ToolError(answer("remind_many", like=LIKE, count=MOST_PER_CHAT))
        last, route = self._turn.rows[-1], self._turn.route
        schedule = Schedule(
            session=self._turn.session,
            channel=last.channel,
            chat_id=last.chat_id,
            chat_type=ChatType(last.chat_type),
            sender=last.sender,
            text=text,
            when=times,
            route=route,
            place_thread=None if route is None else route.thread,
            may_be_silent=may_be_silent,
        )
        self._commit(partial(_add, schedule=schedule, now_ms=now_ms))
        return f"Planned; it is due at {local(due_ms, self._zone)}."

    async def listing(self) -> str:
        """See `Plans`."""
        planned = await self._store.read(partial(schedules.listing, base=self._turn.session.base))
        return lines(planned, self._zone, LIKE) or "Nothing is planned here."

    async def cancel(self, plan_id: str) -> str:
        """See `Plans`."""
        base = self._turn.session.base
        planned = await self._store.read(partial(schedules.listing, base=base))
        if plan_id not in {one.id for one in planned}:
            known = ", ".join(one.id for one in planned) or "none"
            raise ToolError(f"id: there is no plan {plan_id!r} here; planned are: {known}")
        self._commit(partial(_cancel, turn=self._turn, plan_id=plan_id))
        return f"{plan_id} is cancelled."


def _add(tx: Transaction, schedule: Schedule, now_ms: int) -> None:
    schedules.add(tx, schedule, now_ms, is_counted=False)


def _cancel(tx: Transaction, turn: Claim, plan_id: str) -> None:
    schedules.cancel(tx, turn.session.base, plan_id)
