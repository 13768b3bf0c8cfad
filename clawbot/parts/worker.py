"""Wires a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clawbot.agent.loop import Agent, LoopLimits
from clawbot.agent.models import ModelPool
from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.parts.heartbeat import heartbeat_of
from clawbot.ports import Part, Store
from clawbot.runner import SessionRunner
from clawbot.tools.list_dir import ListDir
from clawbot.tools.read_file import ReadFile
from clawbot.tools.registry import ToolLimits, ToolRegistry
from clawbot.worker import Worker, WorkerLimits


@asynccontextmanager
async def open_worker(config: Config, store: Store, process_id: str) -> AsyncIterator[Part]:
    """A worker with its models and tools; leaving closes the models' connections."""
    clock = SystemClock()
    limits = LoopLimits(
        first_token_timeout_s=config.turns.first_token_timeout_s,
        max_steps=config.turns.max_steps,
        max_output_tokens=config.turns.max_output_tokens,
        history_messages=config.turns.history_messages,
    )
    async with ModelPool(config.providers) as models:
        await models.get(config.model)  # a bad key or provider shows now, not at the first message
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
            heartbeat_of(config, store, clock, process_id, "worker"),
            runner,
            WorkerLimits(
                turns=config.turns.per_worker,
                turn_timeout_s=config.turns.turn_timeout_s,
                grace_s=config.limits.grace_s,
                context_rows=config.limits.context_messages,
                history_rows=max(config.turns.history_messages, 1) * 2,
            ),
        )
