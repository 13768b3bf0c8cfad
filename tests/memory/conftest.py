"""A real store for each test, once on each database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from clawbot.ports import Store
from tests.contracts.postgres_ground import PostgresGround, make_schema
from tests.contracts.sqlite_ground import SqliteGround, make_template

AnyGround = SqliteGround | PostgresGround


@pytest.fixture(
    scope="session", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def make_ground(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], AnyGround]:
    """Makes copies of an empty database."""
    if request.param == "sqlite":
        path = make_template(tmp_path_factory.mktemp("template"))
        return lambda: SqliteGround(path, patience_s=20.0)
    cluster = request.getfixturevalue("postgres")
    template = cluster.template("clawbot_schema", make_schema)
    return lambda: PostgresGround(cluster, template, patience_s=20.0)


@pytest.fixture
async def ground(make_ground: Callable[[], AnyGround]) -> AsyncIterator[AnyGround]:
    made = make_ground()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def store(ground: AnyGround) -> Store:
    return await ground.open("test")
