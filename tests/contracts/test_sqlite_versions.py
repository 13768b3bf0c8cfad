"""Scenarios E2 and E3: a database of each earlier schema becomes one of this, with all its rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    JSON,
    Boolean,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    insert,
    select,
)

from clawbot.errors import SchemaMismatch
from clawbot.session_key import SessionKey
from clawbot.store import migrate
from clawbot.store.engine import open_sqlite_engine
from clawbot.store.schema import metadata

PATIENCE_S = 30.0
EARLIER = [
    item.revision
    for item in ScriptDirectory.from_config(migrate._alembic()).walk_revisions()
    if not item.is_head
][::-1]
Rows = dict[str, list[dict[str, Any]]]


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


def tables_of(engine: Engine) -> list[Table]:
    """The tables as they are in a database now."""
    found = MetaData()
    with engine.connect() as connection:
        found.reflect(connection)
    return [table for table in found.sorted_tables if table.name != "alembic_version"]


def schema_of(engine: Engine) -> list[tuple[Any, ...]]:
    """The definitions of all tables and indexes."""
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master ORDER BY name")
        return [tuple(row) for row in rows]


def rows_of(engine: Engine, tables: list[Table]) -> Rows:
    """All rows, of these columns."""
    with engine.connect() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(select(table)).mappings().all()]
            for table in tables
        }


def value_of(column: Any, number: int) -> Any:
    """Something for a column that must have a value."""
    if column.name in {"key", "session_key"}:
        return str(SessionKey.of_chat("desk", f"C{number}"))
    if isinstance(column.type, Boolean):
        return bool(number % 2)
    if isinstance(column.type, Integer | Float | Numeric):
        return number
    if isinstance(column.type, JSON):
        return {"n": number}
    text = f"{column.name} {number} äöü"
    return text.encode() if isinstance(column.type, LargeBinary) else text


def fill(engine: Engine, tables: list[Table]) -> None:
    """Put rows into all tables: some with what must be given, some with every column."""
    with engine.connect() as connection:
        for table in tables:
            for number in range(1, 5):
                columns = [
                    column
                    for column in table.columns
                    if number % 2 or not (column.nullable or column.server_default)
                ]
                values = {column.name: value_of(column, number) for column in columns}
                connection.execute(insert(table).values(values))


def at_revision(engine: Engine, revision: str) -> None:
    """Make an empty database as an earlier clawbot made it."""
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN EXCLUSIVE")
        command.upgrade(migrate._alembic(connection), revision)
        connection.exec_driver_sql("COMMIT")


def test_there_is_an_earlier_schema() -> None:
    assert EARLIER[0] == "0001"


@pytest.mark.parametrize("times", [1, 2, 10])
@pytest.mark.parametrize("revision", EARLIER)
def test_e2_each_earlier_schema_is_upgraded_once_and_again_to_the_same_with_the_same_rows(
    tmp_path: Path, open_engine: Callable[[Path], Engine], revision: str, times: int
) -> None:
    engine = open_engine(tmp_path / "store.db")
    at_revision(engine, revision)
    tables = tables_of(engine)
    fill(engine, tables)
    before = rows_of(engine, tables)
    for _ in range(times):
        migrate.upgrade(engine)
    assert rows_of(engine, tables) == before
    fresh = open_engine(tmp_path / "fresh.db")
    migrate.upgrade(fresh)
    assert schema_of(engine) == schema_of(fresh)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
        assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []


@pytest.mark.parametrize("revision", EARLIER)
def test_e2_rows_without_a_context_fall_into_global(
    tmp_path: Path, open_engine: Callable[[Path], Engine], revision: str
) -> None:
    engine = open_engine(tmp_path / "store.db")
    at_revision(engine, revision)
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "INSERT INTO sessions (key, created_ms, active_ms) VALUES ('desk:C1', 1, 2)"
        )
    migrate.upgrade(engine)
    with engine.connect() as connection:
        row = connection.execute(select(metadata.tables["sessions"])).mappings().one()
    assert (row["context_type"], row["context_id"], row["archived"]) == ("global", "", False)


@pytest.mark.parametrize("statements", [1, 2, 3])
@pytest.mark.parametrize("revision", EARLIER)
def test_e2_an_upgrade_that_was_killed_half_way_is_completed_by_the_next_start(
    tmp_path: Path, open_engine: Callable[[Path], Engine], revision: str, statements: int
) -> None:
    path = tmp_path / "store.db"
    engine = open_engine(path)
    at_revision(engine, revision)
    tables = tables_of(engine)
    fill(engine, tables)
    before, schema = rows_of(engine, tables), schema_of(engine)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.contracts.migrating", str(path), str(statements)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() in {"middle\n", "done\n"}
        process.kill()
        process.wait(PATIENCE_S)
    with engine.connect() as connection:
        found = migrate.current_revision(connection)
    if found == revision:  # else the upgrade has so few statements that it was done
        assert schema_of(engine) == schema
    migrate.upgrade(engine)
    assert rows_of(engine, tables) == before
    with engine.connect() as connection:
        assert migrate.current_revision(connection) == migrate.newest_revision()


@pytest.mark.parametrize("revision", EARLIER)
def test_e3_what_an_earlier_clawbot_reads_and_writes_still_works_after_the_upgrade(
    tmp_path: Path, open_engine: Callable[[Path], Engine], revision: str
) -> None:
    engine = open_engine(tmp_path / "store.db")
    at_revision(engine, revision)
    tables = tables_of(engine)
    migrate.upgrade(engine)
    fill(engine, tables)  # by the columns that the earlier one knew
    assert all(len(rows) == 4 for rows in rows_of(engine, tables).values())


@pytest.mark.parametrize("revision", [*EARLIER, migrate.newest_revision()])
def test_e2_a_newer_schema_is_refused_and_left_alone(
    tmp_path: Path, open_engine: Callable[[Path], Engine], revision: str
) -> None:
    engine = open_engine(tmp_path / "store.db")
    at_revision(engine, revision)
    tables = tables_of(engine)
    fill(engine, tables)
    with engine.connect() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    before, schema = rows_of(engine, tables), schema_of(engine)
    with pytest.raises(SchemaMismatch, match=r"9999.*upgrade this one"):
        migrate.upgrade(engine)
    assert (rows_of(engine, tables), schema_of(engine)) == (before, schema)
