"""Commands in the background: a few a session, each with an end that somebody sees to."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.errors import ToolError
from clawbot.tools.read_file import ReadFile, ReadFileArgs
from tests.unit.tools.ground import Shell, shell_in, until, until_processes


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with shell_in(tmp_path) as shell:
        yield shell


async def begin(shell: Shell, command: str) -> str:
    """Start a command in the background; its id."""
    text, is_error = await shell.run(command, background=True)
    assert not is_error, text
    return text.split()[0]


async def until_listed(shell: Shell, words: str) -> str:
    """Wait until the list holds words."""
    return await until(lambda: shell.process("list"), lambda listed: words in listed)


async def test_a_command_runs_on_and_its_output_can_be_read(shell: Shell) -> None:
    mark = uuid.uuid4().hex
    id_ = await begin(shell, f"echo begun; sleep 300; : {mark}")
    await until_processes(mark, run=True)
    text = await until(lambda: shell.process("output", id_), lambda text: "\nbegun" in text)
    assert text == f"{id_}  running  echo begun; sleep 300; : {mark}\nbegun\n"
    args = ReadFileArgs(path=f"background/{id_}/output")
    assert await ReadFile().run(args, shell.context()) == "begun\n"
    assert await shell.process("stop", id_) == f"{id_}: stopped"
    await until_processes(mark, run=False)
    listed = await until_listed(shell, "exit code -9")
    assert listed.startswith(id_)


async def test_how_a_command_ended_is_told_later(shell: Shell) -> None:
    id_ = await begin(shell, "echo done; exit 3")
    await until_listed(shell, "exit code 3")
    assert await shell.process("output", id_) == f"{id_}  exit code 3  echo done; exit 3\ndone\n"
    assert await shell.process("stop", id_) == f"{id_}: exit code 3"
    text, is_error = await shell.run("ls", timeout_s=5)
    assert not is_error, text


async def test_a_session_has_only_a_few(shell: Shell) -> None:
    first = await begin(shell, "sleep 300")
    await begin(shell, "sleep 300")
    text, is_error = await shell.run("sleep 300", background=True)
    assert is_error
    assert "2 commands run in the background already" in text
    await shell.process("stop", first)
    await until_listed(shell, "exit code -9")
    await begin(shell, "sleep 300")


async def test_they_end_when_people_stop_the_session(shell: Shell) -> None:
    mark = uuid.uuid4().hex
    await begin(shell, f"sleep 300; : {mark}")
    await until_processes(mark, run=True)
    shell.marks.stop()
    await until_processes(mark, run=False)
    await until_listed(shell, "stopped")


async def test_they_end_with_their_worker(shell: Shell) -> None:
    mark = uuid.uuid4().hex
    await begin(shell, f"sleep 300; : {mark}")
    await until_processes(mark, run=True)
    await shell.background.close()
    await until_processes(mark, run=False)
    assert "ended with its worker" in await shell.process("list")


async def test_one_that_has_only_just_begun_ends_too(shell: Shell) -> None:
    """Its sandbox is being made: what is in there does not yet end with its parent."""
    for _ in range(20):
        mark = uuid.uuid4().hex
        await begin(shell, f"sleep 300; : {mark}")
        await shell.background.close()
        await until_processes(mark, run=False)


async def test_they_end_when_their_time_is_over(tmp_path: Path) -> None:
    async with shell_in(tmp_path, life_s=0.3) as shell:
        mark = uuid.uuid4().hex
        await begin(shell, f"sleep 300; : {mark}")
        await until_listed(shell, "ended after 0.3 s")
        await until_processes(mark, run=False)


async def test_they_end_when_their_session_is_deleted(shell: Shell) -> None:
    mark = uuid.uuid4().hex
    await begin(shell, f"while sleep 0.05; do echo on; done; : {mark}")
    await until_processes(mark, run=True)
    await asyncio.to_thread(shutil.rmtree, shell.session_dir)
    await until_processes(mark, run=False)


async def test_what_is_not_there_is_said(shell: Shell) -> None:
    assert await shell.process("list") == "nothing runs in the background"
    with pytest.raises(ToolError, match="no background command"):
        await shell.process("output", "../x")
