"""The tools of each channel's sessions, also those that come and go while the worker runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from clawbot.ports import Tool
from clawbot.tools.registry import ToolRegistry


class MoreTools(Protocol):
    """Tools that come and go while the worker runs. generation: grows whenever they are others."""

    generation: int

    @property
    def tools(self) -> Sequence[Tool]:
        """Those that there are now."""
        ...

    def facts(self) -> Mapping[str, str]:
        """What `status` is to show of them."""
        ...


class ToolSets:
    """The tools of sessions: those of most, and of channels that have others."""

    def __init__(
        self,
        choose: Callable[[Sequence[str], Sequence[Tool]], ToolRegistry],
        offered: Sequence[str],
        of_channels: Mapping[str, Sequence[str]],
        more: MoreTools | None = None,
    ) -> None:
        self._choose = choose
        self._offered = offered
        self._of_channels = of_channels
        self._more = more
        self._made: dict[str, ToolRegistry] = {}
        self._generation = -1

    @property
    def general(self) -> ToolRegistry:
        """The tools of most sessions."""
        return self.of("")

    def of(self, channel: str) -> ToolRegistry:
        """The tools of a channel's sessions now: the same object until they are others."""
        more = self._more
        generation = 0 if more is None else more.generation
        if generation != self._generation:
            self._made, self._generation = {}, generation
        name = channel if channel in self._of_channels else ""
        if name not in self._made:
            patterns = self._of_channels.get(name, self._offered)
            self._made[name] = self._choose(patterns, () if more is None else more.tools)
        return self._made[name]

    def change(self, offered: Sequence[str], of_channels: Mapping[str, Sequence[str]]) -> None:
        """Offer these from the next turn on."""
        self._offered, self._of_channels = offered, of_channels
        self._made = {}

    def facts(self) -> Mapping[str, str]:
        """What `status` is to show: the tools that do not work."""
        return {} if self._more is None else self._more.facts()
