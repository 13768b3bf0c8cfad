"""An adapter process: one channel's connection and everything of the core that runs beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import structlog

from clawbot.delivery import Delivery
from clawbot.enrichment import Enrichment
from clawbot.errors import ClawbotError, StoreUnavailable
from clawbot.intake import Intake
from clawbot.lease import Heartbeat
from clawbot.messages import Accepted, Amendment, ChannelHealth, InboundMessage, cleaned
from clawbot.ports import (
    AmendmentSource,
    ChannelAdapter,
    Clock,
    Enricher,
    HealthReporter,
    OverviewShower,
    Sharer,
    Store,
    Typing,
)
from clawbot.standing_by import StandBy
from clawbot.store import amendments, notes
from clawbot.store.processes import set_channel_health
from clawbot.typing_signs import TypingSigns

log = structlog.get_logger(__name__)

HEALTH_LOOK_S = 0.5
HEALTH_WRITE_S = 30.0


class AdapterHost:
    """Runs an adapter; a `ports.Part`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        heartbeat: Heartbeat,
        channel: str,
        adapter: ChannelAdapter,
        intake: Intake,
        *,
        grace_s: float,
        thread_messages: int = 0,
        file_bytes: int = 0,
        enrich_ms: int = 0,
    ) -> None:
        self._store = store
        self._clock = clock
        self._heartbeat = heartbeat
        self._channel = channel
        self._adapter = adapter
        self._intake = intake
        self._thread_messages = thread_messages
        self._file_bytes = file_bytes
        self._enrich_ms = enrich_ms if isinstance(adapter, Enricher) else 0
        self._delivery = Delivery(store, clock, heartbeat, channel, adapter, grace_s=grace_s)
        self._stand_by: StandBy | None = None
        if adapter.limits.one_connection:
            self._stand_by = StandBy(store, clock, channel, heartbeat.process_id)
        self._last_in_ms: int | None = None
        self._has_connected = asyncio.Event()

    async def ready(self) -> None:
        """See `ports.Readiness`: the adapter receives, or it is known why it does not yet."""
        await self._has_connected.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Receive and deliver until `stop`, then deliver what is ready within the grace.

        Raise ChannelBroken when an admin must act, StartupError when a port is taken.
        """
        await self._heartbeat.begin()
        if isinstance(self._adapter, Sharer):
            self._adapter.share_with(self._change_note, lambda: self._heartbeat.peers)
        try:
            if self._stand_by is not None and not await self._wait_for_turn(self._stand_by, stop):
                return
            try:
                await self._write_health(await self._adapter.check())
            except ClawbotError as error:
                await self._write_health(ChannelHealth(state="broken", detail=str(error)))
                raise
            await self._run(stop)
        except ExceptionGroup as group:
            # Of several failures the one that says what an admin must do is told.
            told = next((e for e in group.exceptions if isinstance(e, ClawbotError)), None)
            if told is None:
                raise
            raise told from group
        finally:
            await self._adapter.close()
            await self._heartbeat.end()

    async def _wait_for_turn(self, stand_by: StandBy, stop: asyncio.Event) -> bool:
        """Stand by until this process is the channel's active one; False = it is to stop."""
        self._has_connected.set()  # it does all that it is for
        beating = asyncio.create_task(self._heartbeat.run(), name="heartbeat")
        waiting = asyncio.create_task(stand_by.wait_for_turn(stop), name="stand by")
        try:
            await asyncio.wait({beating, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if beating.done():
                beating.result()
            return waiting.result()
        finally:
            for task in (beating, waiting):
                task.cancel()
            await asyncio.gather(beating, waiting, return_exceptions=True)

    async def _run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            side_tasks = [
                group.create_task(self._heartbeat.run(), name="heartbeat"),
                group.create_task(self._report_health(), name="health"),
            ]
            if self._stand_by is not None:
                side_tasks.append(group.create_task(self._stand_by.watch(), name="holder"))
            if isinstance(self._adapter, Enricher):
                enrichment = Enrichment(
                    self._store,
                    self._clock,
                    self._heartbeat.process_id,
                    self._channel,
                    self._adapter,
                    thread_messages=self._thread_messages,
                    file_bytes=self._file_bytes,
                )
                side_tasks.append(group.create_task(enrichment.run(), name="enrichment"))
            if isinstance(self._adapter, Typing):
                signs = TypingSigns(
                    self._store,
                    self._clock,
                    self._channel,
                    self._adapter,
                    refresh_s=self._adapter.limits.typing_lasts_s,
                )
                side_tasks.append(group.create_task(signs.run(), name="typing"))
            if isinstance(self._adapter, OverviewShower):
                self._adapter.overview_with(partial(self._intake.overview, self._channel))
            if isinstance(self._adapter, AmendmentSource):
                self._adapter.amend_with(self._amend)
            receiving = group.create_task(self._adapter.receive(self._accept), name="receive")
            delivering = group.create_task(self._delivery.run(stop), name="delivery")
            await stop.wait()
            receiving.cancel()
            await asyncio.wait({delivering})
            for task in side_tasks:
                task.cancel()

    async def _accept(self, message: InboundMessage) -> Accepted:
        accepted = await self._intake.accept(message)
        self._last_in_ms = self._clock.now_ms()
        return accepted

    async def _amend(self, amendment: Amendment) -> bool:
        message = amendment.message
        unit = partial(
            amendments.amend,
            amendment=replace(amendment, message=message and cleaned(message)),
            enrich_ms=self._enrich_ms,
            now_ms=self._clock.now_ms(),
        )
        is_amended = await self._store.write(unit)
        log.info(
            "message_amended",
            channel=amendment.channel,
            withdrawn=amendment.message is None,
            found=is_amended,
        )
        return is_amended

    async def _change_note(
        self, key: str, change: Callable[[str | None], str | None], lasts_s: float
    ) -> str | None:
        return await self._store.write(
            partial(
                notes.change,
                channel=self._channel,
                key=key,
                change=change,
                lasts_ms=round(lasts_s * 1000),
                now_ms=self._clock.now_ms(),
            )
        )

    async def _report_health(self) -> None:
        """Write the channel's state when it changes, and now and then."""
        if not isinstance(self._adapter, HealthReporter):
            self._has_connected.set()
            return
        written: ChannelHealth | None = None
        written_at = float("-inf")
        while True:
            health = self._adapter.health()
            if health.state != "connecting":
                self._has_connected.set()
            now = self._clock.monotonic()
            if health != written or now - written_at > HEALTH_WRITE_S:
                await self._write_health(health)
                written, written_at = replace(health), now
            await self._clock.sleep(HEALTH_LOOK_S)

    async def _write_health(self, health: ChannelHealth) -> None:
        try:
            await self._store.write(
                partial(
                    set_channel_health,
                    channel=self._channel,
                    process_id=self._heartbeat.process_id,
                    health=health,
                    now_ms=self._clock.now_ms(),
                    last_in_ms=self._last_in_ms,
                    last_out_ms=self._delivery.sender.last_sent_ms,
                )
            )
        except StoreUnavailable as error:
            log.warning("channel_state_not_written", channel=self._channel, error=str(error))
