"""Copying a whole database into an empty one, of the same kind or the other, and proving it equal.

The source is read on one snapshot, table by table in the order in which they depend on each other.
Then both are read again and compared, row by row, by count and hash. A copy that ends early leaves
nothing: on PostgreSQL it is one transaction; a file is written beside its place and moved there at
the end. Blocks; neither database may be in use.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import (
    Connection,
    Engine,
    RowMapping,
    Table,
    func,
    insert,
    inspect,
    literal_column,
    select,
)
from sqlalchemy.exc import DBAPIError

from clawbot.errors import RequestRefused
from clawbot.store.engine import open_sqlite_engine
from clawbot.store.migrate import current_revision, newest_revision, upgrade
from clawbot.store.schema import channel_notes, metadata

BATCH = 500
PARTIAL = ".partial"
_MODULUS = 1 << 256

Told = Callable[[str, int], None]
"""Told each table that is copied, and how many rows that were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What a table holds: the number of rows, and a hash that does not see their order."""

    rows: int
    hash: str


def copied_tables() -> list[Table]:
    """All tables, in the order in which they depend on each other, but the notes of channels: they
    hold tokens, and what they count is asked of the platform again.
    """
    return [table for table in metadata.sorted_tables if table is not channel_notes]


def copy_to_file(source: Engine, path: Path, told: Told) -> dict[str, Digest]:
    """Copy a database into a new SQLite file; return what each table holds. Raise RequestRefused.

    The file appears when all of it is there and is right.
    """
    if path.exists():
        raise RequestRefused(f"{path}: exists; copy to a place where there is no file yet")
    partial = path.with_name(path.name + PARTIAL)
    _remove_file(partial)
    target = open_sqlite_engine(partial)
    try:
        digests = copy_database(source, target, told)
        with target.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        target.dispose()
    with partial.open("rb") as written:
        os.fsync(written.fileno())
    partial.rename(path)
    _remove_file(partial)
    return digests


def _remove_file(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def copy_database(source: Engine, target: Engine, told: Told) -> dict[str, Digest]:
    """Copy all rows into a database without any, whose schema is made where it is missing; return
    what each table holds. Raise RequestRefused, or LookupError when the copy is not equal: then the
    target is as it was.
    """
    with _snapshot(source) as original:
        _refuse_other_schema(original)
        upgrade(target)
        with _transaction(target) as copy:
            refuse_rows(copy)
            for table in copied_tables():
                told(table.name, _copy_table(original, copy, table))
            _go_on_numbering(copy)
            digests = {table.name: digest(copy, table) for table in copied_tables()}
            for table in copied_tables():
                if digest(original, table) != digests[table.name]:
                    raise RequestRefused(
                        f"table {table.name}: the copy differs from its source; nothing was kept. "
                        "See that nobody writes to the source, then copy again"
                    )
    return digests


@contextmanager
def _snapshot(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as connection:
        is_postgres = engine.dialect.name == "postgresql"
        mode = " ISOLATION LEVEL REPEATABLE READ READ ONLY" if is_postgres else ""
        connection.exec_driver_sql(f"BEGIN{mode}")
        try:
            yield connection
        finally:
            connection.exec_driver_sql("ROLLBACK")


@contextmanager
def _transaction(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as connection:
        is_postgres = engine.dialect.name == "postgresql"
        connection.exec_driver_sql("BEGIN" if is_postgres else "BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            if not connection.invalidated:
                connection.exec_driver_sql("ROLLBACK")
            raise
        connection.exec_driver_sql("COMMIT")


def _refuse_other_schema(connection: Connection) -> None:
    found = current_revision(connection)
    if found != newest_revision():
        raise RequestRefused(
            f"the source has schema {found or 'none'}, this clawbot writes {newest_revision()}; "
            "run `clawbot db upgrade` on it first"
        )


def refuse_rows(connection: Connection) -> None:
    """Raise RequestRefused unless a database with our schema holds no rows."""
    filled = [
        f"{table.name} ({rows})"
        for table in copied_tables()
        if (rows := connection.execute(select(func.count()).select_from(table)).scalar_one())
    ]
    if filled:
        raise RequestRefused(
            f"the target holds rows: {', '.join(filled)}; copy into an empty database"
        )


def _copy_table(source: Connection, target: Connection, table: Table) -> int:
    copied = 0
    for batch in _batches(source, table):
        try:
            target.execute(insert(table), [dict(row) for row in batch])
        except DBAPIError as error:
            raise RequestRefused(
                f"table {table.name}, after row {copied}: the target does not take it: "
                f"{str(error.orig).partition(chr(10))[0]}; nothing was kept"
            ) from error
        copied += len(batch)
    return copied


def _batches(connection: Connection, table: Table) -> Iterator[Sequence[RowMapping]]:
    rows = connection.execute(select(table), execution_options={"yield_per": BATCH})
    yield from rows.mappings().partitions()


def digest(connection: Connection, table: Table) -> Digest:
    """What a table holds now."""
    rows, total = 0, 0
    for batch in _batches(connection, table):
        for row in batch:
            hashed = hashlib.sha256(_bytes_of(row)).digest()
            total = (total + int.from_bytes(hashed, "big")) % _MODULUS
        rows += len(batch)
    return Digest(rows=rows, hash=f"{total:064x}")


def _bytes_of(row: RowMapping) -> bytes:
    """A row as the same bytes, whichever database it was read from."""
    return json.dumps(list(row.values()), sort_keys=True, default=_text_of).encode()


def _text_of(value: object) -> str:
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    raise TypeError(f"no column holds {type(value).__name__}")


def _go_on_numbering(connection: Connection) -> None:
    """Let PostgreSQL number new rows behind those that were copied; SQLite does so by itself."""
    if connection.dialect.name != "postgresql":
        return
    numbered = {table: table.autoincrement_column for table in copied_tables()}
    for table, column in numbered.items():
        if column is None or not _has_sequence(connection, table, column.name):
            continue
        newest = connection.execute(select(func.max(column))).scalar_one()
        if newest is not None:
            sequence = func.pg_get_serial_sequence(table.name, column.name)
            connection.execute(select(func.setval(sequence, literal_column(str(int(newest))))))


def _has_sequence(connection: Connection, table: Table, column: str) -> bool:
    sequence = select(func.pg_get_serial_sequence(table.name, column))
    return connection.execute(sequence).scalar_one() is not None


def has_schema(connection: Connection) -> bool:
    """Whether a database was ever made clawbot's."""
    return inspect(connection).has_table("alembic_version")
