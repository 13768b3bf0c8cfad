"""Wires the adapter process of a channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from clawbot.adapter_host import AdapterHost
from clawbot.channels import CHANNEL_TYPES, load
from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.intake import ChannelRules, Intake
from clawbot.parts.heartbeat import heartbeat_of
from clawbot.ports import (
    ChannelAdapter,
    Downloader,
    Editor,
    Enricher,
    Part,
    Store,
    ThreadReader,
    Uploader,
)
from clawbot.rates import RateLimits
from clawbot.reloading import watching
from clawbot.shared_rates import SharedRates


@asynccontextmanager
async def open_adapter_host(
    config: Config, store: Store, process_id: str, channel: str
) -> AsyncIterator[Part]:
    """The adapter of `channel` and what of the core runs beside it."""
    clock = SystemClock()
    section = config.channels[channel]
    opens = await asyncio.to_thread(load, CHANNEL_TYPES[section.type].adapter)
    adapter: ChannelAdapter = opens(channel, section.adapter_config, clock)

    def processes() -> int:
        return heartbeat.peers

    intake = Intake(store, clock, rules_of(config, channel, adapter, processes), process_id)

    def change(changed: Config) -> None:
        fresh = rules_of(changed, channel, adapter)
        intake.rules = replace(fresh, over_rate=intake.rules.over_rate)  # which remembers

    async with watching(config, clock, change) as watch:
        role = f"adapter {channel}"
        heartbeat = heartbeat_of(config, store, clock, process_id, role, watch.facts)
        yield AdapterHost(
            store,
            clock,
            heartbeat,
            channel,
            adapter,
            intake,
            grace_s=config.limits.grace_s,
            thread_messages=config.limits.context_messages,
            file_bytes=config.limits.file_bytes,
            enrich_ms=round(config.limits.enrich_deadline_s * 1000),
        )


def rules_of(
    config: Config, channel: str, adapter: ChannelAdapter, processes: Callable[[], int] = lambda: 1
) -> ChannelRules:
    """What the intake must know of a channel, which so many processes serve."""
    limits = config.limits
    rates = RateLimits(per_sender=limits.sender_per_minute, per_chat=limits.chat_per_minute)
    return ChannelRules(
        policy=config.channels[channel].policy,
        models=config.models_of(channel),
        can_edit=isinstance(adapter, Editor),
        can_enrich=isinstance(adapter, Enricher),
        can_read_threads=isinstance(adapter, ThreadReader),
        can_download=isinstance(adapter, Downloader),
        file_bytes=adapter.limits.max_file_bytes if isinstance(adapter, Uploader) else 0,
        context_rows=limits.context_messages,
        context_age_ms=round(limits.context_age_s * 1000),
        enrich_ms=round(limits.enrich_deadline_s * 1000),
        late_after_ms=round(limits.late_after_s * 1000),
        is_owner=partial(config.is_owner, channel),
        zone=config.time_zone,
        over_rate=SharedRates(rates, processes).take,
    )
