"""Runs a benchmark as a person does, for the tests that it can be run."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


async def run_bench(module: str, *arguments: str) -> tuple[str, str]:
    """What a benchmark printed, and its errors; it must end with 0."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode(), errors.decode()
