"""The embedded store: one SQLite file, shared by all processes of one machine.

One writer thread a process commits the units that wait together (group commit), so that a burst of
messages costs one fsync and not one each; readers have threads of their own. It knows nothing of
the tables. PostgreSQL offers the same `ports.Store`.

Facts it is built on: savepoints do not isolate every failure (after a full disk or an interrupt
SQLite has rolled the whole transaction back, so the units are run again one by one); SQLite's own
busy back-off is coarse, so BEGIN IMMEDIATE is retried here with short jittered waits; before 3.51.3
a checkpoint that runs beside a write can corrupt the log, so automatic checkpoints are off and one
process runs them.
"""

from __future__ import annotations

import asyncio
import os
import queue
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import Insert
from sqlalchemy.pool import NullPool

from clawbot.errors import StartupError, StoreUnavailable
from clawbot.ports import InsertOf, Store, Transaction, Unit, Wakeup
from clawbot.store.checkpoints import Checkpoints
from clawbot.store.doorbell import Doorbell

T = TypeVar("T")

BATCH_UNITS = 256
WAITING_UNITS = 20_000
BUSY_TIMEOUT_S = 10.0
READERS = 4
CHECKPOINT_LOOK_S = 2.0

log = structlog.get_logger(__name__)


class SqliteTransaction:
    """One transaction on the embedded store; see `ports.Transaction`."""

    __slots__ = ("_statements", "conn", "rings")

    def __init__(self, conn: Connection, statements: dict[Callable[..., Any], Any]) -> None:
        self.conn = conn
        self._statements = statements
        self.rings: set[str] = set()

    def ring(self, topic: str) -> None:
        """Wake whoever waits for `topic` after the commit."""
        self.rings.add(topic)

    def insert(self, table: Table) -> Insert:
        """An INSERT with `on_conflict_…`."""
        return sqlite.insert(table)

    def prepared(self, build: Callable[[InsertOf], T]) -> T:
        """A statement that is made once for the store."""
        statement = self._statements.get(build)
        if statement is None:
            statement = self._statements[build] = build(sqlite.insert)
        made: T = statement
        return made

    def lease_ms(self) -> int:
        """The host's clock: all processes of this store are on one host."""
        return time.time_ns() // 1_000_000


class _Job:
    """A unit that waits for the writer, and whom to tell."""

    __slots__ = ("error", "future", "loop", "result", "unit")

    def __init__(self, unit: Unit[Any], loop: asyncio.AbstractEventLoop) -> None:
        self.unit = unit
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None


def open_sqlite_engine(path: Path) -> Engine:
    """An engine whose transactions we begin and end ourselves. Raise StartupError."""
    engine = create_engine(
        f"sqlite+pysqlite:///{path}",
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={"check_same_thread": False, "timeout": 0.0, "cached_statements": 256},
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        for pragma in (
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
        raise StartupError(
            f"store {path}: {_plain(error)}; "
            "see that the directory exists, is writable and has room"
        ) from error
    return engine


def _plain(error: BaseException) -> str:
    origin = getattr(error, "orig", None)
    return str(origin or error)


def _is_busy(error: BaseException) -> bool:
    origin = getattr(error, "orig", None) or error
    code = getattr(origin, "sqlite_errorcode", 0) or 0
    return isinstance(origin, sqlite3.OperationalError) and code & 0xFF in {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    }


def _is_database_fault(error: BaseException) -> bool:
    """Whether the database is at fault, not the unit; a damaged file is a plain DatabaseError."""
    origin = getattr(error, "orig", None) or error
    return isinstance(origin, sqlite3.OperationalError) or type(origin) is sqlite3.DatabaseError


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


class SqliteStore:
    """A `ports.Store` on one SQLite file.

    Its schema is made by `clawbot.store.migrations`; open it with `open_sqlite_store`.
    """

    def __init__(self, engine: Engine, doorbell: Doorbell) -> None:
        self._engine = engine
        self._doorbell = doorbell
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._statements: dict[Callable[..., Any], Any] = {}
        self._waiting = 0
        self._closed = False
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._reader_connections = threading.local()
        self._opened: list[Connection] = []
        self._writer = threading.Thread(target=self._write_jobs, name="store-writer", daemon=True)
        self._writer.start()

    # -- ports.Store -------------------------------------------------------------------------------

    async def write(self, unit: Unit[T]) -> T:
        """Commit a unit, together with others that wait; see `ports.Store.write`."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if self._waiting >= WAITING_UNITS:
            raise StoreUnavailable(
                f"{WAITING_UNITS} writes wait already; the disk does not keep up"
            )
        job = _Job(unit, asyncio.get_running_loop())
        self._waiting += 1
        self._jobs.put(job)
        result: T = await job.future
        return result

    async def read(self, unit: Unit[T]) -> T:
        """Run a reading unit on one snapshot; see `ports.Store.read`."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._read, unit)

    def listen(self, topics: Sequence[str]) -> Wakeup:
        """Hear the rings of `topics`; see `ports.Store.listen`."""
        return self._doorbell.listen(topics)

    async def close(self) -> None:
        """Commit what waits, then close the file and the doorbell."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._end_threads)
        await self._doorbell.close()

    def _end_threads(self) -> None:
        self._writer.join()
        self._readers.shutdown()
        for connection in self._opened:
            connection.close()
        self._engine.dispose()

    # -- the reader threads ------------------------------------------------------------------------

    def _read(self, unit: Unit[T]) -> T:
        try:
            return self._read_snapshot(unit)
        except Exception as error:
            if not _is_database_fault(error):
                raise
            self._forget_reader_connection()
            raise StoreUnavailable(f"the store cannot be read: {_plain(error)}") from error

    def _read_snapshot(self, unit: Unit[T]) -> T:
        conn: Connection | None = getattr(self._reader_connections, "conn", None)
        if conn is None:
            conn = self._engine.connect()
            self._reader_connections.conn = conn
            self._opened.append(conn)
        conn.exec_driver_sql("BEGIN")
        try:
            return unit(SqliteTransaction(conn, self._statements))
        finally:
            _roll_back(conn)

    def _forget_reader_connection(self) -> None:
        conn: Connection | None = self._reader_connections.__dict__.pop("conn", None)
        if conn is not None:
            self._opened.remove(conn)
            conn.close()

    # -- the writer thread -------------------------------------------------------------------------

    def _write_jobs(self) -> None:
        conn: Connection | None = None
        checkpoints = Checkpoints(Path(self._engine.url.database or ""))
        closing = False
        while not closing:
            batch: list[_Job] = []
            job = self._next_job(checkpoints, conn)
            while job is not None:
                batch.append(job)
                if len(batch) == BATCH_UNITS:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            closing = job is None
            if not batch:
                continue
            try:
                if conn is None:
                    conn = self._engine.connect()
                rings = self._commit(conn, batch)
            except Exception as error:  # noqa: BLE001 - the thread outlives any fault
                self._fail(batch, error)
                if conn is not None:
                    conn.close()
                conn, rings = None, set()
            self._tell(batch, rings)
        if conn is not None:
            conn.close()
        checkpoints.close()

    def _next_job(self, checkpoints: Checkpoints, conn: Connection | None) -> _Job | None:
        """Wait for a job; meanwhile, and between two batches, keep the log short."""
        while True:
            if conn is not None:
                try:
                    checkpoints.run_if_due(conn)
                except Exception as error:  # noqa: BLE001 - a full disk must not end the thread
                    log.warning("checkpoint_failed", error=_plain(error))
            try:
                return self._jobs.get(timeout=CHECKPOINT_LOOK_S)
            except queue.Empty:
                continue

    def _commit(self, conn: Connection, batch: list[_Job]) -> set[str]:
        """Commit a batch in one transaction; where that fails, each unit in one of its own.

        A file that is still locked after the long wait fails them all: nobody waits once for each.
        """
        try:
            return self._transact(conn, batch)
        except Exception as error:
            _roll_back(conn)
            if len(batch) == 1 or _is_busy(error):
                raise
        rings: set[str] = set()
        for job in batch:
            try:
                rings |= self._transact(conn, [job])
            except Exception as error:  # noqa: BLE001 - told to the unit's caller
                _roll_back(conn)
                self._fail([job], error)
        return rings

    def _transact(self, conn: Connection, batch: list[_Job]) -> set[str]:
        rings: set[str] = set()
        while_busy(lambda: conn.exec_driver_sql("BEGIN IMMEDIATE"))
        for job in batch:
            transaction = SqliteTransaction(conn, self._statements)
            job.error = job.result = None
            conn.exec_driver_sql("SAVEPOINT unit")
            try:
                job.result = job.unit(transaction)
            except BaseException as error:
                if not _in_transaction(conn):
                    raise
                conn.exec_driver_sql("ROLLBACK TO unit")
                if _is_database_fault(error):
                    error = StoreUnavailable(_plain(error))
                job.error = error
                transaction.rings.clear()
            conn.exec_driver_sql("RELEASE unit")
            rings |= transaction.rings
        while_busy(lambda: conn.exec_driver_sql("COMMIT"))
        return rings

    def _fail(self, batch: list[_Job], error: Exception) -> None:
        for job in batch:
            unavailable = StoreUnavailable(f"the store cannot be written: {_plain(error)}")
            unavailable.__cause__ = error
            job.error = unavailable if _is_database_fault(error) else error

    def _tell(self, batch: list[_Job], rings: set[str]) -> None:
        for loop in {job.loop for job in batch}:
            mine = [job for job in batch if job.loop is loop]
            try:
                loop.call_soon_threadsafe(self._settle, mine)
            except RuntimeError:
                log.warning("write_result_unheard", count=len(mine))  # its loop has ended
        self._doorbell.ring(rings)

    def _settle(self, batch: list[_Job]) -> None:
        for job in batch:
            self._waiting -= 1
            if job.future.cancelled():
                continue
            if isinstance(job.error, StopIteration):
                job.future.set_exception(RuntimeError("a unit raised StopIteration"))
            elif job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)


def _in_transaction(conn: Connection) -> bool:
    raw: sqlite3.Connection = conn.connection.driver_connection  # type: ignore[assignment]
    return raw.in_transaction


def _roll_back(conn: Connection) -> None:
    if _in_transaction(conn):
        conn.exec_driver_sql("ROLLBACK")


async def open_sqlite_store(path: Path, bells: Path, process_id: str) -> SqliteStore:
    """Open the store at `path`, whose schema must be up to date; `bells` is the doorbells' folder.

    Raise StartupError when the file cannot be used.
    """
    engine = await asyncio.to_thread(open_sqlite_engine, path)
    doorbell = await Doorbell.open(bells, process_id)
    return SqliteStore(engine, doorbell)


_: tuple[type[Transaction], type[Store]] = (SqliteTransaction, SqliteStore)
