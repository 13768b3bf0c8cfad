"""Wires a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from clawbot.agent.calling import LONGEST_WAIT_S, Caller, Timing
from clawbot.agent.compaction import CompactionLimits, Compactor
from clawbot.agent.limiter import Limiter
from clawbot.agent.loop import Agent, Answer, LoopLimits
from clawbot.agent.models import ModelPool
from clawbot.agent.outages import Outages
from clawbot.agent.tokens import TokenCounter, open_counter
from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.config_sections import OFFLINE_MODEL
from clawbot.history import EMPTY
from clawbot.journal import StoreJournal
from clawbot.parts.heartbeat import heartbeat_of
from clawbot.ports import Clock, Model, Part, Reporter, Store, Tool
from clawbot.prices import Prices
from clawbot.project import ProjectLimits, ProjectReader
from clawbot.reloading import watching
from clawbot.runner import SessionRunner, memory_model
from clawbot.scheduler import Scheduler, planned_by
from clawbot.session_settings import queue_of
from clawbot.store.claims import Claim
from clawbot.tools.offer import open_tools
from clawbot.tracing.tracer import open_tracer
from clawbot.worker import Worker, WorkerLimits


@asynccontextmanager
async def open_worker(
    config: Config, store: Store, process_id: str, more_tools: Sequence[Tool] = ()
) -> AsyncIterator[Part]:
    """A worker with its models and tools; leaving closes the models' connections."""
    clock = SystemClock()
    prices = Prices(config.providers, config.budgets)
    limiter = Limiter(clock, config.providers, LONGEST_WAIT_S)
    caller = Caller(
        clock=clock,
        first_token_timeout_s=config.turns.first_token_timeout_s,
        price_of=prices.of,
        limiter=limiter,
        outages=Outages(clock),
    )
    async with (
        open_tracer(config, clock, process_id) as tracer,
        ModelPool(config.providers) as models,
        await _counter(config) as counter,
        _compactor(config, store, clock, models, caller) as compactor,
        open_tools(config, clock, more_tools) as offer,
    ):
        for name in (config.model, *config.fallbacks):
            await models.get(name)  # a bad key or provider shows now, not at the first message
            # Data about all models is loaded now, beside the event loop.
            await asyncio.to_thread(memory_model, config, name)
        await asyncio.to_thread(prices.of, config.model, EMPTY)

        runner = SessionRunner(
            config=config,
            store=store,
            clock=clock,
            agent=Agent(
                clock=clock, limits=LoopLimits(max_steps=config.turns.max_steps), caller=caller
            ),
            models=models,
            tools=offer.tools,
            project=ProjectReader(
                ProjectLimits(
                    agents_bytes=config.project.agents_bytes, skills=config.project.skills
                )
            ),
            counter=counter,
            compactor=compactor,
        )
        latest = LatestRunner(runner)

        def change(changed: Config) -> None:
            offer.change(changed)
            latest.runner = replace(runner, config=changed)

        async with watching(config, clock, change) as watch:

            def facts() -> dict[str, str]:
                return {**caller.outages.facts(), **offer.tools.facts(), **watch.facts()}

            heartbeat = heartbeat_of(config, store, clock, process_id, "worker", facts)
            limiter.workers = lambda: heartbeat.peers
            scheduler = Scheduler(store, clock, planned_by(config))
            yield Worker(store, clock, heartbeat, latest, _limits(config), scheduler, tracer)


class LatestRunner:
    """Runs each turn by the config as it is when the turn begins; a `worker.TurnRunner`."""

    def __init__(self, runner: SessionRunner) -> None:
        self.runner = runner

    async def run(
        self, claim: Claim, journal: StoreJournal, reporter: Reporter, timing: Timing
    ) -> Answer:
        """See `turn_run.TurnRunner`."""
        return await self.runner.run(claim, journal, reporter, timing)


def _limits(config: Config) -> WorkerLimits:
    return WorkerLimits(
        turns=config.turns.per_worker,
        turns_per_chat=config.turns.per_chat,
        pools=config.pools,
        turn_timeout_s=config.turns.turn_timeout_s,
        task_timeout_s=config.tasks.timeout_s,
        grace_s=config.limits.grace_s,
        context_rows=config.limits.context_messages,
        queue_of=partial(queue_of, config),
        debounces=any(c.policy.queue.debounce_ms for c in config.channels.values()),
    )


def _compactor(
    config: Config, store: Store, clock: Clock, models: ModelPool, caller: Caller
) -> Compactor:
    section = config.compaction

    async def model_for(session_model: str) -> Model | None:
        name = section.model or session_model
        return await models.get(name) if section.enabled and name != OFFLINE_MODEL else None

    limits = CompactionLimits(
        summary_tokens=section.summary_tokens,
        chunk_tokens=section.chunk_tokens,
        timeout_s=section.timeout_s,
        at_once=section.at_once,
    )
    return Compactor(store, clock, model_for, limits, caller)


async def _counter(config: Config) -> TokenCounter:
    """Counts by the real vocabulary, unless no model of the config would have any use of it."""
    models = {config.model, *(channel.model for channel in config.channels.values())}
    return TokenCounter(None) if models <= {OFFLINE_MODEL, None} else await open_counter()
