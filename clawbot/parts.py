"""What the daemon is made of: each part wired from the config, in one place."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from clawbot.adapter_host import AdapterHost
from clawbot.agent.loop import Agent, LoopLimits
from clawbot.agent.models import ModelPool
from clawbot.channels import CHANNEL_TYPES, load
from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.intake import ChannelRules, Intake
from clawbot.lease import Heartbeat
from clawbot.ports import ChannelAdapter, Clock, Editor, Enricher, Part, Store
from clawbot.runner import SessionRunner
from clawbot.state_dir import prepare_state_dir
from clawbot.store import processes
from clawbot.store.doorbell import bell_folder
from clawbot.store.engine import open_sqlite_engine, open_sqlite_store
from clawbot.store.migrate import upgrade
from clawbot.tools.list_dir import ListDir
from clawbot.tools.read_file import ReadFile
from clawbot.tools.registry import ToolLimits, ToolRegistry
from clawbot.web.server import WebPart
from clawbot.worker import Worker, WorkerLimits

STORE_FILE = "clawbot.db"


async def open_store(config: Config) -> Store:
    """Open the store of the state directory, its schema up to date. Raise StartupError."""
    path = config.state_dir / STORE_FILE
    await asyncio.to_thread(_prepare_store, config.state_dir, path)
    return await open_sqlite_store(path, bell_folder(config.state_dir), uuid.uuid4().hex)


def _prepare_store(state_dir: Path, path: Path) -> None:
    prepare_state_dir(state_dir)
    engine = open_sqlite_engine(path)
    try:
        upgrade(engine)
    finally:
        engine.dispose()


async def release_process(store: Store, process_id: str) -> None:
    """Free at once what an ended process owned."""
    await store.write(partial(processes.release, process_id=process_id))


def _heartbeat(config: Config, store: Store, clock: Clock, process_id: str, role: str) -> Heartbeat:
    return Heartbeat(
        store,
        clock,
        process_id,
        role,
        interval_s=config.limits.heartbeat_s,
        lease_s=config.limits.lease_s,
    )


@asynccontextmanager
async def worker_part(config: Config, store: Store, process_id: str) -> AsyncIterator[Part]:
    """A worker."""
    clock = SystemClock()
    limits = LoopLimits(
        first_token_timeout_s=config.turns.first_token_timeout_s,
        max_steps=config.turns.max_steps,
        max_output_tokens=config.turns.max_output_tokens,
        history_messages=config.turns.history_messages,
    )
    async with ModelPool(config.providers) as models:
        runner = SessionRunner(
            config=config,
            store=store,
            clock=clock,
            agent=Agent(clock=clock, limits=limits),
            models=models,
            tools=ToolRegistry([ReadFile(), ListDir()], clock=clock, limits=ToolLimits()),
        )
        yield Worker(
            store,
            clock,
            _heartbeat(config, store, clock, process_id, "worker"),
            runner,
            WorkerLimits(
                turns=config.turns.per_worker,
                turn_timeout_s=config.turns.turn_timeout_s,
                grace_s=config.limits.grace_s,
                context_rows=config.limits.context_messages,
                history_rows=max(config.turns.history_messages, 1) * 2,
            ),
        )


@asynccontextmanager
async def adapter_part(
    config: Config, store: Store, process_id: str, channel: str
) -> AsyncIterator[Part]:
    """The adapter of a channel."""
    clock = SystemClock()
    section = config.channels[channel]
    # The import may take seconds: not on the event loop.
    opens = await asyncio.to_thread(load, CHANNEL_TYPES[section.type].adapter)
    adapter: ChannelAdapter = opens(channel, section.adapter_config, clock)
    yield AdapterHost(
        store,
        clock,
        _heartbeat(config, store, clock, process_id, f"adapter {channel}"),
        channel,
        adapter,
        Intake(store, clock, rules_of(config, channel, adapter)),
        grace_s=config.limits.grace_s,
    )


def rules_of(config: Config, channel: str, adapter: ChannelAdapter) -> ChannelRules:
    """What the intake must know of a channel."""
    limits = config.limits
    return ChannelRules(
        policy=config.channels[channel].policy,
        model=config.model_of(channel),
        can_edit=isinstance(adapter, Editor),
        can_enrich=isinstance(adapter, Enricher),
        context_rows=limits.context_messages,
        context_age_ms=round(limits.context_age_s * 1000),
        enrich_ms=round(limits.enrich_deadline_s * 1000),
        late_after_ms=round(limits.late_after_s * 1000),
    )


@asynccontextmanager
async def web_part(config: Config, store: Store, process_id: str) -> AsyncIterator[Part]:
    """The web page."""
    clock = SystemClock()
    heartbeat = _heartbeat(config, store, clock, process_id, "web")
    yield WebPart(config=config, store=store, clock=clock, heartbeat=heartbeat)
