"""bash: a shell command in the session's sandbox, awaited or in the background."""

from __future__ import annotations

import asyncio
import signal
from typing import ClassVar

from pydantic import BaseModel, Field

from clawbot.errors import ToolError
from clawbot.ports import ToolContext
from clawbot.tools import commands
from clawbot.tools.background import Background
from clawbot.tools.commands import Finished
from clawbot.tools.sandbox import Sandbox, environment

OUTPUT_BYTES = 8 << 20
"""What is kept in memory of a command's output; the history holds less of it."""


_NO_NETWORK = (
    "Network is unreachable",
    "Temporary failure in name resolution",
    "Could not resolve host",
    "unable to resolve host",
)


class BashArgs(BaseModel):
    """What `bash` takes."""

    command: str = Field(min_length=1, max_length=100_000, description="The command.")
    timeout_s: float = Field(
        default=120, gt=0, le=86_400, description="After how many seconds it is ended."
    )
    background: bool = Field(
        default=False, description="Whether to let it run on; `process` shows and stops it."
    )


class Bash:
    """The tool; no command may take longer than `most_s`."""

    name: ClassVar[str] = "bash"
    description: ClassVar[str] = (
        "Run a shell command in the work directory and return what it prints, with its exit code "
        "if that is not 0. Only the work directories can be written, each command has a /tmp of "
        "its own, and what it starts ends with it."
    )
    Args: ClassVar[type[BaseModel]] = BashArgs
    writes: ClassVar[bool] = True

    def __init__(self, sandbox: Sandbox, background: Background, *, most_s: float) -> None:
        self._sandbox = sandbox
        self._background = background
        self._most_s = most_s

    async def run(self, args: BashArgs, context: ToolContext) -> str:
        """Run it. What it was when it ended is an error unless the exit code is 0."""
        if not context.work_dirs:
            raise ToolError("this session has no work directory")
        if not self._sandbox.is_confined and not context.is_owner:
            raise ToolError("Commands run without a sandbox here; only owners may have them run.")
        command = args.command.replace("\x00", "")
        line = await asyncio.to_thread(self._sandbox.command_line, context.work_dirs, command)
        cwd = None if self._sandbox.is_confined else context.work_dirs[0]
        if args.background:
            return await self._background.start(line, command, cwd, context)
        finished = await commands.run(
            line,
            cwd=cwd,
            env=environment(),
            timeout_s=min(args.timeout_s, self._most_s),
            most_bytes=OUTPUT_BYTES,
        )
        text = await asyncio.to_thread(finished.output.text)
        if finished.code == 0:
            return text or "(no output)"
        ending = _ending(finished, min(args.timeout_s, self._most_s))
        raise ToolError(f"{text.rstrip()}\n{ending}", kind=self._kind_of(finished, text))

    def _kind_of(self, finished: Finished, text: str) -> str:
        """The class of a failure, where its exit code or what the system says tells it."""
        if finished.code is None:
            return "timeout"
        if finished.code in {126, 127}:
            return "no_command"
        if not self._sandbox.rules.network and any(words in text for words in _NO_NETWORK):
            return "no_network"
        return "killed" if finished.code in {-9, 137} else ""


def _ending(finished: Finished, timeout_s: float) -> str:
    """How a command ended that did not end well."""
    code = finished.code
    if code is None:
        return f"[ended after {timeout_s:g} s]"
    killed_by = -code if code < 0 else code - 128
    if killed_by > 0:
        try:
            return f"[exit code {code}: killed by {signal.Signals(killed_by).name}]"
        except ValueError:
            pass
    return f"[exit code {code}]"
