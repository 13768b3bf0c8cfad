"""Reading the config again while clawbot runs: what may change then, and when it is looked at.

Each process looks at the file by itself, so that it is the same for a daemon, for units of their
own and on several hosts. A file that cannot be used changes nothing. What may not change at run
time stays as it was when the process began, and is told to the admin.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path

import structlog
from pydantic import BaseModel

from clawbot.config import ChannelConfig, Config, load_config
from clawbot.errors import ConfigError
from clawbot.file_stamp import FileStamp, stamp_of
from clawbot.ports import Clock

log = structlog.get_logger(__name__)

LOOK_S = 1.0
SHOWN_PROBLEMS = 3

IN_GENERAL = ("owners", "instructions")
OF_TOOLS = ("offered", "rules", "ask_dangerous")
OF_BUDGETS = ("session", "user_day", "day")
OF_CHANNELS = ("instructions", "tools")
OF_POLICIES = ("allow", "mention", "follow_threads", "bots", "max_bot_turns")

_UNNAMED = frozenset({"policy", "adapter_config"})
"""Fields of a channel that are no section of their own in the file."""
_ELSEWHERE = frozenset({"pools"})
"""Keys that the command line may have set instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What a changed file comes to. config: what counts from now on; changed: the keys that do;
    waiting: the keys whose change counts from the next start on.
    """

    config: Config
    changed: tuple[str, ...]
    waiting: tuple[str, ...]


def reloaded(current: Config, read: Config) -> Reloaded:
    """Take over what may change at run time."""
    channels = {
        name: _channel(one, read.channels[name]) if name in read.channels else one
        for name, one in current.channels.items()
    }
    merged = current.model_copy(
        update={
            **_of(read, IN_GENERAL),
            "tools": current.tools.model_copy(update=_of(read.tools, OF_TOOLS)),
            "budgets": current.budgets.model_copy(update=_of(read.budgets, OF_BUDGETS)),
            "channels": channels,
        }
    )
    waiting = [path for path in differences(merged, read) if path not in _ELSEWHERE]
    changed = differences(current, merged)
    return Reloaded(config=merged, changed=tuple(changed), waiting=tuple(waiting))


def _of(section: object, names: tuple[str, ...]) -> dict[str, object]:
    return {name: getattr(section, name) for name in names}


def _channel(current: ChannelConfig, read: ChannelConfig) -> ChannelConfig:
    policy = replace(current.policy, **_of(read.policy, OF_POLICIES))  # type: ignore[arg-type]
    return replace(current, policy=policy, **_of(read, OF_CHANNELS))  # type: ignore[arg-type]


def differences(one: object, other: object, path: str = "") -> list[str]:
    """The keys, as `tools.rules`, whose values differ between two sections of one kind."""
    if type(one) is not type(other):
        return [path]
    parts = _parts(one), _parts(other)
    if parts[0] is None or parts[1] is None:
        return [] if one == other else [path]
    found = []
    for name in dict.fromkeys((*parts[0], *parts[1])):
        here = path if name in _UNNAMED else f"{path}.{name}".lstrip(".")
        if name not in parts[0] or name not in parts[1]:
            found.append(here)
        else:
            found += differences(parts[0][name], parts[1][name], here)
    return list(dict.fromkeys(found))


def _parts(value: object) -> Mapping[str, object] | None:
    """The keys of a section; None for what is a value of its own."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, dict):
        return value
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    return None


class ConfigWatch:
    """Looks at a config file, and hands on what changed in it."""

    def __init__(self, config: Config, clock: Clock, apply: Callable[[Config], None]) -> None:
        self._current = config
        self._clock = clock
        self._apply = apply
        self._trouble = ""

    def facts(self) -> Mapping[str, str]:
        """What `status` is to show: that the file is bad, or changed where only a start helps."""
        return {"config": self._trouble} if self._trouble else {}

    async def run(self, file: Path) -> None:
        """Look until cancelled. A file counts once it stays the same from one look to the next: who
        saves it may be writing still.
        """
        known = seen = self._current.stamp
        while True:
            await self._clock.sleep(LOOK_S)
            found = await asyncio.to_thread(stamp_now, file)
            if found == known or found != seen:
                seen = found
                continue
            if await self._read(file, found):
                known = found

    async def _read(self, file: Path, seen: FileStamp | None) -> bool:
        """Take the file over, or tell why not; False when it changed meanwhile."""
        try:
            read = await asyncio.to_thread(load_config, file)
        except ConfigError as error:
            if await asyncio.to_thread(stamp_now, file) != seen:
                return False
            problems = "; ".join(error.problems[:SHOWN_PROBLEMS])
            self._trouble = f"is bad, so that what was read before stays: {problems}"
            log.error("config_not_reloaded", problems=error.problems)  # noqa: TRY400 no trace
            return True
        if read.stamp != seen or await asyncio.to_thread(stamp_now, file) != seen:
            return False
        became = reloaded(self._current, read)
        self._apply(became.config)
        self._current = became.config
        self._trouble = ""
        log.info("config_reloaded", changed=became.changed)
        if became.waiting:
            self._trouble = f"changed, and needs a restart for: {', '.join(became.waiting)}"
            log.warning("config_needs_restart", keys=became.waiting)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMending:
    """Tells when a config file was changed; a `supervisor.Mending`."""

    file: Path
    clock: Clock

    async def mark(self) -> object:
        """See `supervisor.Mending`."""
        return await asyncio.to_thread(stamp_now, self.file)

    async def differs(self, mark: object) -> None:
        """See `supervisor.Mending`; what is being written still does not count."""
        seen = mark
        while True:
            await self.clock.sleep(LOOK_S)
            found = await self.mark()
            if found != mark and found == seen:
                return
            seen = found


def stamp_now(file: Path) -> FileStamp | None:
    """What a file is known again by; None = it cannot be read."""
    try:
        return stamp_of(file)
    except OSError:
        return None


@asynccontextmanager
async def watching(
    config: Config, clock: Clock, apply: Callable[[Config], None]
) -> AsyncIterator[ConfigWatch]:
    """Hand on what changes in the file of a config, as long as the context lasts.

    apply: called in the event loop with the whole config as it counts from then on; it must not
    fail.
    """
    watch = ConfigWatch(config, clock, apply)
    if config.file is None:
        yield watch
        return
    looking = asyncio.create_task(watch.run(config.file), name="config")
    try:
        yield watch
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
