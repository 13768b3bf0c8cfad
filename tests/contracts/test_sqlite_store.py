"""The embedded store keeps the store contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.sqlite_ground import SqliteGround
from tests.contracts.store import StoreContract


@pytest.fixture
async def ground(sqlite_template: Path) -> AsyncIterator[SqliteGround]:
    """An empty database on which every clause is held."""
    made = SqliteGround(sqlite_template, patience_s=20.0)
    try:
        yield made
    finally:
        await made.close()


class TestSqliteStore(StoreContract):
    """See `tests.contracts.store`."""
