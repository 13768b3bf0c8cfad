"""The embedded store: one SQLite file, shared by all processes of one machine.

One writer thread a process commits the units that wait together, readers have threads of their own
(`group_commit`). It knows nothing of
the tables. PostgreSQL offers the same `ports.Store`.

Facts it is built on: after a full disk or an interrupt SQLite has rolled the whole transaction back
by itself, so the units of a batch are run again one by one; SQLite's own
busy back-off is coarse, so BEGIN IMMEDIATE is retried here with short jittered waits; before 3.51.3
a checkpoint that runs beside a write can corrupt the log, so automatic checkpoints are off and one
process runs them.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, Executable, Table, create_engine, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import Insert
from sqlalchemy.pool import NullPool

from clawbot.errors import StartupError, StoreAway, startup_error_of
from clawbot.ports import InsertOf, Parameters, Rows, Store, Transaction, Unit, Wakeup
from clawbot.store.checkpoints import Checkpoints
from clawbot.store.doorbell import Doorbell
from clawbot.store.group_commit import GroupCommit, Readers
from clawbot.store.statements import Statements

T = TypeVar("T")

BUSY_TIMEOUT_S = 10.0
READERS = 4


class SqliteTransaction:
    """One transaction on the embedded store; see `ports.Transaction`."""

    __slots__ = ("_driver", "_statements", "conn", "rings")

    def __init__(self, conn: Connection, statements: Statements) -> None:
        self.conn = conn
        self._driver = _driver(conn)
        self._statements = statements
        self.rings: set[str] = set()

    def ring(self, topic: str) -> None:
        """Wake whoever waits for `topic` after the commit."""
        self.rings.add(topic)

    def insert(self, table: Table) -> Insert:
        """An INSERT with `on_conflict_…`."""
        return sqlite.insert(table)

    def run(self, statement: Executable, of: Parameters | Sequence[Parameters]) -> Rows:
        """Run a statement that lives as long as the process."""
        return self._statements.run(self._driver, statement, of)

    def prepared(self, build: Callable[[InsertOf], T]) -> T:
        """A statement that is made once for the store."""
        return self._statements.prepared(build)

    def lease_ms(self) -> int:
        """The host's clock: all processes of this store are on one host."""
        return time.time_ns() // 1_000_000


def open_sqlite_engine(path: Path) -> Engine:
    """An engine whose transactions we begin and end ourselves. Raise StartupError; StoreAway where
    the disk, and not the file or its rights, is the reason.
    """
    engine = create_engine(
        f"sqlite+pysqlite:///{path}",
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={"check_same_thread": False, "timeout": 0.0, "cached_statements": 256},
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        pages = partial(connection.execute, "PRAGMA page_count")
        while_busy(pages)
        # Only a new file takes the first one (see retention.compact); of another it would wait for
        # whoever writes there.
        is_new = pages().fetchone()[0] == 0
        for pragma in (
            *(["auto_vacuum=INCREMENTAL"] if is_new else []),
            "journal_mode=WAL",
            "synchronous=FULL",
            "wal_autocheckpoint=0",
            "foreign_keys=ON",
            "temp_store=MEMORY",
            "cache_size=-16384",
        ):
            while_busy(partial(connection.execute, f"PRAGMA {pragma}"))

    try:
        engine.connect().close()
        if not os.access(path, os.W_OK):  # SQLite opens it all the same, and fails when it writes
            raise PermissionError("the file is read-only")  # noqa: TRY301 - told like the others
    except Exception as error:
        is_damaged = type(_origin(error)) is sqlite3.DatabaseError
        remedy = (
            "restore a backup, or move the file away to begin anew"
            if is_damaged
            else "see that the directory exists, is writable and has room"
        )
        kind = StartupError if is_damaged or not _may_be_written(path) else StoreAway
        raise kind(f"store {path}: {_plain(error)}; {remedy}") from error
    return engine


def _may_be_written(path: Path) -> bool:
    """Whether the rights of the file and its directory allow it, whatever the disk allows."""
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError as error:
        return startup_error_of(error) is StoreAway
    return True


def while_busy(action: Callable[[], object]) -> None:
    """Try again while another process holds the lock, with short jittered waits."""
    give_up = time.monotonic() + BUSY_TIMEOUT_S
    wait = 0.0005
    while True:
        try:
            action()
        except Exception as error:
            if not _is_busy(error) or time.monotonic() > give_up:
                raise
        else:
            return
        time.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
        wait = min(wait * 1.5, 0.005)


class SqliteDatabase:
    """What group commit needs of SQLite; see `group_commit.Database`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._statements = Statements(engine.dialect)
        self._checkpoints = Checkpoints(Path(engine.url.database or ""))

    def connect(self) -> Connection:
        """A connection whose transactions we begin and end ourselves."""
        return self._engine.connect()

    def transaction(self, conn: Connection) -> SqliteTransaction:
        """What a unit is given."""
        return SqliteTransaction(conn, self._statements)

    def begin(self, conn: Connection, *, reads: bool) -> None:
        """Take the lock at once when something is to be written, waiting for who holds it."""
        if reads:
            self.control(conn, "BEGIN")
        else:
            while_busy(lambda: self.control(conn, "BEGIN IMMEDIATE"))

    def commit(self, conn: Connection, rings: set[str]) -> None:  # noqa: ARG002 - rung afterwards
        """Commit, durably."""
        while_busy(lambda: self.control(conn, "COMMIT"))

    def control(self, conn: Connection, statement: str) -> None:
        """Say something about the transaction itself."""
        self._statements.control(_driver(conn), statement)

    def is_open(self, conn: Connection) -> bool:
        """Whether SQLite has not rolled the transaction back by itself."""
        return _driver(conn).in_transaction

    def roll_back(self, conn: Connection) -> bool:
        """End the transaction, if SQLite has not."""
        if self.is_open(conn):
            self.control(conn, "ROLLBACK")
        return True

    def idle(self, conn: Connection) -> None:
        """Keep the log short."""
        self._checkpoints.run_if_due(conn)

    def is_fault(self, error: BaseException) -> bool:
        """Whether the database is at fault, not the unit; a damaged file is a DatabaseError."""
        origin = _origin(error)
        return isinstance(origin, sqlite3.OperationalError) or type(origin) is sqlite3.DatabaseError

    def is_lost(self, error: BaseException) -> bool:
        """A file that is still locked after the long wait fails all."""
        return _is_busy(error)

    def is_conflict(self, error: BaseException) -> bool:  # noqa: ARG002 - see the docstring
        """Never: writers take turns."""
        return False

    def plain(self, error: BaseException) -> str:
        """SQLite's own words."""
        return _plain(error)

    def close(self) -> None:
        """Leave the checkpoints to another process."""
        self._checkpoints.close()


def _driver(conn: Connection) -> sqlite3.Connection:
    driver: sqlite3.Connection = conn.connection.driver_connection  # type: ignore[assignment]
    return driver


def _origin(error: BaseException) -> BaseException:
    return getattr(error, "orig", None) or error


def _plain(error: BaseException) -> str:
    return str(_origin(error))


def _is_busy(error: BaseException) -> bool:
    origin = _origin(error)
    code = getattr(origin, "sqlite_errorcode", 0) or 0
    return isinstance(origin, sqlite3.OperationalError) and code & 0xFF in {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    }


class SqliteStore:
    """A `ports.Store` on one SQLite file.

    Its schema is made by `clawbot.store.migrations`; open it with `open_sqlite_store`.
    """

    def __init__(self, engine: Engine, doorbell: Doorbell) -> None:
        self._engine = engine
        self._doorbell = doorbell
        self._database = SqliteDatabase(engine)
        self._writes = GroupCommit(self._database, doorbell.ring)
        self._reads = Readers(self._database, threads=READERS)
        self._closed = False

    async def write(self, unit: Unit[T]) -> T:
        """Commit a unit, together with others that wait; see `ports.Store.write`."""
        return await self._writes.write(unit)

    async def read(self, unit: Unit[T]) -> T:
        """Run a reading unit on one snapshot; see `ports.Store.read`."""
        return await self._reads.read(unit)

    def listen(self, topics: Sequence[str]) -> Wakeup:
        """Hear the rings of `topics`; see `ports.Store.listen`."""
        return self._doorbell.ears.listen(topics)

    async def close(self) -> None:
        """Commit what waits, then close the file and the doorbell."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._end_threads)
        await self._doorbell.close()

    def _end_threads(self) -> None:
        self._writes.close()
        self._reads.close()
        self._database.close()
        self._engine.dispose()


async def open_sqlite_store(path: Path, bells: Path, process_id: str) -> SqliteStore:
    """Open the store at `path`, whose schema must be up to date; `bells` is the doorbells' folder.

    Raise StartupError when the file cannot be used.
    """
    engine = await asyncio.to_thread(open_sqlite_engine, path)
    doorbell = await Doorbell.open(bells, process_id)
    return SqliteStore(engine, doorbell)


_: tuple[type[Transaction], type[Store]] = (SqliteTransaction, SqliteStore)
