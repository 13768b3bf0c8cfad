"""Waiting for what other processes do."""

import asyncio
from collections.abc import Callable
from pathlib import Path


async def eventually(happened: Callable[[], bool]) -> None:
    """Wait for a state, looked at often; the test's own time-out is the bound."""
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 other processes set no event here
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
