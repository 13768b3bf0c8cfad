"""The figures of the harness can be taken. How good they are is no test."""

import asyncio
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


async def test_a_run_compares_a_plain_question_with_and_without_the_harness(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.harness", "--rounds", "2", "--json", str(figures)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert "With the whole harness" in output.decode()
    found = json.loads(await asyncio.to_thread(figures.read_text))
    assert [one["name"] for one in found] == ["nothing", "everything"]
    assert [one["questions"] for one in found] == [24, 24]
    assert all(one["took_ms"] > 0 and one["memory_mb"] > 0 for one in found)
