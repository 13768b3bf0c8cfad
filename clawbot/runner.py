"""What a turn is run with: the model, instructions, tools and directories of its session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from clawbot import received_files, seed
from clawbot.agent.calling import Timing
from clawbot.agent.compaction import CompactionJob, Compactor
from clawbot.agent.dialects import dialect_of
from clawbot.agent.loop import Agent, Answer
from clawbot.agent.masks import FOLDER
from clawbot.agent.memory import MemoryLimits, MemoryModel, Pinned, WorkingMemory, reach_of
from clawbot.agent.model_sizes import size_of
from clawbot.agent.models import ModelPool
from clawbot.agent.prompt import documents_text, session_facts, system_prompt
from clawbot.agent.saved import SavedTexts, saved_dir
from clawbot.agent.thinking import BUDGETS
from clawbot.agent.tokens import TokenCounter
from clawbot.budgets import TurnBudget
from clawbot.config import Config
from clawbot.config_sections import OFFLINE_MODEL, ProviderConfig
from clawbot.errors import ConfigError, ModelError
from clawbot.history import ToolSpec
from clawbot.journal import StoreJournal
from clawbot.planning import Planning
from clawbot.ports import Clock, Model, Reporter, Store, Transaction
from clawbot.project import ProjectReader
from clawbot.recollection import FOR_ANY_WINDOW, Recollection
from clawbot.seed import Seed, SeedFailed
from clawbot.session_settings import TurnSettings, settle
from clawbot.store import seeds
from clawbot.store.claims import Claim
from clawbot.subagents import LOOKS_ONLY, Pay, Subagents
from clawbot.todo import folder_of
from clawbot.tools.context import TurnContext
from clawbot.tools.sets import ToolSets
from clawbot.turn_context import turn_context
from clawbot.work_dirs import make_work_dir, work_dirs_of

log = structlog.get_logger(__name__)

NO_SEED = "(The context document of this task cannot be read now. Say so where it is needed.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a turn finds on the disk: its directories, documents by name, and notes in the work
    directory.
    """

    work_dirs: tuple[Path, ...]
    documents: tuple[tuple[str, str], ...]
    notes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRunner:
    """Runs turns of any session; a `worker.TurnRunner`."""

    config: Config
    store: Store
    clock: Clock
    agent: Agent
    models: ModelPool
    tools: ToolSets
    project: ProjectReader
    counter: TokenCounter
    compactor: Compactor

    async def run(
        self, claim: Claim, journal: StoreJournal, reporter: Reporter, timing: Timing
    ) -> Answer:
        """Run the turn. Raise ModelError, LeaseLost, TurnStopped or TurnParked."""
        # A message from the web page into a chat's session changes nothing of the session.
        name = claim.session.channel or claim.rows[-1].channel
        channel = self.config.channels.get(name)
        settings = settle(self.config, name, claim.settings)
        if claim.is_task:
            settings = replace(settings, max_steps=self.config.tasks.max_steps)
        models = [await self._model(one) for one in self._names(settings.model)]
        model = models[0]
        budget = TurnBudget(
            self.store, self.clock, claim.payer, self.config.budgets, self.config.time_zone
        )
        saved = SavedTexts(root=saved_dir(self.config.state_dir, claim.session))
        around, recollection = await self._look_up(claim, journal, name, settings, saved)
        sent = [file for row in claim.rows for file in row.attachments]
        await received_files.place(self.store, sent, around.work_dirs[0])
        stopping = asyncio.Event()
        planning = self._planning(claim, name, around.work_dirs) if settings.plan else None
        context = turn_context(
            *(self.config, self.store, self.clock, claim),
            channel=name,
            work_dirs=around.work_dirs,
            session_dir=saved.root,
            reporter=reporter,
            stopping=stopping,
            planning=planning,
        )
        bound = self.tools.of(name, claim.session).bind(context)
        instructions = [self.config.instructions, channel.instructions if channel else ""]
        facts = session_facts(
            channel=name,
            is_group=claim.rows[-1].chat_type == "group",
            more_dirs=[str(one) for one in around.work_dirs[1:]],
            network=self.config.tools.network if bound.has("bash") else None,
            now_ms=self.clock.now_ms(),
        )
        pinned = Pinned(
            rules=system_prompt(instructions, (), (around.notes, facts)),
            documents=documents_text(around.documents),
            notes=None if planning is None else planning.notes,
        )
        helpers = partial(self._helpers, name, context, settings, saved)
        context.helper = lambda task: (
            helpers(
                models=models,
                timing=timing,
                may_spend=budget.check,
                pay=journal.pay,
                notes=around.notes,
            )
        ).run(task)
        try:
            memory = await self._memory(
                claim, journal, recollection, settings, pinned, saved, bound.specs
            )
            answer = await _with(self.agent, settings).run(
                models=models,
                memory=memory,
                tools=bound,
                journal=journal,
                reporter=reporter,
                timing=timing,
                may_spend=budget.check,
                thinks_first=self._thinking(settings) == "first",
            )
        finally:
            stopping.set()
        if memory.fold_through:
            self.compactor.want(_job(claim, memory.fold_through, memory.room_tokens, model.name))
        return answer

    def _planning(self, claim: Claim, name: str, work_dirs: Sequence[Path]) -> Planning:
        """The plan mode of a turn."""
        channel = self.config.channels.get(name)
        is_alone = channel is not None and channel.workdir == "session"
        folder = folder_of(claim.session, is_alone=is_alone)
        return Planning(roots=work_dirs[:1], folder=folder)

    def _thinking(self, settings: TurnSettings) -> str | None:
        """How the model of a turn thinks; see `config_sections.TurnsConfig`."""
        provider = self.config.providers.get(settings.model.partition(":")[0], ProviderConfig())
        return settings.thinking or provider.thinking

    def _names(self, name: str) -> list[str]:
        """The model of a session, and those that answer while it does not work."""
        others = [one for one in self.config.fallbacks if name not in {one, OFFLINE_MODEL}]
        return [name, *others]

    async def _model(self, name: str) -> Model:
        try:
            return await self.models.get(name)
        except ConfigError as error:
            raise ModelError(f"model {name}: {error}", kind="auth") from error

    async def _memory(
        self,
        claim: Claim,
        journal: StoreJournal,
        recollection: Recollection,
        settings: TurnSettings,
        pinned: Pinned,
        saved: SavedTexts,
        tools: tuple[ToolSpec, ...],
    ) -> WorkingMemory:
        """The working memory of the turn, with what the session has to remember."""
        model, limits = self._bounds(settings)
        if recollection.wants_summary:
            older = [e.seq for e in recollection.entries if e.turn_id != claim.turn_id]
            job = _job(claim, max(older, default=0), FOR_ANY_WINDOW, model.name)
            await self.compactor.run(job, within_s=self.config.compaction.timeout_s)
            recollection = await journal.recall(reach_of(model, limits))
        return WorkingMemory(
            recollection,
            turn_id=claim.turn_id,
            pinned=pinned,
            tools=tools,
            model=model,
            limits=limits,
            counter=self.counter,
            saved=saved,
        )

    def _bounds(self, settings: TurnSettings) -> tuple[MemoryModel, MemoryLimits]:
        """What a request of these settings may hold."""
        model, level = memory_model(self.config, settings.model), self._thinking(settings)
        # A request must fit whoever answers it.
        names = self._names(settings.model)
        windows = [memory_model(self.config, name).size.window_tokens for name in names]
        model = replace(model, size=replace(model.size, window_tokens=min(windows)))
        if settings.request_tokens is not None:
            tokens = min(settings.request_tokens, model.size.window_tokens)
            model = replace(model, size=replace(model.size, window_tokens=tokens))
        return model, MemoryLimits(
            history_messages=settings.history_messages,
            # Thinking takes of the output.
            max_output_tokens=settings.max_output_tokens + BUDGETS.get(level or "", 0),
            result_chars=self.config.turns.result_chars,
            temperature=settings.temperature,
            thinking=None if level == "first" else level,
        )

    def _helpers(
        self,
        channel: str,
        context: TurnContext,
        settings: TurnSettings,
        saved: SavedTexts,
        *,
        models: Sequence[Model],
        timing: Timing,
        may_spend: Callable[[], Awaitable[None]],
        pay: Pay,
        notes: str,
    ) -> Subagents:
        """The sub-agents of a turn: they look at what it may look at, and ask and send nothing."""
        alone = replace(
            context,
            approvals=None,
            file_sender=None,
            planner=None,
            task_starter=None,
            may_be_silent=False,
            seen=None,
            helper=None,
        )
        tools = self.tools.of(channel, context.session).only(LOOKS_ONLY).bind(alone)
        memory_model, limits = self._bounds(settings)
        steps = self.config.turns.subagent_steps

        def memory_of(begun: Recollection, turn_id: str, pinned: Pinned) -> WorkingMemory:
            return WorkingMemory(
                begun,
                turn_id=turn_id,
                pinned=pinned,
                tools=tools.specs,
                model=memory_model,
                limits=limits,
                counter=self.counter,
                saved=saved,
            )

        return Subagents(
            agent=replace(self.agent, limits=replace(self.agent.limits, max_steps=steps)),
            models=models,
            tools=tools,
            memory_of=memory_of,
            timing=timing,
            may_spend=may_spend,
            pay=pay,
            notes=notes,
        )

    async def _look_up(
        self,
        claim: Claim,
        journal: StoreJournal,
        channel: str,
        settings: TurnSettings,
        saved: SavedTexts,
    ) -> tuple[Surroundings, Recollection]:
        """What a turn finds on the disk and, looked up at the same time, what it remembers."""
        recalling = asyncio.create_task(journal.recall(reach_of(*self._bounds(settings))))
        try:
            return await self._surroundings(claim, channel, saved), await recalling
        finally:
            recalling.cancel()

    async def _surroundings(self, claim: Claim, channel: str, saved: SavedTexts) -> Surroundings:
        dirs = work_dirs_of(self.config, channel, claim.session, claim.work_dirs)
        context = () if claim.session.task else self.config.context
        around = await asyncio.to_thread(
            _prepare, self.config.state_dir, dirs, context, self.project
        )
        text = await self._task_context(claim, saved)
        if not text:
            return around
        return replace(around, documents=((seed.document_name(claim.session), text),))

    async def _task_context(self, claim: Claim, saved: SavedTexts) -> str:
        """The context document as the turn's requests hold it; "" where there is none."""
        if claim.session.task is None:
            return ""
        try:
            found = await self._seed(claim)
        except (SeedFailed, TimeoutError) as error:
            log.warning("seed_failed", reason=str(error) or "took too long")
            return NO_SEED
        if found is None:
            return ""
        path = f"{FOLDER}/{seed.full_text_name(found)}"
        text = seed.shown(found, self.config.tasks.seed_bytes, path)
        if text != found.text:
            await saved.keep({path: found.text})
        return text

    async def _seed(self, claim: Claim) -> Seed | None:
        """The context document of the turn's epoch, made now if this is its first turn.

        Raise SeedFailed or TimeoutError: the turn goes on without it, the next one tries again.
        """
        key, epoch = claim.session, claim.epoch

        def look(tx: Transaction) -> tuple[Seed | None, Seed | None]:
            return seeds.find(tx, key, epoch), seeds.inherited(tx, key, epoch)

        found, given = await self.store.read(look)
        if found is not None:
            return found
        if given is None:
            async with asyncio.timeout(self.config.tasks.seed_timeout_s):
                given = await asyncio.to_thread(
                    seed.build_seed, self.config.tasks, key, claim.title
                )
        if given is not None:
            now_ms = self.clock.now_ms()
            await self.store.write(partial(seeds.record, turn=claim, seed=given, now_ms=now_ms))
        return given


def _job(claim: Claim, through_seq: int, for_tokens: int, model: str) -> CompactionJob:
    return CompactionJob(
        session=claim.session,
        epoch=claim.epoch,
        through_seq=through_seq,
        for_tokens=for_tokens,
        model=model,
    )


def memory_model(config: Config, name: str) -> MemoryModel:
    """What working memory must know of a model. The first call of a process loads data about all
    models: not on the loop.
    """
    provider = name.partition(":")[0]
    given = config.providers.get(provider, ProviderConfig())
    dialect = dialect_of(provider, given.kind)
    return MemoryModel(
        name=name,
        size=size_of(name, given.context_tokens),
        sends_thinking=dialect is not None and dialect.thinking != "drop",
    )


def _with(agent: Agent, settings: TurnSettings) -> Agent:
    """The agent under the settings of one turn."""
    return replace(agent, limits=replace(agent.limits, max_steps=settings.max_steps))


def _prepare(
    state_dir: Path, dirs: tuple[Path, ...], documents: Sequence[Path], project: ProjectReader
) -> Surroundings:
    make_work_dir(state_dir, dirs[0])
    read = tuple((path.name, path.read_text(encoding="utf-8")) for path in documents)
    return Surroundings(work_dirs=dirs, documents=read, notes=project.read(dirs))
