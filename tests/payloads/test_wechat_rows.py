"""The recorded WeChat and WeCom rows, through the command, and what they cannot tell."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROWS = HERE / "wechat.jsonl"
ROOT = HERE.parent.parent


async def output_of(*command: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_no_row_fails(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    code, lines = await output_of("-m", "tests.payloads", "wechat", str(ROWS))
    assert code == 0
    await asyncio.to_thread(results.write_text, lines)
    code, verdict = await output_of(str(HERE / "score.py"), str(ROWS), str(results))
    assert (code, verdict) == (0, "90 pass, 0 by policy, 0 fail of 90\n")
