"""The fixtures of flow tests: simulators, and the daemon wired to them over either transport."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.store import processes
from tests.flow.daemon import Daemon, run_daemon, write_config
from tests.simulators.feishu import FeishuSimulator
from tests.simulators.model import ModelSimulator
from tests.simulators.slack import SlackSimulator


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator() as simulator:
        yield simulator


@pytest.fixture
async def feishu() -> AsyncIterator[FeishuSimulator]:
    """With two people and a group of theirs."""
    async with FeishuSimulator(bot_name="clawbot", ack_timeout_s=1.0) as simulator:
        simulator.create_user("alice", open_id="ou_alice")
        simulator.create_user("bob", open_id="ou_bob")
        simulator.create_group("team", ["alice", "bob"], chat_id="oc_team")
        yield simulator


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator() as simulator:
        yield simulator
        assert simulator.violations == []
        assert simulator.unexpected == []


@pytest.fixture(params=["socket", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    """Each test that asks for the daemon runs over both transports."""
    return str(request.param)


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def slack_keys(slack: SlackSimulator, transport: str, port: int) -> str:
    """The YAML keys of a Slack channel that reaches the simulator."""
    keys = [
        f"mode: {transport}",
        f"bot_token: {slack.bot_token}",
        f"api_base_url: {slack.api_url}",
    ]
    if transport == "socket":
        keys.append(f"app_token: {slack.app_token}")
    else:
        keys += [f"signing_secret: {slack.signing_secret}", f"listen_port: {port}"]
    return "\n".join(keys)


@pytest.fixture
def config_path(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator, transport: str
) -> Path:
    port = free_port()
    (tmp_path / "port").write_text(str(port))
    return write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, transport, port),
    )


async def connect(daemon: Daemon, slack: SlackSimulator, port: str | None) -> None:
    """Wait until Slack's events reach the daemon, over HTTP at `port` or over a socket."""
    if port is not None:
        await slack.use_http(f"http://127.0.0.1:{port}/slack/events")
    await daemon.until(
        processes.status_rows,
        lambda status: any(channel["state"] == "up" for channel in status["channels"]),
    )


@pytest.fixture
async def daemon(config_path: Path, slack: SlackSimulator, transport: str) -> AsyncIterator[Daemon]:
    async with run_daemon(config_path, "worker", "slack") as running:
        port = (config_path.parent / "port").read_text() if transport == "http" else None
        await connect(running, slack, port)
        yield running
