"""`clawbot sessions …` and `clawbot chat` as an admin starts them: the installed command."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from clawbot.session_key import SessionKey
from tests.process.commands import clawbot
from tests.simulators.model import ModelSimulator, Reply

WAIT_S = 60.0
CONFIG = """\
state_dir: {folder}/state
model: openai-chat:scripted
providers:
  openai-chat: {{base_url: {url}, api_key: made-up}}
web: {{enabled: false}}
limits: {{heartbeat_s: 1, lease_s: 3, grace_s: 5}}
"""

Run = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator() as simulator:
        yield simulator
        assert simulator.violations == []
        assert simulator.unexpected == []


@pytest.fixture
def config(tmp_path: Path, model: ModelSimulator) -> Path:
    path = tmp_path / "clawbot.yaml"
    path.write_text(CONFIG.format(folder=tmp_path, url=model.base_url("openai-chat")))
    (tmp_path / "here").mkdir()
    return path


@pytest.fixture
def run(config: Path) -> Run:
    """Runs a command in the directory `here` to its end: exit code, output, errors."""

    async def command(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "clawbot", *arguments, "--config", str(config)),
            cwd=config.parent / "here",
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**os.environ, "COLUMNS": "200"},
        )
        async with asyncio.timeout(WAIT_S):
            out, err = await process.communicate(stdin.encode())
        return process.returncode or 0, out.decode(), err.decode()

    return command


@pytest.fixture
def key(config: Path) -> SessionKey:
    return SessionKey.of_directory(str(config.parent / "here"))


async def listed(run: Run, *arguments: str) -> list[dict[str, Any]]:
    code, out, err = await run("sessions", "list", "--json", *arguments)
    assert (code, err) == (0, "")
    sessions: list[dict[str, Any]] = json.loads(out)["sessions"]
    return sessions


async def test_a_chat_without_a_daemon_runs_its_own_worker_and_can_be_resumed(
    run: Run, model: ModelSimulator, key: SessionKey
) -> None:
    model.expect(Reply(text=("Hel", "lo.")), when="hi there")
    code, out, err = await run("chat", stdin="hi there\n/status\n/exit\n")
    assert (code, err) == (0, "")
    assert out == "Hello.\nIdle. Model: openai-chat:scripted.\n\n"
    model.expect(Reply(text="Still here."), when="again")
    code, out, err = await run("chat", "-m", "again")
    assert (code, out, err) == (0, "Still here.\n", "")
    assert [message.text for message in model.requests[-1].messages] == [
        *("hi there", "Hello.", "again")
    ]
    assert [view["key"] for view in await listed(run)] == [str(key)]


async def test_a_chat_uses_the_worker_of_a_running_daemon(
    run: Run, model: ModelSimulator, config: Path
) -> None:
    model.expect(Reply(text="pong"), when="ping")
    async with clawbot(config, "worker") as worker:
        while "worker" not in (await run("status", "--json"))[1]:
            pass
        assert await run("chat", "-m", "ping") == (0, "pong\n", "")
        rows = json.loads((await run("status", "--json"))[1])["processes"]
        assert [row["pid"] for row in rows] == [worker.process.pid]


async def test_an_answer_that_fails_is_shown_and_is_the_exit_code(
    run: Run, model: ModelSimulator
) -> None:
    model.expect(Reply(text="no", finish="content_filter"), when="bad")
    code, out, _ = await run("chat", "-m", "bad")
    assert code == 1
    assert "refuses to answer" in out


async def test_ctrl_c_stops_the_answer_and_the_next_line_is_answered(
    model: ModelSimulator, config: Path
) -> None:
    gate = model.hold(when="slow")
    model.expect(Reply(text="I am back."), when="quick")
    parent, child = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "clawbot", "chat", "--config", str(config)),
        cwd=config.parent,
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
    )
    os.close(child)
    seen = b""

    async def until(text: bytes) -> None:
        nonlocal seen
        async with asyncio.timeout(WAIT_S):
            while text not in seen:
                seen += await asyncio.to_thread(os.read, parent, 4096)

    try:
        await until(b"> ")
        os.write(parent, b"slow\n")
        await gate.reached
        process.send_signal(signal.SIGINT)
        await until(b"(stopped)")
        os.write(parent, b"quick\n")
        await until(b"I am back.")
        os.write(parent, b"\x04")
        async with asyncio.timeout(WAIT_S):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(parent)


async def test_sessions_are_renamed_set_forked_archived_reset_and_deleted(
    run: Run, model: ModelSimulator, key: SessionKey
) -> None:
    model.expect(Reply(text="one"), when="first")
    assert (await run("chat", "-m", "first"))[0] == 0
    name = str(key)
    assert (await run("sessions", "rename", name, "My plan"))[0] == 0
    code, out, _ = await run("sessions", "set", name, "max_steps=3", "temperature=0.5")
    assert (code, json.loads(out)) == (
        0,
        {"temperature": 0.5, "max_steps": 3, "work_dirs": []},
    )
    code, out, _ = await run("sessions", "set", name, "--unset", "temperature", "--dir", "..")
    parent = str(Path(key.directory or "").parent)
    assert json.loads(out) == {"max_steps": 3, "work_dirs": [parent]}
    code, out, _ = await run("sessions", "fork", name, "task:copy")
    assert (code, out) == (0, f"{name}/task:copy: 2 entries of {name}\n")
    assert (await run("sessions", "archive", name))[0] == 0
    assert [view["key"] for view in await listed(run)] == [f"{name}/task:copy"]
    assert [view["words"] for view in await listed(run, "--archived")] == ["My plan"]
    assert (await run("sessions", "unarchive", name))[0] == 0
    code, out, _ = await run("sessions", "reset", name)
    assert (code, out) == (0, f"{name}: epoch 1 begins\n")
    code, out, _ = await run("sessions", "show", name)
    assert code == 0
    assert "My plan" in out
    assert "3 (its own)" in out
    code, _, _ = await run("sessions", "delete", name)
    assert code == 1  # nobody said yes
    code, out, _ = await run("sessions", "delete", name, "--yes")
    assert (code, out) == (0, f"{name}: deleted, 2 entries\n")
    code, out, _ = await run("sessions", "list", "plan")
    assert "My plan" in out  # the fork kept the title
    assert "1 shown of 1 sessions and 0 archived" in out


async def test_an_exported_session_is_imported_under_another_key(
    run: Run, model: ModelSimulator, config: Path, key: SessionKey
) -> None:
    model.expect(Reply(text="one"), when="first")
    assert (await run("chat", "-m", "first"))[0] == 0
    file = config.parent / "session.jsonl"
    assert (await run("sessions", "export", str(key), "-o", str(file)))[0] == 0
    code, out, _ = await run("sessions", "export", str(key))
    assert out == file.read_text()
    file.write_text(file.read_text() + '{"seq": 9, "torn')
    code, out, _ = await run("sessions", "import", str(file), "--key", "web:copy")
    assert (code, out) == (
        0,
        "web:copy: 2 entries; 1 damaged piece(s) left out (1 not JSON, first in line 4)\n",
    )
    model.expect(Reply(text="two"), when="second")
    assert await run("chat", "--resume", "web:copy", "-m", "second") == (0, "two\n", "")
    assert [message.text for message in model.requests[-1].messages] == ["first", "one", "second"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["show", "web:none"], "session web:none: there is none; `clawbot sessions list` shows"),
        (["show", "nonsense"], "session key 'nonsense': want global, dir:PATH"),
        (["set", "web:none"], "nothing to set: give NAME=VALUE"),
        (["set", "web:none", "max_steps"], "setting 'max_steps': want NAME=VALUE"),
        (["set", "web:none", "model=nobody:x"], "model nobody:x: unknown provider"),
        (["set", "web:none", "--dir", "missing"], "work dir missing: no such directory"),
        (["set", "web:none", "--dir", "../state/work"], "lies in clawbot's own state directory"),
        (["import", "../clawbot.yaml"], "holds no session; was it exported by clawbot?"),
    ],
)
async def test_what_cannot_be_done_is_one_clear_line(
    run: Run, config: Path, arguments: list[str], problem: str
) -> None:
    (config.parent / "state" / "work").mkdir(parents=True)
    code, out, err = await run("sessions", *arguments)
    assert (code, out) == (1, "")
    assert err.startswith("clawbot: ")
    assert problem in err
    assert len(err.splitlines()) == 1


async def test_a_state_that_never_was_has_no_sessions(run: Run) -> None:
    code, _, err = await run("sessions", "list")
    assert code == 1
    assert "clawbot never ran here" in err
