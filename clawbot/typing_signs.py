"""Showing in a chat that an answer is being prepared, where the platform can."""

from __future__ import annotations

from functools import partial

import structlog
from sqlalchemy import select

from clawbot.errors import StoreUnavailable
from clawbot.messages import ReplyRoute
from clawbot.ports import Clock, Store, Transaction, Typing
from clawbot.store.schema import inbox, turns
from clawbot.store.topics import TURNS, outbox_topic

log = structlog.get_logger(__name__)

LOOK_AGAIN_S = 2.0
AT_MOST = 500


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
                await self._look()
                await self._clock.sleep(0.5)
        finally:
            ear.close()

    async def _look(self) -> None:
        try:
            running = await self._store.read(partial(_running_routes, channel=self._channel))
        except StoreUnavailable as error:
            log.warning("typing_not_read", channel=self._channel, error=str(error))
            return
        now = self._clock.monotonic()
        for route in running:
            if now - self._shown.get(route, float("-inf")) > self._refresh_s:
                self._shown[route] = now
                await self._adapter.typing(route, active=True)
        for route in self._shown.keys() - running:
            del self._shown[route]
            await self._adapter.typing(route, active=False)


def _running_routes(tx: Transaction, channel: str) -> set[ReplyRoute]:
    """Where the turns that run now will answer."""
    rows = tx.conn.execute(
        select(inbox.c.route)
        .join(turns, turns.c.id == inbox.c.turn_id)
        .where(
            inbox.c.channel == channel,
            inbox.c.state == "claimed",
            turns.c.state == "running",
            inbox.c.route.is_not(None),
        )
        .limit(AT_MOST)
    ).scalars()
    return {ReplyRoute(**route) for route in rows}
