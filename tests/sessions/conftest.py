"""A real store for each test, of each kind; and the simulated model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from clawbot.ports import Store
from tests.contracts.postgres_ground import PostgresGround, make_schema
from tests.contracts.sqlite_ground import SqliteGround, make_template
from tests.postgres import Cluster
from tests.simulators.model import ModelSimulator, Reply


@pytest.fixture(scope="session")
def store_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database that is copied for each test."""
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def make_ground(request: pytest.FixtureRequest) -> Callable[[], SqliteGround | PostgresGround]:
    """Makes an empty database of each kind."""
    if request.param == "sqlite":
        path: Path = request.getfixturevalue("store_template")
        return lambda: SqliteGround(path, patience_s=20.0)
    cluster: Cluster = request.getfixturevalue("postgres")
    template = cluster.template("clawbot_schema", make_schema)
    return lambda: PostgresGround(cluster, template, patience_s=20.0)


@pytest.fixture
async def ground(
    make_ground: Callable[[], SqliteGround | PostgresGround],
) -> AsyncIterator[SqliteGround | PostgresGround]:
    """An empty database."""
    made = make_ground()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def store(ground: SqliteGround | PostgresGround) -> Store:
    return await ground.open("test")


@pytest.fixture
async def model() -> AsyncIterator[ModelSimulator]:
    """The model; it says ok to what no test expects."""
    async with ModelSimulator(lambda _: Reply(text="ok")) as simulator:
        yield simulator
        assert simulator.violations == []
