"""A real store for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.ports import Store
from tests.contracts.sqlite_ground import SqliteGround, make_template
from tests.simulators.model import ModelSimulator, Reply


@pytest.fixture(scope="session")
def store_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database that is copied for each test."""
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
async def ground(store_template: Path) -> AsyncIterator[SqliteGround]:
    made = SqliteGround(store_template, patience_s=20.0)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def store(ground: SqliteGround) -> Store:
    return await ground.open("test")


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    """The model; it says ok to what no test expects."""
    async with ModelSimulator(lambda _: Reply(text="ok")) as simulator:
        yield simulator
        assert simulator.violations == []
