"""H9 with a worker that is killed, and `clawbot trace`, as an admin runs it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.session_key import SessionKey
from clawbot.tracing import files
from clawbot.tracing.files import TraceRecord
from tests.flow.daemon import Daemon, run_daemon
from tests.process.commands import clawbot, start
from tests.sessions.ground import Chats, write_config
from tests.simulators.model import ModelSimulator, Reply, ToolCall

A = SessionKey.of_chat("web", "a")


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator(lambda _: Reply(text="ok")) as simulator:
        yield simulator
        assert simulator.violations == []


async def run(config: Path, *arguments: str) -> tuple[int, str]:
    """A command to its end; its exit code and what it printed."""
    command = await start(config, *arguments, environ={"COLUMNS": "160"})
    return await command.ended(), command.text()


async def until_shown(daemon: Daemon, words: str) -> TraceRecord:
    """The newest trace that says so."""
    async with asyncio.timeout(60):
        while True:
            all_ = await asyncio.to_thread(lambda: [*files.newest(daemon.config.state_dir, 9)])
            for record in all_:
                if words in record.model_dump_json():
                    return record
            await asyncio.sleep(0.05)


async def test_H9_what_a_killed_worker_did_is_kept_beside_what_the_next_one_does(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(tmp_path, model, "tracing: {files: true}")
    wait = Reply(tool_calls=(ToolCall(name="bash", arguments={"command": "sleep 600"}),))
    model.expect(wait, when="hello")
    model.expect(Reply(text="I am back."), when="hello")
    async with run_daemon(config) as daemon:
        chat = Chats(daemon=daemon, model=model)
        async with clawbot(config, "worker") as worker:
            asked = await chat.send(A, "hello")
            killed = await until_shown(daemon, "execute_tool bash")
            await worker.kill()
        async with clawbot(config, "worker"):
            ended = await until_shown(daemon, '"outcome":"done"')
            assert await chat.answered(A, asked) == "I am back."
    assert (killed.outcome, killed.turn) == ("", ended.turn)
    assert killed.fence < ended.fence
    both = await asyncio.to_thread(files.of_turn, tmp_path / "a", ended.turn[:6])
    assert both == [killed, ended]
    code, text = await run(config, "trace", "last")
    assert code == 0, text
    assert f"turn {ended.turn} in web:a: done" in text
    lines = [line for line in text.splitlines() if "attempt at" in line or "not ended" in line]
    assert ["cut off" in lines[0], "tool bash" in lines[2], "done" in lines[3]] == [True] * 3
    code, text = await run(config, "trace")
    assert code == 0
    assert ["unfinished" in text, "done" in text] == [True, True], text
    code, text = await run(config, "trace", ended.turn, "--json")
    assert [one["fence"] for one in json.loads(text)] == [killed.fence, ended.fence]
    code, text = await run(config, "trace", "--session", "web:b")
    assert (code, "no traces yet" in text) == (0, True)
    code, text = await run(config, "trace", "ffff")
    assert (code, "there is none" in text) == (1, True)


async def test_old_traces_are_removed_and_damaged_ones_left_out(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(tmp_path, model, "tracing: {files: true}\nretention: {traces_days: 3}")
    async with run_daemon(config, "worker") as daemon:
        await Chats(daemon=daemon, model=model).say(A, "hello")
        kept = await until_shown(daemon, '"outcome":"done"')

    def damage() -> list[Path]:
        folder = tmp_path / "a" / files.FOLDER
        old = folder / "2020-01-01"
        old.mkdir()
        (old / "aaaa-000001.json").write_text("{}")
        (today,) = [day for day in folder.iterdir() if day != old]
        (today / "bbbb-000001.json").write_text('{"version": 1, "tr')
        (folder / "notes of mine").mkdir()
        return [old, folder / "notes of mine"]

    old, foreign = await asyncio.to_thread(damage)
    code, text = await run(config, "db", "prune")
    assert (code, "trace_days 1" in text) == (0, True), text
    assert (old.exists(), foreign.exists()) == (False, True)
    assert await asyncio.to_thread(lambda: [*files.newest(tmp_path / "a", 9)]) == [kept]


async def test_a_worker_that_traces_nothing_loads_nothing_of_it_and_writes_nothing(
    tmp_path: Path, model: ModelSimulator
) -> None:
    config = write_config(tmp_path, model)
    async with run_daemon(config, "worker") as daemon:
        await Chats(daemon=daemon, model=model).say(A, "hello")
    assert not (tmp_path / "a" / files.FOLDER).exists()
    code, text = await run(config, "trace")
    assert (code, "set tracing.files: true" in text) == (0, True)
    code, text = await run(config, "trace", "last")
    assert (code, "tracing.files" in text) == (1, True)
    looking = (
        "import sys, clawbot.parts.worker; "
        "unwanted = ('opentelemetry.sdk', 'opentelemetry.exporter', 'clawbot.tracing.otlp'); "
        "print([name for name in sys.modules if name.startswith(unwanted)])"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", looking, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert printed.strip() == b"[]"
