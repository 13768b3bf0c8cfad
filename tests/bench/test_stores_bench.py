"""The figures of the stores can be taken. How good they are is no test."""

import pytest

from tests.bench.commands import run_bench


@pytest.mark.timeout(300)  # two servers, a bare pipeline and a worker for each store are started
async def test_a_run_measures_both_stores() -> None:
    output, _ = await run_bench(
        "tests.bench.stores",
        *("--sessions", "1", "12", "--workers", "1"),
        *("--one-by-one", "10", "--flood", "4"),
    )
    lines = output.splitlines()
    # Two levels of each, and a flood; two levels of the bare pipeline.
    assert sum("SQLite" in line for line in lines) == 3
    assert sum("PostgreSQL" in line for line in lines) == 3
    assert sum("bare" in line for line in lines) == 2
