"""`clawbot run` and its parts as an admin starts them: real processes, the installed command."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.process.waiting import eventually, is_alive

CONFIG = """\
state_dir: state
model: offline
workers: 2
web: {enabled: false}
limits: {grace_s: 5}
"""

Started = Callable[..., Awaitable[Process]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "clawbot.yaml"
    path.write_text(CONFIG)
    return path


def rewrite(config: Path, text: str) -> None:
    config.write_text(text)


@pytest.fixture
async def clawbot() -> AsyncIterator[Started]:
    """Starts commands; whatever still runs at the end is killed."""
    started: list[Process] = []

    async def start(*arguments: object, environ: Mapping[str, str] | None = None) -> Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "clawbot", *map(str, arguments)),
            env={**os.environ, **(environ or {})},
            stdout=PIPE,
            stderr=PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_with(process: Process, event: str) -> dict[str, Any]:
    """The next log line with this event."""
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while line := await process.stderr.readline():
            entry = json.loads(line)
            if entry["event"] == event:
                assert isinstance(entry, dict)
                return entry
    raise AssertionError(f"ended without {event}")


async def ended(process: Process) -> tuple[int | None, str, str]:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


class Manager:
    """What systemd's end of NOTIFY_SOCKET hears."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(0)

    async def hears(self, message: str) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            while (await loop.sock_recv(self.socket, 4096)).decode() != message:
                pass


@pytest.fixture
def manager(tmp_path: Path) -> AsyncIterator[Manager]:
    made = Manager(tmp_path / "notify")
    yield made  # type: ignore[misc]
    made.socket.close()


@pytest.mark.parametrize("mode", ["processes", "single"])
async def test_systemd_hears_ready_status_and_stopping(
    clawbot: Started, config: Path, manager: Manager, mode: str
) -> None:
    environ = {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "1000000"}
    more = ["--single"] if mode == "single" else []
    process = await clawbot("run", "--config", config, *more, environ=environ)
    await manager.hears("STATUS=worker-1 up, worker-2 up")
    await manager.hears("READY=1")
    await manager.hears("WATCHDOG=1")
    process.terminate()
    await manager.hears("STOPPING=1")
    code, _, _ = await ended(process)
    assert code == 0


@pytest.mark.parametrize("mode", ["processes", "single"])
async def test_the_page_s_address_is_printed_once_it_can_be_opened(
    clawbot: Started, config: Path, mode: str
) -> None:
    rewrite(config, CONFIG.replace("{enabled: false}", "{port: 0}"))
    more = ["--single"] if mode == "single" else []
    process = await clawbot("run", "--config", config, *more)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        line = (await process.stdout.readline()).decode()
    found = re.fullmatch(r"clawbot is ready: http://127\.0\.0\.1:(\d+)/\?token=\S+\n", line)
    assert found, line
    _, writer = await asyncio.open_connection("127.0.0.1", int(found[1]))
    writer.close()
    process.terminate()
    assert (await ended(process))[0] == 0


async def test_a_killed_worker_is_replaced_and_status_shows_it(
    clawbot: Started, config: Path
) -> None:
    process = await clawbot("run", "--config", config)
    pids = [(await line_with(process, "child_started"))["pid"] for _ in range(2)]
    await line_with(process, "daemon_ready")
    os.kill(pids[0], signal.SIGKILL)
    replacement = (await line_with(process, "child_started"))["pid"]
    await line_with(process, "child_up")
    wanted = {pids[1], replacement}
    async with asyncio.timeout(60):
        while True:
            status = json.loads(
                (await ended(await clawbot("status", "--json", "--config", config)))[1]
            )
            if {row["pid"] for row in status["processes"]} == wanted:
                break
    assert status["supervisor_pid"] == process.pid
    process.terminate()
    assert (await ended(process))[0] == 0


async def test_a_killed_daemon_leaves_no_worker_and_can_be_started_again(
    clawbot: Started, config: Path
) -> None:
    process = await clawbot("run", "--config", config)
    pids = [(await line_with(process, "child_started"))["pid"] for _ in range(2)]
    await line_with(process, "daemon_ready")
    process.kill()
    await eventually(lambda: not any(is_alive(pid) for pid in pids))
    again = await clawbot("run", "--config", config)
    await line_with(again, "daemon_ready")
    again.terminate()
    assert (await ended(again))[0] == 0


async def test_a_second_daemon_on_the_same_state_is_refused(clawbot: Started, config: Path) -> None:
    first = await clawbot("run", "--config", config)
    await line_with(first, "daemon_ready")
    code, out, err = await ended(await clawbot("run", "--config", config))
    assert (code, out) == (1, "")
    assert f"in use by another clawbot run (pid {first.pid})" in err
    first.terminate()
    assert (await ended(first))[0] == 0


async def test_a_worker_may_run_beside_the_daemon(clawbot: Started, config: Path) -> None:
    first = await clawbot("run", "--config", config)
    await line_with(first, "daemon_ready")
    worker = await clawbot("worker", "--config", config)
    status: dict[str, Any] = {"processes": []}
    async with asyncio.timeout(60):
        while len(status["processes"]) < 3:
            status = json.loads(
                (await ended(await clawbot("status", "--json", "--config", config)))[1]
            )
    for process in (worker, first):
        process.terminate()
        assert (await ended(process))[0] == 0


@pytest.mark.parametrize("command", [["run"], ["run", "--single"], ["worker"], ["config", "check"]])
async def test_a_bad_config_ends_every_command_with_78_and_all_problems(
    clawbot: Started, config: Path, command: list[str]
) -> None:
    rewrite(config, "modle: offline\nweb: {port: x}\n")
    code, out, err = await ended(await clawbot(*command, "--config", config))
    assert (code, out) == (78, "")
    assert err.splitlines() == [
        "config state_dir: missing; add the key",
        "config model: missing; add the key",
        "config modle (line 1): unknown key; did you mean model?",
        "config web.port (line 2): want a whole number",
    ]
    assert not (config.parent / "state").exists()


async def test_a_state_directory_that_cannot_be_written_is_one_line(
    clawbot: Started, config: Path
) -> None:
    rewrite(config, CONFIG.replace("state_dir: state", "state_dir: /proc/state"))
    code, _, err = await ended(await clawbot("run", "--config", config))
    assert code == 1
    assert err.startswith("clawbot: state_dir /proc/state: cannot be written: ")
    assert len(err.splitlines()) == 1


async def test_an_adapter_of_no_channel_is_a_bad_config(clawbot: Started, config: Path) -> None:
    code, _, err = await ended(await clawbot("adapter", "nobody", "--config", config))
    assert code == 78
    assert err == "config channels.nobody: missing; channels in the file: none\n"


async def test_status_for_people_names_what_runs(clawbot: Started, config: Path) -> None:
    process = await clawbot("run", "--single", "--config", config)
    await line_with(process, "daemon_ready")
    out = ""
    async with asyncio.timeout(60):
        while "worker" not in out:
            code, out, _ = await ended(await clawbot("status", "--config", config))
    assert code == 0
    assert out.startswith(f"clawbot run: pid {process.pid}")
    process.terminate()
    assert (await ended(process))[0] == 0
    code, out, _ = await ended(await clawbot("status", "--config", config))
    assert "clawbot run: not running here" in out


async def test_status_of_a_daemon_that_never_ran_says_so(clawbot: Started, config: Path) -> None:
    code, _, err = await ended(await clawbot("status", "--config", config))
    assert code == 1
    assert "clawbot never ran here" in err
