"""How a store is broken: one function of it is replaced for the time of a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Connection

from clawbot.ports import Transaction
from clawbot.store.engine import SqliteStore
from tests.contracts.sqlite_ground import SqliteGround

Apply = Callable[[pytest.MonkeyPatch, SqliteGround], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A fault, and the clause that must notice it.

    raises: what the clause may end in besides a failed assertion or a wait in vain.
    """

    clause: str
    fault: str
    apply: Apply
    raises: tuple[type[Exception], ...] = ()


def replacing(owner: object, name: str, new: object) -> Apply:
    """Replace a function, class or value."""
    return lambda patch, _ground: patch.setattr(owner, name, new)


def wrapping(owner: object, name: str, wrap: Callable[..., object]) -> Apply:
    """Replace a function by `wrap`, which is given the original first."""

    def apply(patch: pytest.MonkeyPatch, _ground: SqliteGround) -> None:
        original = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> object:
            return wrap(original, *args, **kwargs)

        patch.setattr(owner, name, wrapped)

    return apply


def afterwards(owner: object, name: str, statement: str) -> Apply:
    """Let a unit run a statement of SQL after its work."""

    def wrap(original: Callable[..., object], tx: Transaction, *args: Any, **kw: Any) -> object:
        result = original(tx, *args, **kw)
        tx.conn.exec_driver_sql(statement)
        return result

    return wrapping(owner, name, wrap)


def before(owner: object, name: str, statement: str) -> Apply:
    """Let a unit run a statement of SQL before its work."""

    def wrap(original: Callable[..., object], tx: Transaction, *args: Any, **kw: Any) -> object:
        tx.conn.exec_driver_sql(statement)
        return original(tx, *args, **kw)

    return wrapping(owner, name, wrap)


def rewriting(**statements: str) -> Apply:
    """Let the database do other than it is told. `a_b="c"`: when told "a b" it does "c"."""
    told = {name.replace("_", " "): instead for name, instead in statements.items()}

    def wrap(original: Callable[..., None], self: SqliteStore, *args: Any, **kw: Any) -> None:
        original(self, *args, **kw)
        rewrite(self, told)

    return wrapping(SqliteStore, "__init__", wrap)


def rewrite(store: SqliteStore, told: Mapping[str, str]) -> None:
    """See `rewriting`."""
    control = store._database.control

    def instead(conn: Connection, statement: str) -> None:
        control(conn, told.get(statement, statement))

    store._database.control = instead  # type: ignore[method-assign]


def changing(owner: object, name: str, **changes: object) -> Apply:
    """Call a function with other keyword arguments than its caller's."""

    def wrap(original: Callable[..., object], *args: Any, **kwargs: Any) -> object:
        return original(*args, **kwargs | changes)

    return wrapping(owner, name, wrap)


def nothing(*_args: object, **_kwargs: object) -> None:
    """Do not do it."""
