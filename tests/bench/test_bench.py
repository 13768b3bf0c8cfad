"""`make bench` runs, compares its subjects and loses nothing. How fast they are is no test."""

import asyncio
import json
from pathlib import Path

from tests.bench.commands import run_bench


async def test_a_run_compares_all_and_finds_every_message_stored(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    output, errors = await run_bench(
        "tests.bench",
        *("--people", "2", "--messages", "8"),
        *("--rounds", "1", "--json", str(figures)),
    )
    assert errors == ""
    assert "14 of 14 messages stand in the store as answered" in output
    told = json.loads(await asyncio.to_thread(figures.read_text))
    (level,) = told["levels"]
    subjects = ("bare", "short", "tuned", "clawbot")
    assert [level[name]["messages"] for name in subjects] == [8, 8, 8, 8]
    assert level["ratio"] > 0
    assert set(level["ratios"]) == {"short", "tuned"}
    assert told["environment"]["sync_ms"] > 0
