"""The figures about many sessions can be taken. How good they are is no test."""

import asyncio
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


async def test_a_run_measures_lists_starts_transcripts_and_memory(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.sessions", "--sessions", "30", "--warm", "3"),
        *("--json", str(figures)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert "30 sessions of 10 entries" in output.decode()
    told = json.loads(await asyncio.to_thread(figures.read_text))
    found = {figure["name"]: figure["value"] for figure in told["figures"]}
    assert {"list, the newest 50", "totals", "memory per warm session"} <= found.keys()
    assert found["memory per warm session"] > 0
