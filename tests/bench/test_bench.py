"""`make bench` runs, compares both subjects and loses nothing. How fast they are is no test."""

import asyncio
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


async def test_a_run_compares_both_and_finds_every_message_stored(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench", "--people", "2", "--messages", "8"),
        *("--rounds", "1", "--json", str(figures)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (0, "")
    assert "14 of 14 messages stand in the store as answered" in output.decode()
    told = json.loads(await asyncio.to_thread(figures.read_text))
    (level,) = told["levels"]
    assert [level[name]["messages"] for name in ("bare", "clawbot")] == [8, 8]
    assert level["ratio"] > 0
    assert told["environment"]["sync_ms"] > 0
