"""The kill matrix, short: a third of the points in each store; a command goes through all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.postgres_ground import make_schema
from tests.kill_matrix import chains_of
from tests.postgres import Cluster
from tests.process.killing import open_matrix

SEED = 7


@pytest.fixture
def database(postgres: Cluster) -> str:
    """A database with its schema, in the form of the config."""
    template = postgres.template("clawbot_schema", make_schema)
    url = postgres.url(postgres.create_database(template))
    return url.replace("postgresql+psycopg://", "postgresql://")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> tuple[int, str | None]:
    """Which third of the points, and the database."""
    is_sqlite = request.param == "sqlite"
    return (0, None) if is_sqlite else (1, request.getfixturevalue("database"))


@pytest.mark.timeout(300)
async def test_a_kill_at_any_point_of_a_messages_path_loses_and_doubles_nothing(
    tmp_path: Path, store: tuple[int, str | None]
) -> None:
    third, database = store
    async with open_matrix(tmp_path, SEED, database) as matrix:
        figures = await matrix.run(chains_of(SEED)[third::3])
    assert figures.problems == ()
    assert (figures.lost, figures.doubled, figures.unknown) == (0, 0, 0)
