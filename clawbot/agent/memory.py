"""Working memory: makes each request of one turn from its session's history, and learns from it.

What a request holds is chosen by `agent.window`; here its room is worked out: the model's window
less the output, the fixed part (rules, documents, summary, tools) and what is known of how the
model's tokens compare with ours. That factor is data of the model, then learned for the session
from what the provider reports: up at once, down slowly. A provider that refuses a request as too
long although it should fit is asked again with less, a few times at most and only with progress.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import structlog

from clawbot.agent.masks import cut_to, path_of
from clawbot.agent.model_sizes import GREATEST_FACTOR, LEAST_FACTOR, ModelSize
from clawbot.agent.prompt import for_request, summary_text
from clawbot.agent.saved import SavedTexts
from clawbot.agent.tokens import TokenCounter, byte_bound, estimate
from clawbot.agent.weights import Weights, around_tools, tools_text
from clawbot.agent.window import Fitted, Room, TooLarge, fit
from clawbot.errors import ModelError
from clawbot.history import Entry, ModelRequest, ToolSpec, Usage
from clawbot.recollection import MemoryState, Reach, Recollection, Summary

log = structlog.get_logger(__name__)

SMALLER_TRIES = 2
"""How often a refused request is made smaller before the turn fails."""

_SMALLER = 0.7
_SLOWLY = 0.1
_AHEAD = 1.02  # a factor that has risen is taken a little higher
_LEAST_LEARNED_FROM = 1_000
_LEAST_ROOM = 256
_AROUND_ALL = 64
_OUTPUT_PART = 4  # of the window that the output may take at most
_SUMMARY_PART = 8
_MORE_ROOM = 1.25  # from which on a summary that was made for less room may not be needed
_STEP_RESULTS = 3  # times the bound of one result, for all of a step
_LEAST_RESULT_CHARS = 2_000
# What is chosen from more than this is chosen in a thread: the loop must not wait for it.
_INLINE_CHARS, _INLINE_ENTRIES = 32_768, 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """What stands in every request: our rules, and documents (global ones, or a task's seed).

    notes: what must be true at each request, such as how far a plan is; asked for anew each time.
    """

    rules: str
    documents: str = ""
    notes: Callable[[], Awaitable[str]] | None = None

    def system(self, summary: str = "", notes: str = "") -> str:
        """The system prompt of a request; what changes more often stands further behind."""
        parts = (self.rules, self.documents, notes, summary)
        return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryModel:
    """The model that requests are for. sends_thinking: whether it is sent its earlier thinking."""

    name: str
    size: ModelSize
    sends_thinking: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    """Bounds of a request; see the config section `turns`."""

    history_messages: int
    max_output_tokens: int
    result_chars: int
    temperature: float | None = None
    thinking: str | None = None


def reach_of(model: MemoryModel, limits: MemoryLimits) -> Reach:
    """How much history to load: what could fit if each token were 8 characters long."""
    return Reach(messages=limits.history_messages, chars=8 * model.size.window_tokens)


class WorkingMemory:
    """The working memory of one turn.

    entries: the history as far as it was loaded. room_tokens: how many counted tokens of history
    fit.
    """

    def __init__(
        self,
        recollection: Recollection,
        *,
        turn_id: str,
        pinned: Pinned,
        tools: tuple[ToolSpec, ...],
        model: MemoryModel,
        limits: MemoryLimits,
        counter: TokenCounter,
        saved: SavedTexts,
    ) -> None:
        state = recollection.state
        if state is None or state.model != model.name:
            state = MemoryState(model=model.name)
        self.entries = list(recollection.entries)
        self.state = state
        self.room_tokens = 0
        self._fold_through = 0
        self._turn_id = turn_id
        self._pinned = pinned
        self._notes = ""
        self._tools = tools
        self._tools_text = tools_text(tools)
        self._model = model
        self._limits = limits
        self._counter = counter
        self._saved = saved
        self._summary = recollection.summary
        self._weights = Weights(
            counter.count, most=model.size.window_tokens, sends_thinking=model.sends_thinking
        )
        self._newest: _Choice | None = None
        self._refused: list[int] = []

    def extend(self, entries: Sequence[Entry]) -> None:
        """Add what was recorded."""
        self.entries += entries

    @property
    def fold_through(self) -> int:
        """Up to which entry the history should be summarised by now; 0 = as it is."""
        known = 0 if self._summary is None else self._summary.through_seq
        return self._fold_through if self._fold_through > known else 0

    async def request(self) -> ModelRequest:
        """The request for the turn's next step. Raise ModelError when nothing can be sent."""
        if self._pinned.notes is not None:
            self._notes = await self._pinned.notes()
        chars = sum(len(entry.text) + len(entry.arguments) for entry in self.entries)
        chars += len(self._pinned.rules) + len(self._pinned.documents) + len(self._tools_text)
        chars += len(self._notes)
        if chars <= _INLINE_CHARS and len(self.entries) <= _INLINE_ENTRIES:
            choice = self._choose()
        else:
            choice = await self._counter.in_thread(self._choose)
        await self._saved.keep(choice.fitted.saves)
        self._note(choice)
        return ModelRequest(
            system=choice.system,
            entries=for_request(choice.fitted.entries),
            tools=self._tools,
            max_output_tokens=self._output(),
            temperature=self._limits.temperature,
            thinking=self._limits.thinking,
        )

    async def kept_result(self, result: Entry, spent: int) -> Entry:
        """A tool result as it is recorded: what is too long for a history is saved beside it.

        spent: how many characters the other results of the same step have taken so far.
        """
        most = self._limits.result_chars
        left = max(most * _STEP_RESULTS - spent, min(most, _LEAST_RESULT_CHARS))
        if len(result.text) <= min(most, left):
            return result
        path = await self._counter.in_thread(partial(path_of, result.text))
        is_saved = await self._saved.keep({path: result.text})
        shown = cut_to(result.text, min(most, left), path=path if is_saved else None)
        return replace(result, text=shown)

    def learn(self, usage: Usage | None) -> None:
        """Compare the newest request with what the provider reports of it."""
        choice = self._newest
        if choice is None or not choice.fitted.is_counted or choice.tokens < _LEAST_LEARNED_FROM:
            return
        reported = 0 if usage is None else usage.input_tokens
        if not reported and self._refused:
            reported = self._inputs()  # as if this had been the most that it takes
        if not reported:
            return
        found = min(max(reported / choice.tokens, LEAST_FACTOR), GREATEST_FACTOR)
        known = self._factor()
        if found > known:
            factor = min(found * _AHEAD, GREATEST_FACTOR)
        else:
            factor = known + (found - known) * _SLOWLY
        self.state = replace(self.state, factor=round(factor, 4))
        if self._refused:
            self._learn_window(self._refused[-1] * found)
            self._refused.clear()

    def shrink(self) -> bool:
        """Make the next request smaller, after the provider refused the newest one as too long.

        False when that was done often enough, or the last time brought nothing.
        """
        if self._newest is None or len(self._refused) >= SMALLER_TRIES:
            return False
        tokens = self._newest.tokens
        if self._refused and tokens >= self._refused[-1]:
            return False
        self._refused.append(tokens)
        log.warning("request_refused_as_too_long", model=self._model.name, tokens=tokens)
        return True

    # -- choosing ----------------------------------------------------------------------------------

    def _choose(self) -> _Choice:
        """Fit the history into its room; blocks as long as counting takes."""
        summary = self._summary
        if summary is None:
            return self._fit(None, self.state.kept_from)
        if self._room("", estimate) >= summary.for_tokens * _MORE_ROOM:
            choice = self._fit(None, 0)
            if choice.fitted.is_whole:
                return choice
        return self._fit(summary, self.state.kept_from)

    def _fit(self, summary: Summary | None, kept_from: int) -> _Choice:
        shown, entries = "", self.entries
        if summary is not None:
            shown = summary_text(summary.text, most_chars=self._inputs() // _SUMMARY_PART * 3)
            entries = [entry for entry in entries if self._stands_after(entry, summary.through_seq)]
        system = self._pinned.system(shown, self._notes)
        fixed_bound = byte_bound(system) + byte_bound(self._tools_text) + self._around()
        surely = -1 if self._refused else self._inputs() - fixed_bound
        is_sure = self._weights.bound(entries) <= surely
        measure = cache(estimate) if is_sure else self._weights.text
        room = Room(
            turn_id=self._turn_id,
            tokens=self._room(shown, measure),
            surely=surely,
            messages=self._limits.history_messages,
            kept_from=kept_from,
        )
        if room.tokens < _LEAST_ROOM and not is_sure:
            raise self._no_room(system)
        try:
            fitted = fit(entries, room, self._weights)
        except TooLarge as error:
            raise ModelError(f"model {self._model.name}: {error}", kind="overflow") from error
        return _Choice(
            system=system,
            fixed=measure(system) + measure(self._tools_text) + self._around(),
            room=room.tokens,
            fitted=fitted,
            budget=self._budget(shown, fitted, measure),
        )

    def _stands_after(self, entry: Entry, seq: int) -> bool:
        return entry.seq > seq or entry.turn_id == self._turn_id

    def _room(self, summary: str, measure: Callable[[str], int]) -> int:
        """How many counted tokens of history fit."""
        system = self._pinned.system(summary, self._notes)
        fixed = measure(system) + measure(self._tools_text) + self._around()
        room = int(self._inputs() / self._factor()) - fixed
        if self._refused:
            room = min(room, int(self._refused[-1] * _SMALLER) - fixed)
        return room

    def _inputs(self) -> int:
        """The model's own tokens for all that is sent."""
        return self._window() - self._output()

    def _window(self) -> int:
        known = self._model.size.window_tokens
        return min(self.state.window_tokens or known, known)

    def _output(self) -> int:
        return min(self._limits.max_output_tokens, max(1, self._window() // _OUTPUT_PART))

    def _factor(self) -> float:
        return self.state.factor or self._model.size.factor

    def _around(self) -> int:
        return _AROUND_ALL + around_tools(self._tools)

    def _no_room(self, system: str) -> ModelError:
        if self._refused:
            return ModelError(
                f"model {self._model.name}: refuses what little is left", kind="overflow"
            )
        fixed = self._weights.text(system) + self._weights.text(self._tools_text) + self._around()
        return ModelError(
            f"model {self._model.name}: rules, documents, summary and tools take about "
            f"{round(fixed * self._factor()):,} of {self._inputs():,} tokens, and no conversation "
            "fits beside them; shorten `instructions`, `context` or the task's document, or set "
            "the provider's `context_tokens` if the model takes more",
            kind="no_room",
        )

    # -- what is noted -----------------------------------------------------------------------------

    def _note(self, choice: _Choice) -> None:
        fitted = choice.fitted
        self._newest = choice
        self.state = replace(self.state, kept_from=fitted.kept_from, budget=choice.budget)
        self._fold_through = max(fitted.fold_through, fitted.kept_from - 1)
        self.room_tokens = choice.room
        if fitted.tier:
            log.info("memory_tight", tier=fitted.tier, tokens=choice.tokens)

    def _learn_window(self, refused_tokens: float) -> None:
        """Where the factor does not explain a refusal, the window is smaller than it is said to
        be.
        """
        if refused_tokens <= self._inputs():
            window = int(refused_tokens * 0.95) + self._output()
            log.warning("window_is_smaller", model=self._model.name, window_tokens=window)
            self.state = replace(self.state, window_tokens=window)

    def _budget(
        self, summary: str, fitted: Fitted, measure: Callable[[str], int]
    ) -> Mapping[str, int]:
        """The request by part, in the model's tokens."""
        parts = {
            "rules": measure(self._pinned.rules) + measure(self._notes),
            "documents": measure(self._pinned.documents),
            "summary": measure(summary),
            "tools": measure(self._tools_text) + around_tools(self._tools),
            "earlier": fitted.tokens - fitted.turn_tokens,
            "turn": fitted.turn_tokens,
        }
        sized = {name: round(tokens * self._factor()) for name, tokens in parts.items()}
        return {**sized, "output": self._output(), "window": self._window()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A request before it is put into words.

    fixed: the weight of all but the history. room: what the history could have had.
    """

    system: str
    fixed: int
    room: int
    fitted: Fitted
    budget: Mapping[str, int]

    @property
    def tokens(self) -> int:
        """The weight of the whole request, as it was measured."""
        return self.fixed + self.fitted.tokens
