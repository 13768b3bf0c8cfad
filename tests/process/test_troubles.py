"""What an admin meets on a bad day: ports, disks and files that are not as they should be.

Every one ends in a clear error or a visible state, and nothing is acknowledged that was not stored.
"""

import asyncio
import json
import resource
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from clawbot.parts import STORE_FILE
from tests.flow.conftest import model, slack_keys
from tests.flow.daemon import write_config
from tests.process.commands import Command, clawbot
from tests.process.waiting import eventually
from tests.simulators.model import ModelSimulator, Reply, echo
from tests.simulators.slack import SlackSimulator

__all__ = ["model"]

OFFLINE = "state_dir: state\nmodel: offline\nlimits: {grace_s: 5}\n"
PATIENT = tuple(0.3 for _ in range(100))
"""Delays between Slack's deliveries of what was not acknowledged, for as long as a test lasts."""


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(retry_delays_s=PATIENT, ack_timeout_s=1.0) as simulator:
        yield simulator


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "clawbot.yaml"
    path.write_text(OFFLINE + "web: {enabled: false}\n")
    return path


@pytest.fixture
def slack_config(tmp_path: Path, slack: SlackSimulator, model: ModelSimulator) -> Path:
    url, keys = model.base_url("openai-chat"), slack_keys(slack, "socket", 0)
    return write_config(tmp_path, model_url=url, slack=keys)


def rewrite(config: Path, text: str) -> None:
    config.write_text(text)


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def events(command: Command) -> list[dict[str, Any]]:
    """What it logged so far, as far as its lines are complete."""
    *lines, _ = command.text().split("\n")
    return [json.loads(line) for line in lines if line.startswith("{")]


async def until_logged(command: Command, event: str) -> dict[str, Any]:
    """The first log line with this event."""
    await eventually(lambda: any(entry["event"] == event for entry in events(command)))
    return next(entry for entry in events(command) if entry["event"] == event)


async def status_of(config: Path) -> dict[str, Any]:
    async with clawbot(config, "status", "--json") as command:
        assert await command.ended() == 0
        found = json.loads(command.text())
    assert isinstance(found, dict)
    return found


async def until_channel(config: Path, channel: str, state: str) -> dict[str, Any]:
    """Wait until `clawbot status` shows a channel in this state; all that it shows then."""
    async with asyncio.timeout(60):
        while True:
            found = await status_of(config)
            if {"channel": channel, "state": state}.items() <= _row_of(found, channel).items():
                return found


def _row_of(status: dict[str, Any], channel: str) -> dict[str, Any]:
    rows = [row for row in status["channels"] if row["channel"] == channel]
    return dict(rows[0]) if rows else {}


# -- the config ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["run"], ["worker"], ["status"], ["config", "check"]])
async def test_every_problem_of_a_config_is_told_at_once_with_its_line(
    config: Path, command: list[str]
) -> None:
    rewrite(
        config,
        OFFLINE
        + "workers: many\n"
        + "providers:\n  anthropic:\n    api_key: ${CLAWBOT_TEST_NO_SUCH_KEY}\n"
        + "chanels: {}\n",
    )
    async with clawbot(config, *command) as started:
        assert await started.ended() == 78
    assert started.text().splitlines() == [
        "config workers (line 4): want a whole number",
        "config providers.anthropic.api_key (line 7): missing; set CLAWBOT_TEST_NO_SUCH_KEY",
        "config chanels (line 8): unknown key; did you mean channels?",
    ]
    assert not (config.parent / "state").exists()


@pytest.mark.parametrize("text", ["state_dir: [\n", "\tmodel: offline\n", "", "- a list\n"])
async def test_what_is_no_yaml_mapping_starts_nothing(config: Path, text: str) -> None:
    rewrite(config, text)
    async with clawbot(config, "run") as started:
        assert await started.ended() == 78
    assert started.text().startswith("config")
    assert len(started.text().splitlines()) == 1
    assert not (config.parent / "state").exists()


# -- ports -----------------------------------------------------------------------------------------


async def test_the_page_s_port_that_is_taken_is_shown_and_the_rest_goes_on(config: Path) -> None:
    with taken_port() as port:
        rewrite(config, OFFLINE + f"web: {{port: {port}}}\n")
        async with clawbot(config, "run") as command:
            entry = await until_logged(command, "part_not_started")
            assert entry["error"] == (
                f"web.port: 127.0.0.1:{port} is in use; stop what listens there, or set another "
                "web.port (0 = any free one)"
            )
            while [row["role"] for row in (await status_of(config))["processes"]] != ["worker"]:
                pass
            await until_channel(config, "web", "degraded")
            assert "clawbot is ready" not in command.text()
            assert await command.stop() == 0


async def test_a_page_that_is_served_is_shown_in_status(config: Path) -> None:
    rewrite(config, OFFLINE + "web: {port: 0}\n")
    async with clawbot(config, "run") as command:
        await until_logged(command, "daemon_ready")
        await until_channel(config, "web", "up")
        assert await command.stop() == 0


@pytest.mark.parametrize("part", ["web", "adapter"])
async def test_a_part_alone_ends_with_1_when_its_port_is_taken(
    tmp_path: Path, slack: SlackSimulator, part: str
) -> None:
    with taken_port() as port:
        path = write_config(tmp_path, model_url="http://x/", slack=slack_keys(slack, "http", port))
        if part == "web":
            rewrite(path, OFFLINE + f"web: {{port: {port}}}\n")
        async with clawbot(path, *([part] if part == "web" else [part, "slack"])) as command:
            assert await command.ended() == 1
        (entry,) = [one for one in events(command) if one["event"] == "part_not_started"]
    assert f"127.0.0.1:{port}" in entry["error"]
    assert "in use" in entry["error"]


async def test_a_webhook_s_port_that_is_taken_is_shown_in_status(
    tmp_path: Path, slack: SlackSimulator
) -> None:
    with taken_port() as port:
        path = write_config(tmp_path, model_url="http://x/", slack=slack_keys(slack, "http", port))
        async with clawbot(path, "run") as command:
            await until_logged(command, "part_not_started")
            await until_channel(path, "slack", "degraded")
            await until_logged(command, "child_up")  # the worker, if not the page
            assert await command.stop() == 0
        # It never received, so it never counted as up.
        ups = {entry["child"] for entry in events(command) if entry["event"] == "child_up"}
        assert ups
        assert "adapter-slack" not in ups


# -- a part that hangs -----------------------------------------------------------------------------


async def test_a_part_that_hangs_before_it_works_is_ended_and_status_says_so(
    tmp_path: Path, slack: SlackSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The platform's library comes from a disk that does not answer any more.
    (library := tmp_path / "disk" / "slack_bolt").mkdir(parents=True)
    (library / "__init__.py").write_text("import time\n\ntime.sleep(3600)\n")
    monkeypatch.setenv("PYTHONPATH", str(library.parent))
    path = write_config(tmp_path, model_url="http://x/", slack=slack_keys(slack, "socket", 0))
    rewrite(path, path.read_text().replace("grace_s: 5", "grace_s: 5, ready_s: 25"))
    async with clawbot(path, "run") as command:
        await until_logged(command, "child_not_ready")
        entry = await until_logged(command, "child_ended")
        assert (entry["child"], entry["exit_code"]) == ("adapter-slack", -9)
        found = await until_channel(path, "slack", "degraded")
        assert "before it worked" in _row_of(found, "slack")["detail"]
        rows = {row["name"]: row for row in found["children"]}
        assert not rows["adapter-slack"]["worked"]
        assert rows["worker-1"]["state"] == "up"
        async with clawbot(path, "status") as shown:
            assert await shown.ended() == 0
        told = " ".join(shown.text().split())
        assert "adapter-slack: " in told
        assert "its last process ended before it worked, exit code -9" in told


# -- the store's file ------------------------------------------------------------------------------


async def start_once(config: Path) -> Path:
    """Let the daemon make its state; return the store's file."""
    async with clawbot(config, "run") as command:
        await until_logged(command, "daemon_ready")
        assert await command.stop() == 0
    return config.parent / "state" / STORE_FILE


@pytest.mark.parametrize("place", ["head", "pages"])
async def test_a_damaged_store_ends_the_start_with_one_clear_line(config: Path, place: str) -> None:
    store = await start_once(config)
    content = bytearray(store.read_bytes())
    start = 0 if place == "head" else 4096
    content[start:] = b"\xa5" * (len(content) - start)
    store.write_bytes(content)
    async with clawbot(config, "run") as command:
        assert await command.ended() == 1
    assert command.text().startswith(f"clawbot: store {store}: ")
    assert len(command.text().splitlines()) == 1
    assert store.read_bytes() == content


async def test_a_store_of_a_newer_clawbot_is_left_alone(config: Path) -> None:
    store = await start_once(config)
    with closing(sqlite3.connect(store)) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()
    async with clawbot(config, "run") as command:
        assert await command.ended() == 1
    assert "newer" in command.text()
    assert len(command.text().splitlines()) == 1


# -- the disk --------------------------------------------------------------------------------------


@contextmanager
def full_disk(command: Command, store: Path) -> Iterator[None]:
    """Let the kernel refuse the daemon to make a file longer than the store's log is now."""
    pid = command.process.pid
    size = store.with_name(f"{store.name}-wal").stat().st_size
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


async def test_on_a_full_disk_nothing_is_acked_and_with_room_again_all_is_answered(
    slack_config: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    # Longer than any other line of the log, so that each message needs room of its own.
    long = "ping " + "x" * 20_000
    model.expect(Reply(text="pong"), when="ping")
    async with clawbot(slack_config, "run", "--single") as command:
        await slack.wait_connected(timeout_s=30)
        await until_logged(command, "daemon_ready")
        with full_disk(command, slack_config.parent / "state" / STORE_FILE):
            ts = await slack.user_says(chat, alice, long)
            await until_logged(command, "slack_not_stored")
            assert slack.acked() == []
            assert slack.sent(chat) == []
        await slack.wait_text("pong", channel=chat, timeout_s=60)
        await slack.wait_settled(timeout_s=30)
        assert [delivery.state for delivery in slack.deliveries(ts)] == ["acked"]
        assert [message.text for message in slack.sent(chat)] == ["pong"]
        assert await command.stop() == 0


def slow_echo(request: Any) -> Reply:
    return Reply(text=tuple(echo(request).text), delay_s=0.05)
