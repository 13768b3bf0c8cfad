"""`make demo`, as a newcomer runs it."""

import asyncio
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


async def test_the_demo_shows_everybody_answered_in_their_own_place() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.demo"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (0, "")
    direct, general, ops = output.decode().split("\n── ")[1:]
    assert direct.startswith("alice and the bot")
    assert "clawbot:  I looked, and found this:" in direct
    assert (
        "│     bob:      and how do we roll back?\n  │     clawbot:  Run `make rollback`" in general
    )
    assert "│     clawbot:  Idle." in general
    assert "│     clawbot:  Carol was; she said so here." in ops
    assert "database" not in direct + general
