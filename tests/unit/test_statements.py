"""Compiled statements: the same rows, values and exceptions as through SQLAlchemy."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import IntegrityError, InvalidRequestError, OperationalError

from clawbot.ports import InsertOf
from clawbot.store.statements import Statements

things = Table(
    "things",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("facts", JSON(none_as_null=True)),
    Column("is_new", Boolean),
)
INSERT = insert(things)
NAMED = select(things).where(things.c.name.in_(bindparam("names", expanding=True)))
FRESH = NAMED.where(things.c.is_new.is_(True), things.c.id.in_((1, 2, 3))).limit(1)
RENAME = (
    update(things)
    .where(things.c.name == bindparam("old"))
    .values(name=bindparam("new"), is_new=False)
    .returning(things.c.id, things.c.facts)
)
A = {"name": "a", "facts": {"x": [1]}, "is_new": True}
B = {"name": "b", "facts": None, "is_new": False}


@pytest.fixture
def driver() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(
            "CREATE TABLE things (id INTEGER PRIMARY KEY, name UNIQUE, facts, is_new)"
        )
        yield connection


@pytest.fixture
def statements() -> Statements:
    return Statements(sqlite.dialect())


def found(statements: Statements, driver: sqlite3.Connection, *names: str) -> list[Any]:
    rows = statements.run(driver, NAMED, {"names": list(names)}).mappings()
    return [dict(row) for row in rows]


def test_what_was_written_comes_back_in_the_types_of_its_columns(
    statements: Statements, driver: sqlite3.Connection
) -> None:
    statements.run(driver, INSERT, A)
    assert found(statements, driver, "a") == [{"id": 1, **A}]


def test_several_rows_are_written_at_once(
    statements: Statements, driver: sqlite3.Connection
) -> None:
    statements.run(driver, INSERT, [A, B])
    assert [row["name"] for row in found(statements, driver, "a", "b", "c")] == ["a", "b"]


def test_a_list_may_have_another_length_each_time(
    statements: Statements, driver: sqlite3.Connection
) -> None:
    statements.run(driver, INSERT, [A, B])
    assert [len(found(statements, driver, *names)) for names in ("a", "ab", "", "b")] == [
        1,
        2,
        0,
        1,
    ]


def test_values_of_the_statement_itself_stand_in_their_places(
    statements: Statements, driver: sqlite3.Connection
) -> None:
    statements.run(driver, INSERT, [A, B])
    for _ in range(2):
        assert statements.run(driver, FRESH, {"names": ["b", "a"]}).mappings().one()["name"] == "a"


def test_a_change_returns_what_it_is_asked_for(
    statements: Statements, driver: sqlite3.Connection
) -> None:
    statements.run(driver, INSERT, A)
    assert statements.run(driver, RENAME, {"old": "a", "new": "z"}).one() == (1, {"x": [1]})
    assert statements.run(driver, RENAME, {"old": "a", "new": "z"}).one_or_none() is None
    assert found(statements, driver, "z")[0]["is_new"] is False


def test_a_statement_of_the_dialect_is_made_once(statements: Statements) -> None:
    made = []

    def build(insert_of: InsertOf) -> Any:
        made.append(insert_of(things).on_conflict_do_nothing())
        return made[-1]

    assert statements.prepared(build) is statements.prepared(build)
    assert len(made) == 1


def test_a_parameter_that_is_missing_is_refused(
    statements: Statements, driver: sqlite3.Connection
) -> None:
    with pytest.raises(InvalidRequestError, match="old"):
        statements.run(driver, RENAME, {"new": "z"})


def test_errors_are_those_of_sqlalchemy(statements: Statements, driver: sqlite3.Connection) -> None:
    statements.run(driver, INSERT, A)
    with pytest.raises(IntegrityError):
        statements.run(driver, INSERT, A)
    with pytest.raises(IntegrityError):
        statements.run(driver, INSERT, [A])
    with pytest.raises(OperationalError):
        statements.control(driver, "COMMIT")


def test_a_plain_text_is_run_too(statements: Statements, driver: sqlite3.Connection) -> None:
    statements.run(driver, text("BEGIN"), {})
    assert driver.in_transaction
