"""The systemd unit, as far as systemd itself can judge it, and the messages that it waits for."""

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from clawbot.cli import app
from clawbot.config_sections import LimitsConfig
from clawbot.daemon import KILL_MARGIN_S
from clawbot.process.notify import Notifier
from clawbot.supervisor import EXIT_BAD_CONFIG, Hooks

FOLDER = Path(__file__).parents[2] / "systemd"
UNITS = ["clawbot.service", "clawbot-worker@.service", "clawbot-adapter@.service"]
# systemd's own scale: 0 = sealed, 100 = open. Without hardening a service stands at 96.
EXPOSURE_THRESHOLD = 20

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="this system has no systemd"
)


@pytest.fixture(params=UNITS)
def unit(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Each unit with the command that is installed here, for systemd wants it to exist."""
    here = Path(sys.executable).with_name("clawbot")
    shutil.copy(FOLDER / "clawbot.target", tmp_path)
    path = tmp_path / str(request.param)
    text = (FOLDER / path.name).read_text()
    path.write_text(text.replace("/opt/clawbot/bin/clawbot", str(here)))
    return path


def value_of(unit: str, name: str) -> str:
    text = (FOLDER / unit).read_text()
    (value,) = re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)
    assert isinstance(value, str)
    return value


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )


@needs_systemd
def test_systemd_finds_no_fault_in_the_unit(unit: Path) -> None:
    done = analyze("verify", "--man=no", str(unit))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_systemd
def test_systemd_finds_faults_where_there_are_some(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("KillMode=mixed", "KillMode=gently"))
    assert "kill mode" in analyze("verify", "--man=no", str(unit)).stderr


@needs_systemd
def test_the_unit_is_hardened(unit: Path) -> None:
    arguments = ("security", "--offline=true", f"--threshold={EXPOSURE_THRESHOLD}")
    done = analyze(*arguments, str(unit))
    assert done.returncode == 0, done.stdout
    unit.write_text(re.sub(r"(?m)^(Protect|Private|SystemCall|Restrict).*\n", "", unit.read_text()))
    assert analyze(*arguments, str(unit)).returncode != 0


@needs_systemd
def test_systemd_finds_no_fault_in_the_target(tmp_path: Path) -> None:
    path = Path(shutil.copy(FOLDER / "clawbot.target", tmp_path))
    done = analyze("verify", "--man=no", str(path))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS)
def test_a_bad_config_is_not_tried_again(unit: str) -> None:
    assert int(value_of(unit, "RestartPreventExitStatus")) == EXIT_BAD_CONFIG


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_waits_longer_than_the_daemon_drains(unit: str) -> None:
    assert float(value_of(unit, "TimeoutStopSec")) >= LimitsConfig().grace_s + KILL_MARGIN_S + 10
    ready_within_s = Hooks.__dataclass_fields__["ready_within_s"].default
    assert float(value_of(unit, "TimeoutStartSec")) >= 2 * ready_within_s


@pytest.mark.parametrize("unit", UNITS)
def test_the_command_of_a_unit_is_one_that_there_is(unit: str) -> None:
    _, *words = value_of(unit, "ExecStart").split()
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert words[0] in commands


# -- sd_notify -------------------------------------------------------------------------------------


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """A service manager's socket and its address as NOTIFY_SOCKET names it."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@clawbot-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name.replace("@", "\0", 1) if name.startswith("@") else name)
        listener.settimeout(60)
        yield name, listener


def test_the_manager_is_told_how_we_are(manager: tuple[str, socket.socket]) -> None:
    address, listener = manager
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.ready()
    notifier.status("worker-1 up\nweb up")
    notifier.stopping()
    assert [listener.recv(100) for _ in range(3)] == [
        b"READY=1",
        b"STATUS=worker-1 up web up",
        b"STOPPING=1",
    ]


class HalfTurns:
    """A clock that counts how long it was asked to wait, and ends the waiting after some."""

    def __init__(self, rounds: int) -> None:
        self.waits: list[float] = []
        self.rounds = rounds

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        if len(self.waits) == self.rounds:
            raise asyncio.CancelledError


async def test_the_watchdog_is_fed_twice_in_its_time(manager: tuple[str, socket.socket]) -> None:
    address, listener = manager
    environ = {
        "NOTIFY_SOCKET": address,
        "WATCHDOG_USEC": "60000000",
        "WATCHDOG_PID": str(os.getpid()),
    }
    clock = HalfTurns(3)
    with pytest.raises(asyncio.CancelledError):
        await Notifier(environ).feed_watchdog(clock)
    assert clock.waits == [30, 30, 30]
    assert [listener.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3


async def test_a_watchdog_of_another_process_is_not_ours_to_feed(
    manager: tuple[str, socket.socket],
) -> None:
    environ = {"NOTIFY_SOCKET": manager[0], "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}
    clock = HalfTurns(1)
    await Notifier(environ).feed_watchdog(clock)
    assert clock.waits == []


def test_without_a_manager_or_with_a_deaf_one_nothing_happens(tmp_path: Path) -> None:
    Notifier({}).ready()
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready()
