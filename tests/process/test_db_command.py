"""`clawbot db …` as an admin runs it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.flow.daemon import write_config
from tests.postgres import Cluster
from tests.process.commands import clawbot
from tests.process.waiting import eventually


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = write_config(tmp_path, model_url="http://127.0.0.1:9", slack="enabled: false")
    text = path.read_text(encoding="utf-8").partition("channels:")[0]
    path.write_text(text, encoding="utf-8")
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "clawbot.db").touch()
    return path


def naming(config: Path, url: str) -> Path:
    """The same config with a database."""
    path = config.with_name("postgres.yaml")
    path.write_text(f"{config.read_text()}\ndatabase: {url}\n")
    return path


def remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)


async def run(config: Path, *arguments: str) -> tuple[int, str]:
    async with clawbot(config, "db", *arguments) as command:
        return await command.ended(), command.text()


async def test_a_database_moves_to_postgresql_and_back(config: Path, postgres: Cluster) -> None:
    url = postgres.url(postgres.create_database()).replace("+psycopg", "")
    code, text = await run(config, "copy", url)
    assert (code, "run `clawbot db upgrade` on it first" in text) == (1, True), text
    code, text = await run(config, "upgrade")
    assert (code, "upgraded from an empty database" in text) == (0, True), text
    code, text = await run(config, "check")
    assert (code, "whole: nothing wrong was found" in text) == (0, True), text
    code, text = await run(config, "prune")
    assert (code, "removed: seen 0, inbox 0, outbox 0" in text) == (0, True), text
    code, text = await run(config, "copy", url)
    assert (code, "both sides hold the same, row by row" in text) == (0, True), text
    back = config.parent / "back.db"
    code, text = await run(naming(config, url), "copy", str(back))
    assert (code, back.exists()) == (0, True), text


async def test_a_database_in_use_is_not_copied(config: Path) -> None:
    target = str(config.parent / "copy.db")
    assert (await run(config, "upgrade"))[0] == 0
    async with clawbot(config, "run") as daemon:
        await eventually(lambda: "daemon_ready" in daemon.text())
        code, text = await run(config, "copy", target)
        assert (code, "in use by another clawbot run" in text) == (1, True), text
        await daemon.stop()
    async with clawbot(config, "worker"):
        async with asyncio.timeout(60):
            while "in use by worker-" not in text:
                code, text = await run(config, "copy", target)
                remove(target)
        assert code == 1
