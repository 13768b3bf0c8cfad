"""clawbot's own commands as real processes, to be killed at the worst moment."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

WAIT_S = 30.0


class Command:
    """One running `clawbot …`, its output in a file. copier: who carries it there from a pipe."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        output: Path,
        copier: asyncio.subprocess.Process | None = None,
    ) -> None:
        self.process = process
        self.output = output
        self._copier = copier

    async def kill(self) -> None:
        """End it at once, as a crash or the kernel would."""
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        """Ask it to end, and wait until it has drained."""
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        """Wait for its end; return the exit code."""
        async with asyncio.timeout(WAIT_S):
            return await self.process.wait()

    async def copied(self) -> None:
        """Wait until all that it and its children printed is in the file."""
        if self._copier is not None:
            async with asyncio.timeout(WAIT_S):
                await self._copier.wait()

    def text(self) -> str:
        """What it printed so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")


async def start(
    config: Path,
    *arguments: str,
    module: str = "clawbot",
    environ: Mapping[str, str] | None = None,
    piped: bool = False,
    prefix: Sequence[str] = (),
) -> Command:
    """Start `clawbot ARGUMENTS --config CONFIG`; whoever starts it must end it.

    module: another program with the same command line. environ: added to this process's own.
    piped: its output goes through a pipe, and is kept even where it may write no file. prefix: a
    command that becomes this one, elsewhere.
    """
    words = [word for word in arguments if re.fullmatch(r"[\w.-]+", word)]
    output = config.parent / f"{'-'.join(words)}-{os.urandom(3).hex()}.log"
    copier = None
    with output.open("wb") as log, ExitStack() as stack:
        sink = log.fileno()
        if piped:
            source, sink = os.pipe()
            stack.callback(os.close, source)
            stack.callback(os.close, sink)
            copier = await asyncio.create_subprocess_exec("cat", stdin=source, stdout=log)
        process = await asyncio.create_subprocess_exec(
            *(*prefix, sys.executable, "-m", module, *arguments, "--config", str(config)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env={**os.environ, **(environ or {})},
        )
    return Command(process, output, copier)


@asynccontextmanager
async def clawbot(
    config: Path,
    *arguments: str,
    module: str = "clawbot",
    piped: bool = False,
    prefix: Sequence[str] = (),
) -> AsyncIterator[Command]:
    """Run `clawbot ARGUMENTS --config CONFIG`; at the end it is killed if it still runs. See
    `start`.
    """
    command = await start(config, *arguments, module=module, piped=piped, prefix=prefix)
    try:
        yield command
    finally:
        if command.process.returncode is None:
            await command.kill()
        await command.copied()
