"""Commands end when they are ended, also where something that got away holds their output open."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from clawbot.tools import commands
from tests.unit.tools.ground import until

ESCAPING = 'setsid sh -c \'echo $$ > "$0.part" && mv "$0.part" "$0" && exec sleep 600\' "$0" & wait'


async def test_the_end_of_a_process_is_seen_though_its_output_is_held_open(tmp_path: Path) -> None:
    note = tmp_path / "escaped"
    process = await commands.start(
        ["sh", "-c", ESCAPING, str(note)], cwd=None, env={"PATH": os.defpath}
    )
    await until(lambda: asyncio.to_thread(note.exists), bool)
    escaped = int(await asyncio.to_thread(note.read_text))
    try:
        commands.kill_group(process.pid)
        async with asyncio.timeout(60):
            assert await commands.code_of(process) == -signal.SIGKILL
        os.kill(escaped, 0)  # it lives, and holds the pipe
    finally:
        os.kill(escaped, signal.SIGKILL)
