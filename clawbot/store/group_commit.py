"""Group commit: units of work that wait together are committed together.

A burst of messages costs one flush to the disk and not one each. Hardly any unit raises, so none
has a savepoint, which would cost two statements each: where one raises, the batch is undone and run
again without it. Where the database itself fails a batch, its units are run again one by one. What
a database does differently stands behind `Database`.
"""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import structlog
from sqlalchemy import Connection

from clawbot.errors import StoreUnavailable
from clawbot.ports import Transaction, Unit

T = TypeVar("T")

BATCH_UNITS = 256
WAITING_UNITS = 20_000
LOOK_AGAIN_S = 2.0
CONFLICT_TRIES = 8

log = structlog.get_logger(__name__)


class RingingTransaction(Transaction, Protocol):
    """A transaction that gathers the topics to ring after its commit."""

    rings: set[str]


class Database(Protocol):
    """What group commit needs of a database. Called from the store's threads alone."""

    def connect(self) -> Connection:
        """A connection whose transactions are begun and ended here."""
        ...

    def transaction(self, conn: Connection) -> RingingTransaction:
        """What a unit is given."""
        ...

    def begin(self, conn: Connection, *, reads: bool) -> None:
        """Begin a transaction: to write, or to read one snapshot."""
        ...

    def commit(self, conn: Connection, rings: set[str]) -> None:
        """Commit; `rings` may travel with it."""
        ...

    def is_open(self, conn: Connection) -> bool:
        """Whether there is still a transaction, failed or not, after a unit raised."""
        ...

    def roll_back(self, conn: Connection) -> bool:
        """End the transaction, if there is one, whatever state it is in; False = the connection
        is of no use any more.
        """
        ...

    def idle(self, conn: Connection) -> None:
        """Between two transactions: see to the database's own housekeeping."""
        ...

    def is_fault(self, error: BaseException) -> bool:
        """Whether the database is at fault, and not the unit."""
        ...

    def is_lost(self, error: BaseException) -> bool:
        """Whether trying each unit by itself is in vain: nobody can write now."""
        ...

    def is_conflict(self, error: BaseException) -> bool:
        """Whether another transaction got in the way, so that the same unit may succeed again."""
        ...

    def plain(self, error: BaseException) -> str:
        """The error in the database's own short words."""
        ...


class Job:
    """A unit that waits for a writer, and whom to tell."""

    __slots__ = ("error", "future", "loop", "result", "unit")

    def __init__(self, unit: Unit[Any], loop: asyncio.AbstractEventLoop) -> None:
        self.unit = unit
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None


class _Link:
    """A writer's connection: made when it is needed, made anew when it was lost."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None

    @property
    def is_up(self) -> bool:
        return self._connection is not None

    def connection(self) -> Connection:
        if self._connection is None:
            self._connection = self._database.connect()
        return self._connection

    def roll_back(self) -> None:
        """End the transaction; a connection that cannot even do that is given up."""
        if self._connection is not None and not self._database.roll_back(self._connection):
            self.drop()

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None


class _UnitRaisedError(Exception):
    """One of several units raised; `place` is its number in the batch."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class GroupCommit:
    """The writer thread of one store; a unit is committed when its call returns."""

    def __init__(self, database: Database, ring: Callable[[AbstractSet[str]], None]) -> None:
        self._database = database
        self._ring = ring
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._waiting = 0
        self._closed = False
        # One thread: what a process asks for first is done first.
        self._thread = threading.Thread(target=self._write_jobs, name="store-writer", daemon=True)
        self._thread.start()

    async def write(self, unit: Unit[T]) -> T:
        """Commit a unit, together with others that wait; see `ports.Store.write`."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if self._waiting >= WAITING_UNITS:
            raise StoreUnavailable(
                f"{WAITING_UNITS} writes wait already; the database does not keep up"
            )
        job = Job(unit, asyncio.get_running_loop())
        self._waiting += 1
        self._jobs.put(job)
        result: T = await job.future
        return result

    def close(self) -> None:
        """Commit what waits, then end the thread. Blocks."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join()

    # -- the writer thread -------------------------------------------------------------------------

    def _write_jobs(self) -> None:
        link = _Link(self._database)
        closing = False
        while not closing:
            batch: list[Job] = []
            job = self._next_job(link)
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
                rings = self._commit(link, batch)
            except Exception as error:  # noqa: BLE001 - the thread outlives any fault
                self._fail(batch, error)
                link.drop()
                rings = set()
            self._tell(batch, rings)
        link.drop()

    def _next_job(self, link: _Link) -> Job | None:
        while True:
            if link.is_up:
                try:
                    self._database.idle(link.connection())
                except Exception as error:  # noqa: BLE001 - a full disk must not end the thread
                    log.warning("housekeeping_failed", error=self._database.plain(error))
            try:
                return self._jobs.get(timeout=LOOK_AGAIN_S)
            except queue.Empty:
                continue

    def _commit(self, link: _Link, batch: list[Job]) -> set[str]:
        """Commit a batch in one transaction. A unit that raises is set aside and run again alone,
        its neighbours without it; where the commit fails, each unit is one of its own.

        Where nobody can write now they all fail: they do not wait once for each.
        """
        try:
            return self._transact(link.connection(), batch)
        except _UnitRaisedError as raised:
            link.roll_back()
            place = raised.place
            parts = [batch[:place], batch[place : place + 1], batch[place + 1 :]]
        except Exception as error:
            link.roll_back()
            is_conflict = self._database.is_conflict(error)
            if self._database.is_lost(error) or (len(batch) == 1 and not is_conflict):
                raise
            parts = [[job] for job in batch]
        rings: set[str] = set()
        for part in filter(None, parts):
            try:
                if len(part) == 1:
                    rings |= self._commit_alone(link, part[0])
                else:
                    rings |= self._commit(link, part)
            except Exception as error:  # noqa: BLE001 - told to the units' callers
                link.roll_back()
                self._fail(part, error)
        return rings

    def _commit_alone(self, link: _Link, job: Job) -> set[str]:
        """Commit one unit, again as long as other transactions get in its way."""
        for attempt in range(CONFLICT_TRIES):
            try:
                return self._transact(link.connection(), [job])
            except Exception as error:
                link.roll_back()
                if attempt == CONFLICT_TRIES - 1 or not self._database.is_conflict(error):
                    raise
            time.sleep(random.uniform(0, 0.002 * 2**attempt))  # noqa: S311 - jitter
        raise AssertionError  # the last attempt returns or raises

    def _transact(self, conn: Connection, batch: list[Job]) -> set[str]:
        rings: set[str] = set()
        self._database.begin(conn, reads=False)
        for place, job in enumerate(batch):
            transaction = self._database.transaction(conn)
            job.error = job.result = None
            try:
                job.result = job.unit(transaction)
            except BaseException as error:
                if self._database.is_conflict(error) or not self._database.is_open(conn):
                    raise
                if len(batch) > 1:
                    raise _UnitRaisedError(place) from error
                self._database.roll_back(conn)
                if self._database.is_fault(error):
                    error = StoreUnavailable(self._database.plain(error))
                job.error = error
                return set()
            rings |= transaction.rings
        self._database.commit(conn, rings)
        return rings

    def _fail(self, batch: list[Job], error: Exception) -> None:
        for job in batch:
            plain = self._database.plain(error)
            unavailable = StoreUnavailable(f"the store cannot be written: {plain}")
            unavailable.__cause__ = error
            job.error = unavailable if self._database.is_fault(error) else error

    def _tell(self, batch: list[Job], rings: set[str]) -> None:
        # First whoever waits elsewhere: once this process's loop goes on, it holds up this thread.
        self._ring(rings)
        for loop in {job.loop for job in batch}:
            mine = [job for job in batch if job.loop is loop]
            try:
                loop.call_soon_threadsafe(self._settle, mine)
            except RuntimeError:
                log.warning("write_result_unheard", count=len(mine))  # its loop has ended

    def _settle(self, batch: list[Job]) -> None:
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


class Readers:
    """The reader threads of one store, each with a connection of its own."""

    def __init__(self, database: Database, *, threads: int) -> None:
        self._database = database
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="store-reader")
        self._mine = threading.local()
        self._opened: list[Connection] = []
        self._closed = False

    async def read(self, unit: Unit[T]) -> T:
        """Run a reading unit on one snapshot; see `ports.Store.read`."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, unit)

    def close(self) -> None:
        """Let what runs end, then close the connections. Blocks."""
        self._closed = True
        self._threads.shutdown()
        for connection in self._opened:
            connection.close()

    def _read(self, unit: Unit[T]) -> T:
        conn: Connection | None = getattr(self._mine, "conn", None)
        if conn is None or conn.closed:
            conn = self._connected()
        try:
            self._database.begin(conn, reads=True)
            try:
                return unit(self._database.transaction(conn))
            finally:
                self._database.roll_back(conn)
        except Exception as error:
            if not self._database.is_fault(error):
                raise
            conn.invalidate()
            conn.close()
            raise StoreUnavailable(
                f"the store cannot be read: {self._database.plain(error)}"
            ) from error

    def _connected(self) -> Connection:
        try:
            conn = self._database.connect()
        except Exception as error:
            if not self._database.is_fault(error):
                raise
            raise StoreUnavailable(
                f"the store cannot be read: {self._database.plain(error)}"
            ) from error
        self._mine.conn = conn
        self._opened = [one for one in self._opened if not one.closed] + [conn]
        return conn
