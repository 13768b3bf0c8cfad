"""The agent's loop: model, then tools, until there is an answer. One call of `run` is one turn.

Each step is recorded before it is acted on. The last step is not: it is handed back in the outcome,
so that it is committed together with the end of the turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Protocol

import structlog

from clawbot.agent.batch import Tools, run_calls
from clawbot.agent.calling import Caller, ShownPartly, Timing, since
from clawbot.agent.interruption import interrupted, open_calls
from clawbot.agent.memory import WorkingMemory
from clawbot.agent.repetition import reminder
from clawbot.agent.thinking import thoughts, to_think
from clawbot.errors import ModelError, TurnParked, TurnStopped
from clawbot.history import EMPTY, Entry, EntryKind, ModelReply, Spent, ToolCall
from clawbot.observation import SAY_NOTHING, Observation
from clawbot.ports import Clock, Model, Reporter, Unit
from clawbot.recollection import MemoryState
from clawbot.tracing.names import step_span

log = structlog.get_logger(__name__)

THINKS = "…"
"""What people see while the model thinks."""


async def _anything() -> None:
    """No budget."""


class Journal(Protocol):
    """Where a turn's steps are recorded."""

    turn_id: str
    asked: frozenset[int]
    """The calls, by their numbers, that people were asked about before: they are made again."""

    async def record(
        self,
        entries: Sequence[Entry],
        *,
        is_progress: bool = True,
        effects: Sequence[Unit[None]] = (),
    ) -> list[Entry]:
        """Append entries durably, and let `effects` write in the same transaction. Raise LeaseLost
        or TurnStopped.
        """
        ...

    async def joined(self) -> list[Entry]:
        """What people wrote meanwhile that joins the turn, recorded. Raises as `record`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLimits:
    """Bounds of a turn; see the config section `turns`."""

    max_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A finished turn: its last step, not recorded yet, and the texts of all steps in order; both
    empty when the agent chose to say nothing.

    memory: what the session's working memory has learned, to be kept with it.
    """

    entries: tuple[Entry, ...]
    texts: tuple[str, ...]
    memory: MemoryState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """What runs turns; it keeps nothing of any of them."""

    clock: Clock
    limits: LoopLimits
    caller: Caller

    async def run(
        self,
        *,
        models: Sequence[Model],
        memory: WorkingMemory,
        tools: Tools,
        journal: Journal,
        reporter: Reporter,
        timing: Timing,
        may_spend: Callable[[], Awaitable[None]] = _anything,
        thinks_first: bool = False,
    ) -> Answer:
        """Run a turn from where its journal stands.

        models: who answers; each is asked when those before it do not work.
        may_spend: asked before each model call; it raises ModelError when a budget is spent.
        thinks_first: whether it begins with a call in which the model thinks and uses no tool.

        Raise ModelError, LeaseLost, TurnStopped or TurnParked.
        """
        turn_id, timing.model = journal.turn_id, models[0].name
        await self._settle_calls(tools, journal, memory, timing)
        mine = [entry for entry in memory.entries if entry.turn_id == turn_id]
        texts = [entry.text for entry in mine if entry.kind is EntryKind.ASSISTANT]
        timing.usage = sum((entry.usage or EMPTY for entry in mine), EMPTY)
        first = 1 + max(entry.step for entry in mine)
        if thinks_first and first == 0 and not any(entry.is_thought for entry in mine):
            reporter.progress(THINKS)
            await self._think(models, memory, journal, timing, may_spend)
            reporter.progress("")
        for step in range(first, self.limits.max_steps):
            if _ends_silently(memory.entries):
                return Answer(entries=(), texts=(), memory=memory.state)
            with step_span(step):
                shown = partial(_show, reporter, texts)
                reply = await self._next_reply(models, memory, shown, timing, may_spend)
                entries = _step_entries(reply, turn_id, step)
                if reply.text:
                    texts.append(reply.text)
                if not reply.tool_calls:
                    return Answer(entries=tuple(entries), texts=tuple(texts), memory=memory.state)
                recorded = await _record(journal, entries, reply, timing)
                memory.extend(recorded)
                reporter.progress(_progress(reply.tool_calls))
                await self._call_tools(tools, _calls(recorded), journal, memory, step, timing)
                memory.extend(await journal.joined())
            reporter.progress("")
        raise ModelError(f"no answer after {self.limits.max_steps} steps", kind="invalid")

    async def _next_reply(
        self,
        models: Sequence[Model],
        memory: WorkingMemory,
        shown: Callable[[str], None] | None,
        timing: Timing,
        may_spend: Callable[[], Awaitable[None]],
    ) -> ModelReply:
        """One step's reply; if nobody is shown it, thoughts. A request that is refused as too long
        is made smaller, as long as memory finds something to leave out.
        """
        while True:
            await may_spend()
            request = await memory.request()
            request = request if shown is not None else to_think(request)
            try:
                reply = await self.caller.reply(models, request, shown, timing)
            except ModelError as error:
                if isinstance(error, ShownPartly) or error.kind != "overflow":
                    raise
                if not memory.shrink():
                    raise
            else:
                if timing.model == models[0].name:
                    memory.learn(reply.usage)  # another model counts otherwise
                return reply

    async def _think(
        self,
        models: Sequence[Model],
        memory: WorkingMemory,
        journal: Journal,
        timing: Timing,
        may_spend: Callable[[], Awaitable[None]],
    ) -> None:
        """Let the model think before the turn's first step. A model that has no words for it acts
        without.
        """
        try:
            reply = await self._next_reply(models, memory, None, timing, may_spend)
        except ModelError as error:
            if error.kind != "invalid":
                raise
            log.warning("thought_nothing", error=str(error))
            return
        found = thoughts(reply, journal.turn_id)
        if found is not None:
            memory.extend(await _record(journal, [found], reply, timing))
        elif reply.usage is not None:
            timing.lost.append(Spent(usage=reply.usage))

    async def _call_tools(
        self,
        tools: Tools,
        calls: Sequence[ToolCall],
        journal: Journal,
        memory: WorkingMemory,
        step: int,
        timing: Timing,
    ) -> None:
        """Run the tools of one step; each result is recorded as it comes, so that a turn that is
        cut off keeps those that it has.

        Raise TurnParked, after all others have ended, when one of them waits for people.
        """
        started = self.clock.monotonic()
        spent, waits = 0, False
        try:
            async with aclosing(run_calls(tools, calls)) as batches:
                async for ended in batches:
                    waits = waits or any(seen is None for _, seen in ended)
                    results: list[Entry] = []
                    for call, seen in ended:
                        if seen is not None:
                            so_far = [*memory.entries, *results] if seen.is_error else ()
                            results.append(_result(call, journal.turn_id, step, seen, so_far))
                    effects = [one for _, seen in ended if seen is not None for one in seen.effects]
                    kept = [await memory.kept_result(result, spent) for result in results]
                    spent += sum(len(result.text) for result in kept)
                    if kept:
                        memory.extend(await journal.record(kept, effects=effects))
        finally:
            timing.tools_ms += since(self.clock, started)
        if waits:
            raise TurnParked

    async def _settle_calls(
        self, tools: Tools, journal: Journal, memory: WorkingMemory, timing: Timing
    ) -> None:
        """Give the calls of a resumed turn their results: what people were asked about is called
        again, what a killed worker left open is not.
        """
        waiting = open_calls(memory.entries, journal.turn_id)
        cut_off = [call for call in waiting if call.seq not in journal.asked]
        if cut_off:
            memory.extend(await journal.record(interrupted(cut_off), is_progress=False))
        if calls := _calls([call for call in waiting if call.seq in journal.asked]):
            step = max(call.step for call in waiting)
            with step_span(step):
                await self._call_tools(tools, calls, journal, memory, step, timing)


def _ends_silently(entries: Sequence[Entry]) -> bool:
    """Whether the newest thing that happened is that the agent chose to say nothing."""
    newest = takewhile(lambda entry: entry.kind is EntryKind.TOOL_RESULT, reversed(entries))
    return any(entry.tool == SAY_NOTHING and not entry.is_error for entry in newest)


async def _record(
    journal: Journal, entries: Sequence[Entry], reply: ModelReply, timing: Timing
) -> list[Entry]:
    """Record a step; of one that a stop keeps out of the history, what it cost stays."""
    try:
        return await journal.record(entries)
    except TurnStopped:
        if reply.usage is not None:
            timing.lost.append(Spent(usage=reply.usage))
        raise


def _show(reporter: Reporter, texts: Sequence[str], text: str) -> None:
    """Show the reply so far: the texts of earlier steps, and what there is of this one's."""
    reporter.text("\n\n".join([*texts, text]))


def _step_entries(reply: ModelReply, turn_id: str, step: int) -> list[Entry]:
    """A model's reply as history entries; the usage stands at the first of them."""
    entries = []
    if reply.thinking or reply.signature:
        entries.append(
            Entry(
                kind=EntryKind.THINKING,
                text=reply.thinking,
                signature=reply.signature,
                turn_id=turn_id,
                step=step,
            )
        )
    if reply.text or not reply.tool_calls:
        entries.append(
            Entry(
                kind=EntryKind.ASSISTANT,
                text=reply.text,
                turn_id=turn_id,
                step=step,
                usage=reply.usage,
            )
        )
    entries += [
        Entry(
            kind=EntryKind.TOOL_CALL,
            call_id=call.call_id,
            tool=call.tool,
            arguments=call.arguments,
            turn_id=turn_id,
            step=step,
            usage=None if reply.text or number else reply.usage,
        )
        for number, call in enumerate(reply.tool_calls)
    ]
    return entries


def _result(
    call: ToolCall, turn_id: str, step: int, seen: Observation, earlier: Sequence[Entry]
) -> Entry:
    """An observation as it stands in the history, after `earlier` entries."""
    return Entry(
        kind=EntryKind.TOOL_RESULT,
        call_id=call.call_id,
        tool=call.tool,
        text=seen.text + (reminder(call, earlier) if seen.is_error else ""),
        is_error=seen.is_error,
        turn_id=turn_id,
        step=step,
    )


def _calls(recorded: Sequence[Entry]) -> list[ToolCall]:
    """The tool calls among entries, under the numbers that they have in the history."""
    return [
        ToolCall(call_id=entry.call_id, tool=entry.tool, arguments=entry.arguments, seq=entry.seq)
        for entry in recorded
        if entry.kind is EntryKind.TOOL_CALL
    ]


def _progress(calls: Sequence[ToolCall]) -> str:
    """One line, at most 200 characters, about the tools that run."""
    names = [f"{call.tool} {' '.join(call.arguments.split())}" for call in calls]
    line = " · ".join(names)
    return line if len(line) <= 200 else line[:199] + "…"
