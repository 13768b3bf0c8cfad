"""Which tools a worker offers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager

from clawbot.config import Config
from clawbot.ports import Clock, Tool
from clawbot.tools.edit_file import EditFile
from clawbot.tools.glob import Glob
from clawbot.tools.grep import Grep
from clawbot.tools.list_dir import ListDir
from clawbot.tools.read_file import ReadFile
from clawbot.tools.registry import ToolLimits, ToolRegistry
from clawbot.tools.send_file import SendFile
from clawbot.tools.write_file import WriteFile

MOST_RESULT_CHARS = 32_000_000
SEARCH_THREADS = 4
"""Searches of all sessions share these; a long one holds up other searches and nothing else."""


@asynccontextmanager
async def open_tools(
    config: Config, clock: Clock, more_tools: Sequence[Tool] = ()
) -> AsyncIterator[ToolRegistry]:
    """The tools of a worker; leaving waits for none that still runs."""
    threads = ThreadPoolExecutor(SEARCH_THREADS, thread_name_prefix="search")
    # What of a result the history holds is the working memory's to say.
    limits = ToolLimits(result_chars=MOST_RESULT_CHARS, at_once=config.tools.at_once)
    try:
        files = _files(clock, threads)
        tools = [*files, SendFile(max_bytes=config.limits.file_bytes), *more_tools]
        yield ToolRegistry(tools, clock=clock, limits=limits)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _files(clock: Clock, threads: Executor) -> list[Tool]:
    return [
        ReadFile(),
        ListDir(),
        Glob(threads),
        Grep(threads, clock),
        WriteFile(),
        EditFile(),
    ]
