"""The figures of the harness can be taken. How good they are is no test."""

import asyncio
import json
from pathlib import Path

from tests.bench.commands import run_bench


async def test_a_run_compares_a_plain_question_with_and_without_the_harness(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    output, _ = await run_bench(
        "tests.bench.harness",
        *("--rounds", "2", "--json", str(figures)),
    )
    assert "With the whole harness" in output
    found = json.loads(await asyncio.to_thread(figures.read_text))
    assert [one["name"] for one in found] == ["nothing", "everything"]
    assert [one["questions"] for one in found] == [24, 24]
    assert all(one["took_ms"] > 0 and one["memory_mb"] > 0 for one in found)
