"""Shows in the store what the supervisor knows of the channels: restarting, degraded or broken.

An adapter that runs reports its own health; this speaks for one that cannot, and for the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

import structlog

from clawbot.errors import StoreUnavailable
from clawbot.messages import ChannelHealth
from clawbot.ports import Clock, Store, Transaction
from clawbot.store.processes import set_channel_health
from clawbot.supervisor import ChildState, ChildStatus

log = structlog.get_logger(__name__)

# The states of `ChannelHealth`; a child in any other state speaks for itself.
_SHOWN_AS = {
    ChildState.RESTARTING: "degraded",
    ChildState.DEGRADED: "degraded",
    ChildState.BROKEN: "broken",
}


class ChannelBoard:
    """Writes the latest states; `channels` maps the names of children to channels.

    silent: names of children that do not report their health themselves when they work.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        channels: Mapping[str, str],
        silent: Collection[str] = (),
    ) -> None:
        self._store = store
        self._clock = clock
        self._channels = channels
        self._silent = silent
        self._latest: dict[str, ChildStatus] = {}
        self._shown: dict[str, ChildStatus] = {}
        self._changed = asyncio.Event()

    def post(self, statuses: Sequence[ChildStatus]) -> None:
        """Take the newest states; they are written soon."""
        self._latest = {one.name: one for one in statuses if one.name in self._channels}
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            news = [one for name, one in self._latest.items() if self._shown.get(name) != one]
            for status in news:
                await self._show(status)

    async def _show(self, status: ChildStatus) -> None:
        self._shown[status.name] = status
        if status.state in _SHOWN_AS:
            health = ChannelHealth(
                state=_SHOWN_AS[status.state],
                detail=f"its process is {status.state}{_why(status)}; see the log",
                facts={"restarts": str(status.restarts), "exit_code": str(status.exit_code)},
            )
        elif status.state is ChildState.UP and status.name in self._silent:
            health = ChannelHealth(state="up")
        else:
            return

        def unit(tx: Transaction) -> None:
            channel = self._channels[status.name]
            set_channel_health(tx, channel, status.process_id, health, self._clock.now_ms())

        try:
            await self._store.write(unit)
        except StoreUnavailable as error:
            log.warning("channel_state_not_written", child=status.name, error=error)


def _why(status: ChildStatus) -> str:
    return "" if status.worked else ": the last one ended, or was ended, before it worked"
