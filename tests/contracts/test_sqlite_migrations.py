"""Bringing the embedded store to this schema: repeated, interrupted, by two at once, or refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine

from clawbot.errors import SchemaMismatch
from clawbot.store import migrate
from clawbot.store.engine import open_sqlite_engine
from clawbot.store.schema import metadata

PATIENCE_S = 30.0


@pytest.fixture
def open_engine() -> Iterator[Callable[[Path], Engine]]:
    """Engines that are disposed of at the end."""
    opened: list[Engine] = []

    def open_one(path: Path) -> Engine:
        opened.append(open_sqlite_engine(path))
        return opened[-1]

    yield open_one
    for engine in opened:
        engine.dispose()


def schema_of(engine: Engine) -> list[tuple[Any, ...]]:
    """The definitions of all tables and indexes."""
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master ORDER BY name")
        return [tuple(row) for row in rows]


@contextmanager
def migrating(path: Path, statements: int) -> Iterator[subprocess.Popen[str]]:
    """A process that stands still in the middle of the migration."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.contracts.migrating", str(path), str(statements)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "middle\n"
            yield process
        finally:
            process.kill()


def test_an_upgrade_makes_the_tables_that_the_code_knows(
    tmp_path: Path, open_engine: Callable[[Path], Engine]
) -> None:
    engine = open_engine(tmp_path / "store.db")
    migrate.upgrade(engine)
    with engine.connect() as connection:
        assert migrate.current_revision(connection) == migrate.newest_revision()
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_upgrading_again_changes_nothing(
    tmp_path: Path, open_engine: Callable[[Path], Engine]
) -> None:
    engine = open_engine(tmp_path / "store.db")
    migrate.upgrade(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("INSERT INTO aliases VALUES ('c', 'c', 't', 'global', 7)")
    before = schema_of(engine)
    for _ in range(9):
        migrate.upgrade(engine)
    assert schema_of(engine) == before
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM aliases").all()
    assert [tuple(row) for row in rows] == [("c", "c", "t", "global", 7)]


def test_a_newer_schema_is_refused_and_left_alone(
    tmp_path: Path, open_engine: Callable[[Path], Engine]
) -> None:
    engine = open_engine(tmp_path / "store.db")
    migrate.upgrade(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    before = schema_of(engine)
    with pytest.raises(SchemaMismatch, match=r"9999.*upgrade this one"):
        migrate.upgrade(engine)
    assert schema_of(engine) == before
    with engine.connect() as connection:
        assert migrate.current_revision(connection) == "9999"


@pytest.mark.parametrize("statements", [1, 9, 25])
def test_the_next_start_completes_a_migration_whose_process_was_killed(
    tmp_path: Path, open_engine: Callable[[Path], Engine], statements: int
) -> None:
    path = tmp_path / "store.db"
    with migrating(path, statements) as process:
        process.kill()
        process.wait(PATIENCE_S)
    engine = open_engine(path)
    assert schema_of(engine) == []
    migrate.upgrade(engine)
    whole = open_engine(tmp_path / "whole.db")
    migrate.upgrade(whole)
    assert schema_of(engine) == schema_of(whole)


def test_two_processes_at_once_take_turns(
    tmp_path: Path, open_engine: Callable[[Path], Engine]
) -> None:
    path = tmp_path / "store.db"
    engine = open_engine(path)
    with migrating(path, 9) as process, ThreadPoolExecutor(1) as pool:
        upgrading = pool.submit(migrate.upgrade, engine)
        with pytest.raises(TimeoutError):  # it neither fails nor passes the other by
            upgrading.result(0.2)
        said, _ = process.communicate("\n", PATIENCE_S)
        assert said == "done\n"
        upgrading.result(PATIENCE_S)
    with engine.connect() as connection:
        assert migrate.current_revision(connection) == migrate.newest_revision()
