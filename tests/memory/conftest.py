"""A real store for each test, and a model that a test scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clawbot.ports import Store
from tests.contracts.sqlite_ground import SqliteGround, make_template


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
