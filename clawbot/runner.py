"""What a turn is run with: the model, instructions, tools and directories of its session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clawbot.agent.loop import Agent, Answer, Journal, Timing
from clawbot.agent.models import ModelPool
from clawbot.agent.prompt import system_prompt
from clawbot.config import Config
from clawbot.ports import Clock, Reporter, Store
from clawbot.store.claims import Claim
from clawbot.tools.context import TurnContext
from clawbot.tools.registry import ToolRegistry
from clawbot.work_dirs import make_work_dir, work_dir_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRunner:
    """Runs turns of any session; a `worker.TurnRunner`."""

    config: Config
    store: Store
    clock: Clock
    agent: Agent
    models: ModelPool
    tools: ToolRegistry

    async def run(
        self, claim: Claim, journal: Journal, reporter: Reporter, timing: Timing
    ) -> Answer:
        """Run the turn. Raise ModelError, LeaseLost or TurnStopped."""
        channel = self.config.channels.get(claim.rows[-1].channel)
        work_dir = work_dir_of(self.config.state_dir, claim.session)
        documents = () if claim.session.task else self.config.context
        _, context = await asyncio.to_thread(_prepare, work_dir, documents)
        stopping = asyncio.Event()
        bound = self.tools.bind(
            TurnContext(
                session=claim.session,
                work_dirs=[work_dir],
                deadline=self.clock.monotonic() + self.config.turns.turn_timeout_s,
                reporter=reporter,
                stopping=stopping,
                store=self.store,
            )
        )
        try:
            return await self.agent.run(
                model=await self.models.get(self.config.model_of(claim.rows[-1].channel)),
                system=system_prompt(
                    [self.config.instructions, channel.instructions if channel else ""], context
                ),
                tools=bound,
                journal=journal,
                reporter=reporter,
                timing=timing,
            )
        finally:
            stopping.set()


def _prepare(work_dir: Path, documents: Sequence[Path]) -> tuple[Path, list[tuple[str, str]]]:
    made = make_work_dir(work_dir)
    return made, [(path.name, path.read_text(encoding="utf-8")) for path in documents]
