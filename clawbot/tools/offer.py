"""Which tools a worker offers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase

import structlog

from clawbot.channels import load
from clawbot.config import Config
from clawbot.ports import Clock, Tool
from clawbot.tools.background import Background
from clawbot.tools.bash import Bash
from clawbot.tools.edit_file import EditFile
from clawbot.tools.glob import Glob
from clawbot.tools.grep import Grep
from clawbot.tools.list_dir import ListDir
from clawbot.tools.plan import PlanTool
from clawbot.tools.process import Process
from clawbot.tools.read_file import ReadFile
from clawbot.tools.read_skill import ReadSkill
from clawbot.tools.registry import ToolLimits, ToolRegistry
from clawbot.tools.rules import Rules
from clawbot.tools.sandbox import Sandbox, SandboxRules, Unconfined, find_sandbox
from clawbot.tools.say_nothing import SayNothing
from clawbot.tools.schedule import ScheduleTool
from clawbot.tools.send_file import SendFile
from clawbot.tools.sets import MoreTools, ToolSets
from clawbot.tools.start_task import StartTask
from clawbot.tools.subagent import SubagentTool
from clawbot.tools.web_fetch import FetchLimits, WebFetch, open_client
from clawbot.tools.write_file import WriteFile

log = structlog.get_logger(__name__)

CALL_S = 300.0
COMMAND_GRACE_S = 30.0
MOST_RESULT_CHARS = 32_000_000
SEARCH_THREADS = 4
"""Searches of all sessions share these; a long one holds up other searches and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The tools of a worker, and the rules for calling them."""

    tools: ToolSets
    rules: Rules

    def change(self, config: Config) -> None:
        """Go by what a config says now: of calls from the next one on, of tools from the next turn
        on.
        """
        section = config.tools
        self.rules.change(section.rules, ask_dangerous=section.ask_dangerous)
        self.tools.change(section.offered, _of_channels(config))


@asynccontextmanager
async def open_tools(
    config: Config, clock: Clock, more_tools: Sequence[Tool] = ()
) -> AsyncIterator[Offer]:
    """The tools of a worker; leaving ends what runs in the background."""
    section = config.tools
    # What of a result the history holds is the working memory's to say.
    limits = ToolLimits(
        timeout_s=max(
            CALL_S,
            section.command_timeout_s + COMMAND_GRACE_S,
            *(server.call_timeout_s + COMMAND_GRACE_S for server in config.mcp.values()),
        ),
        result_chars=MOST_RESULT_CHARS,
        at_once=section.at_once,
    )
    rules = Rules(section.rules, ask_dangerous=section.ask_dangerous)
    async with (
        _threads() as threads,
        _built_in(config, clock, threads) as built_in,
        _mcp_servers(config, clock) as servers,
    ):
        tools = [*built_in, *more_tools]

        def chosen(patterns: Sequence[str], more: Sequence[Tool]) -> ToolRegistry:
            all_tools = (*tools, *more)
            named = [one for one in all_tools if any(fnmatchcase(one.name, p) for p in patterns)]
            return ToolRegistry(named, clock=clock, limits=limits, rules=rules)

        tool_sets = ToolSets(chosen, section.offered, _of_channels(config), servers)
        yield Offer(tools=tool_sets, rules=rules)


def _of_channels(config: Config) -> dict[str, tuple[str, ...]]:
    """The tools of channels that have others than most."""
    return {
        name: channel.tools
        for name, channel in config.channels.items()
        if channel.tools is not None
    }


@asynccontextmanager
async def _threads() -> AsyncIterator[Executor]:
    """The threads for searches; leaving waits for none."""
    threads = ThreadPoolExecutor(SEARCH_THREADS, thread_name_prefix="search")
    try:
        yield threads
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


@asynccontextmanager
async def _built_in(
    config: Config, clock: Clock, threads: Executor
) -> AsyncIterator[Sequence[Tool]]:
    section = config.tools
    fetching = FetchLimits(
        timeout_s=section.fetch_timeout_s,
        max_bytes=section.fetch_bytes,
        private_hosts=section.fetch_private_hosts,
    )
    background = Background(clock, at_once=section.background_at_once, life_s=section.background_s)
    try:
        async with open_client(section.fetch_private_hosts) as client:
            yield [
                *_files(clock, threads),
                WebFetch(client, threads, fetching),
                SendFile(max_bytes=config.limits.file_bytes),
                ScheduleTool(),
                SayNothing(),
                PlanTool(),
                *([StartTask()] if config.tasks.at_once else []),
                *([SubagentTool()] if config.turns.subagent_steps else []),
                *await _commands(config, background),
            ]
    finally:
        await background.close()


@asynccontextmanager
async def _mcp_servers(config: Config, clock: Clock) -> AsyncIterator[MoreTools | None]:
    if not config.mcp:
        yield None
        return
    # The library takes a second to import: not on the event loop, and only where it is wanted.
    open_servers = await asyncio.to_thread(load, "clawbot.tools.mcp_servers:open_servers")
    async with open_servers(config.mcp, clock) as servers:
        yield servers


async def open_sandbox(config: Config) -> Sandbox | str:
    """Where this machine runs shell commands under the config, or why it runs none."""
    section = config.tools
    rules = SandboxRules(
        network=section.network,
        read_only_dirs=section.read_only_dirs,
        hidden=tuple(path for path in (config.state_dir, config.file) if path is not None),
        processes=section.command_processes,
        memory_bytes=section.command_memory_bytes,
        file_bytes=section.command_file_bytes,
    )
    return Unconfined(rules=rules) if section.sandbox == "none" else await find_sandbox(rules)


async def _commands(config: Config, background: Background) -> list[Tool]:
    """The tools that run shell commands, where commands can run."""
    section = config.tools
    sandbox = await open_sandbox(config)
    if isinstance(sandbox, str):
        log.warning("shell_commands_not_offered", action="sandbox_missing", reason=sandbox)
        return []
    if not sandbox.is_confined:
        log.warning(
            "shell_commands_run_without_a_sandbox",
            action="sandbox_none",
            note="they can read this clawbot's secrets and state; only owners may have them run",
        )
    return [Bash(sandbox, background, most_s=section.command_timeout_s), Process()]


def _files(clock: Clock, threads: Executor) -> list[Tool]:
    return [
        ReadFile(),
        ListDir(),
        Glob(threads),
        Grep(threads, clock),
        WriteFile(),
        EditFile(),
        ReadSkill(),
    ]
