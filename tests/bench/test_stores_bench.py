"""The figures of the stores can be taken. How good they are is no test."""

import asyncio
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.timeout(300)  # two servers, a bare pipeline and a worker for each store are started
async def test_a_run_measures_both_stores() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.stores", "--sessions", "1", "12", "--workers", "1"),
        *("--one-by-one", "10", "--flood", "4"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    lines = output.decode().splitlines()
    # Two levels of each, and a flood; two levels of the bare pipeline.
    assert sum("SQLite" in line for line in lines) == 3
    assert sum("PostgreSQL" in line for line in lines) == 3
    assert sum("bare" in line for line in lines) == 2
