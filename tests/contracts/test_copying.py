"""A database copied into the other kind and back is the same, row by row; what is refused."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import JSON, BigInteger, Engine, Table, func, insert, select

from clawbot.errors import RequestRefused
from clawbot.store import copying
from clawbot.store.copying import copied_tables, copy_database, copy_to_file, digest
from clawbot.store.engine import open_sqlite_engine
from clawbot.store.integrity import inspect_database
from clawbot.store.postgres import open_postgres_engine
from clawbot.store.schema import (
    channel_notes,
    inbox,
    metadata,
    outbox,
    outbox_parts,
    sessions,
)
from tests.postgres import Cluster

ROWS = 1203
"""More than two batches, and not a whole number of them."""
TEXTS = ("", "plain", "汉字 ü\n\t'\"\\", "🦞" * 300, "null", "{}")


@pytest.fixture
def source(tmp_path: Path, sqlite_template: Path) -> Iterator[Engine]:
    """A file with rows in every table."""
    path = tmp_path / "source.db"
    shutil.copy(sqlite_template, path)
    engine = open_sqlite_engine(path)
    fill(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def empty(postgres: Cluster) -> Iterator[Engine]:
    """A PostgreSQL database that nobody has used."""
    engine = open_postgres_engine(postgres.url(postgres.create_database()))
    yield engine
    engine.dispose()


def fill(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        for table in metadata.sorted_tables:
            rows = [row_of(table, number) for number in range(ROWS if table is inbox else 7)]
            connection.execute(insert(table), rows)
        connection.exec_driver_sql("COMMIT")


def row_of(table: Table, number: int) -> dict[str, object]:
    """A row in which every column has a value, or none where it may."""
    values: dict[str, object] = {}
    for position, column in enumerate(table.columns):
        kind: type[object] = dict if isinstance(column.type, JSON) else column.type.python_type
        unique = column.primary_key or bool(column.foreign_keys) or column.unique
        if column.nullable and (number + position) % 3 == 0:
            values[column.name] = None
        elif kind is str:
            word = TEXTS[(number + position) % len(TEXTS)]
            values[column.name] = f"{number}-{word}" if unique or "id" in column.name else word
        elif kind is bool:
            values[column.name] = number % 2 == 0
        elif kind is int:
            large = 2**40 if isinstance(column.type, BigInteger) else 0
            values[column.name] = number + 1 if unique else large + number
        elif kind is float:
            values[column.name] = number / 3
        elif kind is bytes:
            values[column.name] = bytes(range(256)) * number
        else:
            values[column.name] = {"text": TEXTS[number % len(TEXTS)], "numbers": [1, 2.5, None]}
    return values


def ignore(_table: str, _rows: int) -> None:
    """Nobody is told."""


def digests(engine: Engine) -> dict[str, copying.Digest]:
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        return {table.name: digest(connection, table) for table in copied_tables()}


def test_a_file_copied_to_postgresql_and_back_is_the_same(
    source: Engine, empty: Engine, tmp_path: Path
) -> None:
    original = digests(source)
    assert original["inbox"].rows == ROWS
    assert copy_database(source, empty, ignore) == original == digests(empty)
    assert copy_to_file(empty, tmp_path / "back.db", ignore) == original
    back = open_sqlite_engine(tmp_path / "back.db")
    assert digests(back) == original
    with back.connect() as connection:
        assert connection.execute(select(channel_notes)).all() == []  # tokens stay where they are
    back.dispose()
    assert [path.name for path in tmp_path.iterdir() if "back" in path.name] == ["back.db"]


def test_new_rows_are_numbered_behind_those_that_were_copied(source: Engine, empty: Engine) -> None:
    copy_database(source, empty, ignore)
    with empty.connect() as connection:
        row = {**row_of(outbox, 99), "id": None}
        del row["id"]
        new_id = connection.execute(insert(outbox).returning(outbox.c.id), row).scalar_one()
        newest = connection.execute(select(func.max(outbox.c.id))).scalar_one()
    assert new_id == newest == 8


def test_a_target_with_rows_is_refused(source: Engine, empty: Engine, tmp_path: Path) -> None:
    copy_database(source, empty, ignore)
    with pytest.raises(RequestRefused, match=r"holds rows: .*inbox \(1203\)"):
        copy_database(source, empty, ignore)
    (tmp_path / "there.db").touch()
    with pytest.raises(RequestRefused, match=r"there\.db: exists"):
        copy_to_file(source, tmp_path / "there.db", ignore)


def test_a_source_with_an_old_schema_is_refused(empty: Engine, tmp_path: Path) -> None:
    old = open_sqlite_engine(tmp_path / "old.db")
    with pytest.raises(RequestRefused, match="run `clawbot db upgrade` on it first"):
        copy_database(old, empty, ignore)
    old.dispose()


class Interrupted(Exception):
    """As the process's end would be."""


def test_an_interrupted_copy_leaves_nothing_and_can_be_made_again(
    source: Engine, empty: Engine, tmp_path: Path
) -> None:
    tables = itertools.count()

    def interrupt(_table: str, _rows: int) -> None:
        if next(tables) % 8 == 7:
            raise Interrupted

    with pytest.raises(Interrupted):
        copy_database(source, empty, interrupt)
    assert {found.rows for found in digests(empty).values()} == {0}
    with pytest.raises(Interrupted):
        copy_to_file(source, tmp_path / "new.db", interrupt)
    assert not (tmp_path / "new.db").exists()
    assert copy_database(source, empty, ignore) == digests(source)
    assert copy_to_file(source, tmp_path / "new.db", ignore) == digests(source)


def test_a_copy_that_differs_is_not_kept(
    source: Engine, empty: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = copying._copy_table

    def forgetful(original: object, target: object, table: Table) -> int:
        copied = honest(original, target, table)  # type: ignore[arg-type]
        if table is sessions:
            target.execute(sessions.update().values(fence=1))  # type: ignore[attr-defined]
        return copied

    monkeypatch.setattr(copying, "_copy_table", forgetful)
    with pytest.raises(RequestRefused, match="table sessions: the copy differs"):
        copy_database(source, empty, ignore)
    assert {found.rows for found in digests(empty).values()} == {0}


def test_what_the_target_cannot_hold_is_told_by_its_table(source: Engine, empty: Engine) -> None:
    with source.connect() as connection:
        connection.execute(outbox.update().where(outbox.c.id == 3).values(text="a\0b"))
    with pytest.raises(RequestRefused, match="table outbox, after row 0: the target does not take"):
        copy_database(source, empty, ignore)


# -- looking it over -------------------------------------------------------------------------------


def test_an_empty_database_is_whole(sqlite_template: Path) -> None:
    engine = open_sqlite_engine(sqlite_template)
    found = inspect_database(engine)
    engine.dispose()
    assert (found.problems, found.revision) == ((), found.newest)
    assert set(found.rows.values()) == {0}


def test_what_contradicts_itself_is_found(source: Engine) -> None:
    with source.connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
        first = outbox_parts.c.outbox_id == 1
        connection.execute(outbox_parts.update().where(first).values(outbox_id=77))
        second = inbox.c.id == 2
        connection.execute(inbox.update().where(second).values(state="claimed", turn_id="none"))
    problems = inspect_database(source).problems
    assert "inbox row 2: claimed by no turn" in problems
    assert "a part of reply 77: there is no such reply" in problems
    assert "integrity: a row of outbox_parts belongs to no row of outbox" in problems


def test_a_damaged_file_is_found(tmp_path: Path, source: Engine) -> None:
    path = Path(source.url.database or "")
    source.dispose()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raw.execute("PRAGMA writable_schema=ON")
        raw.execute("DELETE FROM sqlite_schema WHERE name = 'ix_inbox_turn'")
    raw.close()
    engine = open_sqlite_engine(path)
    assert any("integrity: " in problem for problem in inspect_database(engine).problems)
    engine.dispose()


def test_an_old_schema_is_told(tmp_path: Path) -> None:
    engine = open_sqlite_engine(tmp_path / "old.db")
    assert "run `clawbot db upgrade`" in inspect_database(engine).problems[0]
    engine.dispose()
