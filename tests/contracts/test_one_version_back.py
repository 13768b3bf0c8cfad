"""Code of one version back on this schema: a rolling upgrade migrates while old processes run on.

What old code does is known from the schema that it was written for: it names the columns of that
one, and no others, in what it inserts, reads and changes. So the schema of each revision is read
from a database that was brought up to it, and rows are written by it, before and after the next
migration. (A process that starts is another matter: it refuses a newer schema.)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import JSON, Boolean, Connection, Engine, MetaData, Table, types
from sqlalchemy.exc import DBAPIError

from clawbot.store import migrate
from clawbot.store.engine import open_sqlite_engine
from clawbot.store.postgres import open_postgres_engine

FIRST_PROMISED = "0008"
"""From this revision on; before it there was no release."""


def steps() -> list[tuple[str, str]]:
    """Each promised revision and the one after it."""
    scripts = ScriptDirectory.from_config(migrate._alembic())
    revisions = sorted(script.revision for script in scripts.walk_revisions())
    first = revisions.index(FIRST_PROMISED)
    return list(zip(revisions[first:], revisions[first + 1 :], strict=False))


def bring_to(connection: Connection, revision: str) -> None:
    with migrate._turn_of(connection):
        command.upgrade(migrate._alembic(connection), revision)


def value_for(kind: types.TypeEngine[Any], number: int) -> object:
    """Something that a column of this type takes."""
    if isinstance(kind, JSON):
        return {"number": number}
    if isinstance(kind, Boolean):
        return bool(number % 2)
    if isinstance(kind, types.LargeBinary):
        return b"data"
    if isinstance(kind, types.Integer | types.Numeric | types.Float):
        return number
    return f"text {number}"


def row_for(table: Table, number: int) -> dict[str, object]:
    """A row with every column that old code may name."""
    return {column.name: value_for(column.type, number) for column in table.columns}


def work_as_before(connection: Connection, old: MetaData, number: int) -> None:
    """Insert, change, read and delete as code does that knows the old tables alone."""
    tables = [table for table in old.sorted_tables if table.name != "alembic_version"]
    for table in tables:
        connection.execute(table.insert().values(row_for(table, number)))
    for table in reversed(tables):
        row = row_for(table, number)
        is_it = [column == row[column.name] for column in table.primary_key]
        other = {
            column.name: value_for(column.type, number)
            for column in table.columns
            if not column.primary_key
        }
        if other:
            assert connection.execute(table.update().where(*is_it).values(other)).rowcount == 1
        found = connection.execute(table.select().where(*is_it)).mappings().one()
        assert set(found) == set(row)
        assert connection.execute(table.delete().where(*is_it)).rowcount == 1


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An empty database."""
    if request.param == "sqlite":
        made = open_sqlite_engine(tmp_path / "store.db")
    else:
        url: str = request.getfixturevalue("postgres_url")
        made = open_postgres_engine(url.replace("+psycopg", ""))
    yield made
    made.dispose()


def test_there_is_a_step_to_try() -> None:
    assert steps()


@pytest.mark.parametrize(("before", "after"), steps())
def test_what_ran_before_a_migration_runs_on_after_it(
    engine: Engine, before: str, after: str
) -> None:
    with engine.connect() as connection:
        bring_to(connection, before)
        old = MetaData()
        old.reflect(connection)
        work_as_before(connection, old, 1)
        bring_to(connection, after)
        work_as_before(connection, old, 2)


@pytest.mark.parametrize(
    "careless",
    [
        "ALTER TABLE processes ADD COLUMN more TEXT NOT NULL DEFAULT 'x' CHECK (more <> 'x')",
        "ALTER TABLE processes RENAME COLUMN host TO machine",
        "ALTER TABLE processes DROP COLUMN pid",
        "DROP TABLE seeds",
    ],
)
def test_a_careless_migration_is_noticed(engine: Engine, careless: str) -> None:
    with engine.connect() as connection:
        bring_to(connection, FIRST_PROMISED)
        old = MetaData()
        old.reflect(connection)
        connection.exec_driver_sql(careless)
        with pytest.raises(DBAPIError):
            work_as_before(connection, old, 1)
