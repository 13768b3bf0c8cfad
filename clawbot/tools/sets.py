"""The tools of each channel's sessions, also those that come and go while the worker runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol, runtime_checkable

from clawbot.ports import Tool
from clawbot.session_key import SessionKey
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


@runtime_checkable
class OfSessions(Protocol):
    """A tool that not all sessions have; `sessions` are patterns of their keys."""

    sessions: Sequence[str]


def is_for(tool: Tool, session: SessionKey) -> bool:
    """Whether a session has the tool: its key, or that of what it belongs to, fits a pattern."""
    found: object = tool
    if not isinstance(found, OfSessions):
        return True
    names = {str(session), str(session.base), session.chat}
    return any(fnmatchcase(name, pattern) for pattern in found.sessions for name in names)


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
        self._made: dict[tuple[str, ...], ToolRegistry] = {}
        self._generation = -1

    @property
    def general(self) -> ToolRegistry:
        """The tools of most sessions."""
        return self.of("", None)

    def of(self, channel: str, session: SessionKey | None) -> ToolRegistry:
        """The tools of a session in a channel now, None = of any: the same object for all sessions
        that have the same ones, until they are others.
        """
        more = self._more
        generation = 0 if more is None else more.generation
        if generation != self._generation:
            self._made, self._generation = {}, generation
        name = channel if channel in self._of_channels else ""
        tools = [] if more is None else more.tools
        others = [tool for tool in tools if session is None or is_for(tool, session)]
        which = (name, *(tool.name for tool in others))
        if which not in self._made:
            self._made[which] = self._choose(self._of_channels.get(name, self._offered), others)
        return self._made[which]

    def change(self, offered: Sequence[str], of_channels: Mapping[str, Sequence[str]]) -> None:
        """Offer these from the next turn on."""
        self._offered, self._of_channels = offered, of_channels
        self._made = {}

    def facts(self) -> Mapping[str, str]:
        """What `status` is to show: the tools that do not work."""
        return {} if self._more is None else self._more.facts()
