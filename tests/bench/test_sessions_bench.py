"""The figures about many sessions can be taken. How good they are is no test."""

import asyncio
import json
from pathlib import Path

from tests.bench.commands import run_bench


async def test_a_run_measures_lists_starts_transcripts_and_memory(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    output, _ = await run_bench(
        "tests.bench.sessions",
        *("--sessions", "30", "--warm", "3"),
        *("--json", str(figures)),
    )
    assert "30 sessions of 10 entries" in output
    told = json.loads(await asyncio.to_thread(figures.read_text))
    found = {figure["name"]: figure["value"] for figure in told["figures"]}
    assert {"list, the newest 50", "totals", "memory per warm session"} <= found.keys()
    assert found["memory per warm session"] > 0
