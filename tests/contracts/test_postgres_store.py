"""The store on PostgreSQL keeps the store contract."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contracts.postgres_ground import PostgresGround, make_schema
from tests.contracts.store import StoreContract
from tests.postgres import Cluster


@pytest.fixture(scope="session")
def postgres_template(postgres: Cluster) -> str:
    """An empty database that is copied for each test."""
    return postgres.template("clawbot_schema", make_schema)


@pytest.fixture
async def ground(postgres: Cluster, postgres_template: str) -> AsyncIterator[PostgresGround]:
    """An empty database on which every clause is held."""
    made = PostgresGround(postgres, postgres_template, patience_s=20.0)
    try:
        yield made
    finally:
        await made.close()


class TestPostgresStore(StoreContract):
    """See `tests.contracts.store`."""
