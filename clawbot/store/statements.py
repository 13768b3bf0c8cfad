"""Statements of the embedded store that run with every message, compiled once.

Running a statement through SQLAlchemy costs several times what SQLite needs for it: it is found out
anew each time what the statement is, how its parameters are ordered and converted, and what its
columns are. Here that is kept, and the driver is called directly; what comes back is SQLAlchemy's
own kind of result. PostgreSQL needs nothing of the kind: there a statement's time is the network's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import BindParameter, Dialect, Executable
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.sql.visitors import cloned_traverse

from clawbot.ports import InsertOf, Parameters, Rows, T

_Convert = Callable[[Any], Any]


class Statements:
    """The compiled statements of one store, for all its threads.

    Only for statements that are made once and live as long as the process: each is kept here.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._texts: dict[tuple[object, ...], _Text] = {}
        self._prepared: dict[Callable[[InsertOf], Any], Any] = {}

    def prepared(self, build: Callable[[InsertOf], T]) -> T:
        """See `ports.Transaction.prepared`."""
        statement: T | None = self._prepared.get(build)
        if statement is None:
            statement = self._prepared[build] = build(sqlite.insert)
        return statement

    def run(
        self,
        driver: sqlite3.Connection,
        statement: Executable,
        of: Parameters | Sequence[Parameters],
    ) -> Rows:
        """Run a statement; rows are fetched as they are read. Raise as SQLAlchemy does."""
        if isinstance(of, Mapping):
            text = self._text(statement, of)
            return text.run(driver, text.values(of))
        text = self._text(statement, of[0])
        return text.run_many(driver, [text.values(each) for each in of])

    def control(self, driver: sqlite3.Connection, sql: str) -> None:
        """Begin or end a transaction, or a part of one. Raise as SQLAlchemy does."""
        try:
            driver.execute(sql)
        except sqlite3.Error as error:
            raise _wrapped(error, sql, ()) from error

    def _text(self, statement: Executable, parameters: Parameters) -> _Text:
        key = (statement, *parameters)  # statements are compared by identity
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = _Text(statement, self._dialect, parameters)
        if not text.lists:
            return text
        sized = (*key, *(len(parameters[name]) for name in text.lists))
        found = self._texts.get(sized)
        if found is None:
            found = self._texts[sized] = _Text(statement, self._dialect, parameters)
        return found


class _Text:
    """One statement as SQL, for one set of parameter names and the lengths of its lists."""

    def __init__(self, statement: Executable, dialect: Dialect, parameters: Parameters) -> None:
        lists: list[str] = []

        def prepare(bind: BindParameter[Any]) -> None:
            if bind.required and bind.key not in parameters:
                raise InvalidRequestError(f"a value is required for {bind.key}")
            bind.required = False
            if bind.expanding and bind.key in parameters:
                lists.append(bind.key)
                bind.value = [None] * len(parameters[bind.key])

        template: Any = statement
        whole = cloned_traverse(template, {}, {"bindparam": prepare})
        compiled = whole.compile(
            dialect=dialect,
            column_keys=list(parameters),
            compile_kwargs={"render_postcompile": True},
        )
        self.lists = tuple(lists)
        self.sql: str = compiled.string
        given = {*parameters} | {
            f"{name}_{number}" for name in lists for number in range(1, len(parameters[name]) + 1)
        }
        self._order: list[tuple[str | None, _Convert | None, Any]] = []
        for name in compiled.positiontup or ():
            convert = _to_database(compiled.binds, name, dialect)
            constant = compiled.params[name]
            if name in given:
                self._order.append((name, convert, None))
            else:
                self._order.append((None, None, convert(constant) if convert else constant))
        columns = list(getattr(whole, "exported_columns", {}).items())
        self._columns = SimpleResultMetaData([name for name, _ in columns])
        self._from_database = [
            (place, convert)
            for place, (_, column) in enumerate(columns)
            if (convert := column.type.dialect_impl(dialect).result_processor(dialect, None))
        ]

    def values(self, parameters: Parameters) -> list[Any]:
        """The parameters in the order of the question marks."""
        if self.lists:
            parameters = {**parameters, **dict(_numbered(parameters, self.lists))}
        return [
            constant
            if name is None
            else (convert(parameters[name]) if convert else parameters[name])
            for name, convert, constant in self._order
        ]

    def run(self, driver: sqlite3.Connection, values: list[Any]) -> Rows:
        try:
            cursor = driver.execute(self.sql, values)
        except sqlite3.Error as error:
            raise _wrapped(error, self.sql, values) from error
        rows: Iterable[Any] = cursor
        if self._from_database:
            rows = map(self._converted, cursor)
        return IteratorResult(self._columns, iter(rows))

    def run_many(self, driver: sqlite3.Connection, values: list[list[Any]]) -> Rows:
        try:
            driver.executemany(self.sql, values)
        except sqlite3.Error as error:
            raise _wrapped(error, self.sql, values) from error
        return IteratorResult(self._columns, iter(()))

    def _converted(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        changed = list(row)
        for place, convert in self._from_database:
            changed[place] = convert(row[place])
        return tuple(changed)


def _wrapped(error: sqlite3.Error, sql: str, values: Sequence[Any]) -> Exception:
    return DBAPIError.instance(sql, values, error, sqlite3.Error)


def _to_database(
    binds: Mapping[str, BindParameter[Any]], name: str, dialect: Dialect
) -> _Convert | None:
    """How a parameter becomes what the driver takes; an item of a list is named after the list."""
    bind = binds[name] if name in binds else binds[name.rpartition("_")[0]]
    return bind.type.dialect_impl(dialect).bind_processor(dialect)


def _numbered(parameters: Parameters, lists: Iterable[str]) -> Iterator[tuple[str, Any]]:
    for name in lists:
        for number, item in enumerate(parameters[name], start=1):
            yield f"{name}_{number}", item
