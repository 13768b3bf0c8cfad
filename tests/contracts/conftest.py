"""Fixtures of the contract suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.sqlite_ground import make_template


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database that is copied for each test."""
    return make_template(tmp_path_factory.mktemp("store"))
