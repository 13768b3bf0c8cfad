"""The tools that exist, and the one way to call them.

Whatever goes wrong in a tool becomes an observation that the model can act on; only cancellation
passes through. A registry is made once and serves all sessions: what belongs to a turn is bound to
it for that turn alone.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import structlog
from pydantic import BaseModel, ValidationError

from clawbot.errors import LeaseLost, ToolError, TurnParked, TurnStopped
from clawbot.history import ToolCall, ToolSpec
from clawbot.observation import Observation
from clawbot.ports import Clock, Tool, ToolContext, Writer
from clawbot.text import clean, head_and_tail
from clawbot.tools.arguments import describe_problems, describe_schema, schema_of
from clawbot.tools.hints import hint
from clawbot.tools.rules import AskedCall, Rules, question_of

log = structlog.get_logger(__name__)

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """Bounds of one call: its time, and the size of what the model is told of it; and how many
    calls of a step may run side by side.
    """

    timeout_s: float = 300.0
    result_chars: int = 50_000
    at_once: int = 8


@runtime_checkable
class Questioned(Protocol):
    """A context whose call people may have been asked about before."""

    @property
    def was_asked(self) -> bool:
        """Whether they were."""
        ...


@runtime_checkable
class Withholding(Protocol):
    """A context of a turn that does not have all tools."""

    withheld: frozenset[str]


@runtime_checkable
class Guarding(Protocol):
    """A context of a turn in which not every change may be made."""

    async def refusal(self, call: ToolCall) -> str | None:
        """Why a call of a tool that writes is not made; None = it may be."""
        ...


class ToolRegistry:
    """An unchangeable set of tools by name."""

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        clock: Clock,
        limits: ToolLimits,
        rules: Rules | None = None,
    ) -> None:
        known: dict[str, Tool] = {}
        for tool in tools:
            if not _NAME.fullmatch(tool.name):
                raise ValueError(f"tool {tool.name!r}: want a name like read_file")
            if tool.name in known:
                raise ValueError(f"tool {tool.name!r}: there are two of this name")
            known[tool.name] = tool
        self._tools: Mapping[str, Tool] = MappingProxyType(known)
        self._clock = clock
        self._limits = limits
        self._rules = rules
        self.specs = tuple(
            ToolSpec(name=name, description=tool.description, parameters=schema_of(tool.Args))
            for name, tool in self._tools.items()
        )

    @property
    def at_once(self) -> int:
        """How many calls of one step may run side by side."""
        return self._limits.at_once

    def writes(self, name: str) -> bool:
        """Whether a tool may change something."""
        tool: object = self._tools.get(name)
        return isinstance(tool, Writer) and tool.writes

    def only(self, names: Collection[str]) -> ToolRegistry:
        """Those tools that are named, under the same bounds and rules."""
        tools = [tool for name, tool in self._tools.items() if name in names]
        return ToolRegistry(tools, clock=self._clock, limits=self._limits, rules=self._rules)

    def bind(self, context: ToolContext) -> BoundTools:
        """The tools of one turn."""
        return BoundTools(self, context)

    async def call(self, call: ToolCall, context: ToolContext) -> Observation:
        """Run a call to its end, its time-out or its failure.

        Raise nothing but cancellation and what ends the turn: TurnParked when the tool asks people,
        TurnStopped or LeaseLost when it finds that it may not go on.
        """
        tool = self._tools.get(call.tool)
        if tool is None:
            return Observation(self._unknown(call.tool), is_error=True)
        try:
            args = _parse(tool, call.arguments)
            await self._judge(tool, args, context)
            text, is_error = await self._run(tool, args, context), False
        except ToolError as error:
            text, is_error = str(error) + hint(error.kind), True
        except (TurnParked, TurnStopped, LeaseLost):
            raise
        except Exception as error:  # noqa: BLE001  # a tool's fault must not end the turn
            text, is_error = _report_crash(tool, context, error), True
        text = head_and_tail(clean(text), self._limits.result_chars)
        return Observation(text, is_error, () if is_error else context.effects())

    async def _judge(self, tool: Tool, args: BaseModel, context: ToolContext) -> None:
        """Return if the call may be made. Raise ToolError, or TurnParked while people decide."""
        if self._rules is None:
            return
        asked = AskedCall(
            tool=tool.name,
            arguments=args,
            channel=context.channel,
            is_owner=context.is_owner,
            work_dirs=context.work_dirs,
        )
        judgement = self._rules.judge(asked)
        if judgement.verdict == "deny":
            reason = judgement.reason or "the rules of this clawbot do not allow it"
            raise ToolError(f"Not made: {reason}. Do not try to do the same in another way.")
        # What people say of a call counts also where the rules would not ask about it any more.
        was_asked = isinstance(context, Questioned) and context.was_asked
        if judgement.verdict == "ask" or was_asked:
            await context.ask(question_of(asked, judgement.reason))

    async def _run(self, tool: Tool, args: BaseModel, context: ToolContext) -> str:
        seconds = min(self._limits.timeout_s, context.deadline - self._clock.monotonic())
        try:
            async with asyncio.timeout(seconds) as bound:
                return await tool.run(args, context)
        except TimeoutError as error:
            if not bound.expired():
                raise  # the tool's own fault: some other wait of it timed out
            message = f"{tool.name} did not finish in {max(seconds, 0):.0f} s and was ended"
            raise ToolError(message, kind="timeout") from error

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._tools, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"There is no tool {name!r}.{hint} Tools: {', '.join(self._tools) or 'none'}."


class BoundTools:
    """The tools as one turn sees them."""

    def __init__(self, registry: ToolRegistry, context: ToolContext) -> None:
        self._registry = registry
        self._context = context
        withheld = context.withheld if isinstance(context, Withholding) else frozenset[str]()
        self.specs: tuple[ToolSpec, ...] = tuple(
            spec for spec in registry.specs if spec.name not in withheld
        )
        self.at_once = registry.at_once

    async def call(self, call: ToolCall) -> Observation:
        """See `ToolRegistry.call`."""
        if self.writes(call) and isinstance(self._context, Guarding):
            refusal = await self._context.refusal(call)
            if refusal is not None:
                return Observation(refusal, is_error=True)
        return await self._registry.call(call, self._context.for_call(call))

    def has(self, name: str) -> bool:
        """Whether a tool is offered."""
        return any(spec.name == name for spec in self.specs)

    def writes(self, call: ToolCall) -> bool:
        """See `ToolRegistry.writes`."""
        return self._registry.writes(call.tool)


def _parse(tool: Tool, text: str) -> BaseModel:
    """The arguments as the tool declares them, or a ToolError that tells the model how to call."""
    takes = f"\n{tool.name} takes {describe_schema(tool.Args)}"
    try:
        value = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        where = f"{error.msg} at character {error.pos}"
        raise ToolError(
            f"The arguments are not valid JSON: {where}.{takes}", kind="arguments"
        ) from error
    except (ValueError, RecursionError) as error:  # a number too long, or nested too deeply
        raise ToolError(f"The arguments cannot be read.{takes}", kind="arguments") from error
    if not isinstance(value, dict):
        raise ToolError(f"The arguments must be one JSON object.{takes}", kind="arguments")
    try:
        return tool.Args.model_validate(value)
    except ValidationError as error:
        raise ToolError(
            f"Wrong arguments: {describe_problems(error)}.{takes}", kind="arguments"
        ) from error


def _report_crash(tool: Tool, context: ToolContext, error: Exception) -> str:
    error_id = uuid.uuid4().hex[:8]
    log.error(
        "tool failed",
        action="tool_failed",
        tool=tool.name,
        session=str(context.session),
        error_id=error_id,
        exc_info=error,
    )
    return f"{tool.name} failed by a fault of its own (error {error_id}); it is in the log."
