"""Begins turns at their times: a part of every worker, of which any may do it.

Which of them does is decided by the store (`clawbot.store.schedules`), so none is begun twice, and
one that dies takes nothing along.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import structlog

from clawbot.config import Config
from clawbot.errors import StoreUnavailable
from clawbot.messages import ChatType, ReplyRoute, Sender
from clawbot.ports import Clock, Store
from clawbot.session_key import SessionKey
from clawbot.store import schedules
from clawbot.store.schedules import Schedule
from clawbot.store.topics import SCHEDULES

log = structlog.get_logger(__name__)

LOOK_AGAIN_S = 30.0
LEAST_WAIT_S = 0.05
STORE_RETRY_S = 1.0
ADMIN = "schedules"
"""Who speaks in the turns that the config plans."""


def planned_by(config: Config) -> dict[str, Schedule]:
    """What the config plans, by name."""
    return {
        name: _schedule(name, SessionKey.parse(one.session), config)
        for name, one in config.schedules.items()
    }


def _schedule(name: str, session: SessionKey, config: Config) -> Schedule:
    section = config.schedules[name]
    is_chat = session.channel is not None and session.channel in config.channels
    route = ReplyRoute(chat_id=session.chat_id or "", thread=session.thread) if is_chat else None
    return Schedule(
        name=name,
        session=session,
        channel=session.channel or "web",
        chat_id=session.chat_id or str(session),
        chat_type=ChatType.GROUP,
        sender=Sender(id=ADMIN, name=name),
        text=section.text,
        when=section.times(config.time_zone),
        route=route,
        place_thread=session.thread,
        may_be_silent=section.may_be_silent,
    )


class Scheduler:
    """Puts what is due into the inboxes of its sessions."""

    def __init__(self, store: Store, clock: Clock, wanted: Mapping[str, Schedule]) -> None:
        self._store = store
        self._clock = clock
        self._wanted = wanted
        self._is_synced = False

    async def run(self) -> None:
        """Until cancelled."""
        ear = self._store.listen([SCHEDULES])
        try:
            while True:
                try:
                    wait_s = await self._look()
                except StoreUnavailable as error:
                    log.warning("schedules_not_read", error=str(error))
                    wait_s = STORE_RETRY_S
                except Exception:
                    # The boundary of the scheduler: a plan that cannot begin must not end a worker.
                    log.exception("schedules_failed")
                    wait_s = LOOK_AGAIN_S
                await ear.wait(wait_s)
        finally:
            ear.close()

    async def _look(self) -> float:
        """Begin what is due; how long to wait for the next. Raise StoreUnavailable."""
        now_ms = self._clock.now_ms()
        if not self._is_synced:
            await self._store.write(partial(schedules.sync, wanted=self._wanted, now_ms=now_ms))
            self._is_synced = True
        next_ms = await self._store.read(schedules.next_due_ms)
        if next_ms is None or next_ms > now_ms:
            wait_s = LOOK_AGAIN_S if next_ms is None else (next_ms - now_ms) / 1000
            return min(LOOK_AGAIN_S, max(LEAST_WAIT_S, wait_s))
        for schedule_id in await self._store.write(partial(schedules.fire, now_ms=now_ms)):
            log.info("schedule_begun", schedule=schedule_id)
        return LEAST_WAIT_S
