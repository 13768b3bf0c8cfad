"""Showing in a chat that an answer is being prepared, where the platform can.

A sign that stays until it is ended has a mark, which is kept with the message: whoever serves the
channel next ends what a crash, a stop or a silence has left standing.
"""

from __future__ import annotations

from functools import partial

import structlog

from clawbot.errors import StoreUnavailable
from clawbot.messages import ReplyRoute
from clawbot.ports import Clock, Store, Typing
from clawbot.store import typing_marks
from clawbot.store.topics import TURNS, outbox_topic
from clawbot.store.typing_marks import Answering

log = structlog.get_logger(__name__)

LOOK_AGAIN_S = 2.0


class TypingSigns:
    """Keeps the signs of one channel's running turns; lost signs are only a blemish."""

    def __init__(
        self, store: Store, clock: Clock, channel: str, adapter: Typing, *, refresh_s: float
    ) -> None:
        self._store = store
        self._clock = clock
        self._channel = channel
        self._adapter = adapter
        self._refresh_s = refresh_s
        self._shown: dict[ReplyRoute, float] = {}

    async def run(self) -> None:
        """Show and end signs until cancelled."""
        ear = self._store.listen([TURNS, outbox_topic(self._channel)])
        try:
            while True:
                await ear.wait(LOOK_AGAIN_S)
                try:
                    await self._look()
                except StoreUnavailable as error:
                    log.warning("typing_not_read", channel=self._channel, error=str(error))
                await self._clock.sleep(0.5)
        finally:
            ear.close()

    async def _look(self) -> None:
        found = await self._store.read(partial(typing_marks.look, channel=self._channel))
        running: dict[ReplyRoute, list[Answering]] = {}
        for one in found:
            if one.is_running:
                running.setdefault(one.route, []).append(one)
        for route, messages in running.items():
            await self._begin(route, messages)
        for one in found:
            if one.mark and not one.is_running and one.route not in running:
                await self._end(one.route, one.mark, [one.inbox_id])
        for route in self._shown.keys() - running:
            await self._end(route, "", [])  # a sign without a mark

    async def _begin(self, route: ReplyRoute, messages: list[Answering]) -> None:
        now = self._clock.monotonic()
        if now - self._shown.get(route, float("-inf")) <= self._refresh_s:
            return
        is_new = route not in self._shown
        self._shown[route] = now
        if is_new and any(one.mark for one in messages):
            return  # a process before this one has put it on
        mark = await self._adapter.typing(route, active=True)
        if mark and is_new:
            ids = [one.inbox_id for one in messages]
            await self._store.write(partial(typing_marks.note, inbox_ids=ids, mark=mark))

    async def _end(self, route: ReplyRoute, mark: str, inbox_ids: list[int]) -> None:
        self._shown.pop(route, None)
        await self._adapter.typing(route, active=False, mark=mark)
        if inbox_ids:
            await self._store.write(partial(typing_marks.note, inbox_ids=inbox_ids, mark=None))
