"""The store on PostgreSQL: the same units, shared by the processes of many machines.

A writer thread commits what waits together; claims skip rows that others have locked; rings
travel as notifications with the commit they tell of, and a listening connection passes them on. A
lost connection fails what was on its way (nothing of it was kept, or its commit went unheard, which
fences and identities make harmless) and is opened anew by the next call.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

import psycopg
import structlog
from psycopg import errors, pq
from sqlalchemy import (
    Connection,
    Engine,
    Executable,
    Table,
    create_engine,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import Insert
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from clawbot.errors import StoreAway
from clawbot.ports import InsertOf, Parameters, Rows, Store, Transaction, Unit, Wakeup
from clawbot.store.ears import Ears
from clawbot.store.group_commit import GroupCommit, Readers
from clawbot.store.migrate import upgrade

T = TypeVar("T")

READERS = 4
CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_S = 30
BELL = "clawbot"
RECONNECT_S = 1.0

# A network that swallows everything ends no connection by itself: each side gives the other up
# after about this time, so that no lock is held and no writer hangs for as long as TCP would try.
SILENCE_S = 10
_WE_GIVE_UP: dict[str, Any] = {
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": SILENCE_S * 1000,
}
_SERVER_GIVES_UP = {
    "statement_timeout": STATEMENT_TIMEOUT_S * 1000,
    "idle_in_transaction_session_timeout": SILENCE_S * 1000,
    "tcp_keepalives_idle": 4,
    "tcp_keepalives_interval": 2,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": SILENCE_S * 1000,
}

_LEASE = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
_NOTIFY = text("SELECT pg_notify(:bell, topic) FROM unnest(cast(:topics AS text[])) AS topic")

log = structlog.get_logger(__name__)


class PostgresTransaction:
    """One transaction on PostgreSQL; see `ports.Transaction`."""

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
        return postgresql.insert(table)

    def run(self, statement: Executable, of: Parameters | Sequence[Parameters]) -> Rows:
        """Run a statement that lives as long as the process."""
        return self.conn.execute(statement, of)

    def prepared(self, build: Callable[[InsertOf], T]) -> T:
        """A statement that is made once for the store."""
        statement = self._statements.get(build)
        if statement is None:
            statement = self._statements[build] = build(postgresql.insert)
        made: T = statement
        return made

    def lease_ms(self) -> int:
        """The database's clock: the hosts' may differ."""
        return int(self.conn.execute(_LEASE).scalar_one())


class PostgresDatabase:
    """What group commit needs of PostgreSQL; see `group_commit.Database`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._statements: dict[Callable[..., Any], Any] = {}

    def connect(self) -> Connection:
        """A connection whose transactions we begin and end ourselves."""
        return self._engine.connect()

    def transaction(self, conn: Connection) -> PostgresTransaction:
        """What a unit is given."""
        return PostgresTransaction(conn, self._statements)

    def begin(self, conn: Connection, *, reads: bool) -> None:
        """Begin to write, or to read one snapshot."""
        # Units may write what follows from what they read: a row that somebody else changed in
        # between is a conflict, and the unit is run again.
        mode = "READ ONLY" if reads else "READ WRITE"
        conn.exec_driver_sql(f"BEGIN ISOLATION LEVEL REPEATABLE READ {mode}")

    def commit(self, conn: Connection, rings: set[str]) -> None:
        """Commit; the rings are heard when it is done."""
        if rings:
            conn.execute(_NOTIFY, {"bell": BELL, "topics": sorted(rings)})
        conn.exec_driver_sql("COMMIT")

    def is_open(self, conn: Connection) -> bool:
        """Whether the connection lives and is in a transaction, failed or not."""
        open_states = {pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR}
        return _status(conn) in open_states

    def roll_back(self, conn: Connection) -> bool:
        """End the transaction; False = the connection is dead."""
        if self.is_open(conn):
            conn.exec_driver_sql("ROLLBACK")
        return _status(conn) == pq.TransactionStatus.IDLE

    def idle(self, conn: Connection) -> None:
        """PostgreSQL keeps house by itself."""

    def is_fault(self, error: BaseException) -> bool:
        """Whether the connection, the server or another transaction is at fault, not the unit."""
        return isinstance(_origin(error), (psycopg.OperationalError, psycopg.InterfaceError))

    def is_lost(self, error: BaseException) -> bool:
        """Whether there is no server to talk to: an error that no server has sent."""
        origin = _origin(error)
        return isinstance(origin, psycopg.OperationalError) and origin.sqlstate is None

    def is_conflict(self, error: BaseException) -> bool:
        """A deadlock, or a row that somebody else changed meanwhile."""
        return isinstance(_origin(error), (errors.DeadlockDetected, errors.SerializationFailure))

    def plain(self, error: BaseException) -> str:
        """The server's first line."""
        return str(_origin(error)).partition("\n")[0]


def _origin(error: BaseException) -> BaseException:
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def _status(conn: Connection) -> pq.TransactionStatus:
    if conn.closed or conn.invalidated:
        return pq.TransactionStatus.UNKNOWN
    raw: psycopg.Connection[Any] | None = conn.connection.driver_connection
    return pq.TransactionStatus.UNKNOWN if raw is None else raw.info.transaction_status


class PostgresStore:
    """A `ports.Store` on PostgreSQL; open it with `open_postgres_store`."""

    def __init__(self, engine: Engine, bell: Bell) -> None:
        database = PostgresDatabase(engine)
        self._engine = engine
        self._bell = bell
        self._writes = GroupCommit(database, _nobody)
        self._reads = Readers(database, threads=READERS)
        self._closed = False

    async def write(self, unit: Unit[T]) -> T:
        """Commit a unit, together with others that wait; see `ports.Store.write`."""
        return await self._writes.write(unit)

    async def read(self, unit: Unit[T]) -> T:
        """Run a reading unit on one snapshot; see `ports.Store.read`."""
        return await self._reads.read(unit)

    def listen(self, topics: Sequence[str]) -> Wakeup:
        """Hear the rings of `topics`; see `ports.Store.listen`."""
        return self._bell.ears.listen(topics)

    async def close(self) -> None:
        """Commit what waits, then close the connections."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._end_threads)
        await self._bell.close()

    def _end_threads(self) -> None:
        self._writes.close()
        self._reads.close()
        self._engine.dispose()


def _nobody(_topics: AbstractSet[str]) -> None:
    """Rings travel with the commit."""


class Bell:
    """The connection that hears notifications, reopened for as long as the store is open."""

    def __init__(self, conninfo: str) -> None:
        self.ears = Ears()
        self.hears = asyncio.Event()
        self._conninfo = conninfo
        self._task = asyncio.create_task(self._hear(), name="bell")

    async def close(self) -> None:
        """Hear no more."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _hear(self) -> None:
        """Pass rings on; while nothing can be heard, waiting costs a second more."""
        is_lost = False
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._conninfo,
                    autocommit=True,
                    connect_timeout=CONNECT_TIMEOUT_S,
                    **_WE_GIVE_UP,
                ) as connection:
                    await connection.execute(f"LISTEN {BELL}")
                    self.hears.set()
                    if is_lost:
                        log.info("bell_heard_again")
                        is_lost = False
                    async for notification in connection.notifies():
                        self.ears.ring({notification.payload})
            except psycopg.Error as error:
                if not is_lost:
                    log.warning("bell_lost", error=str(error).partition("\n")[0])
                is_lost = True
            await asyncio.sleep(RECONNECT_S)


def open_postgres_engine(url: str) -> Engine:
    """An engine whose transactions we begin and end ourselves. Raise StoreAway.

    `url` is postgresql://USER:PASSWORD@HOST:PORT/DATABASE.
    """
    engine = create_engine(
        make_url(url).set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={
            "connect_timeout": CONNECT_TIMEOUT_S,
            "options": " ".join(f"-c {name}={value}" for name, value in _SERVER_GIVES_UP.items()),
            **_WE_GIVE_UP,
            "application_name": "clawbot",
        },
    )
    try:
        engine.connect().close()
    except Exception as error:
        where = make_url(url).render_as_string(hide_password=True)
        reason = str(_origin(error)).partition("\n")[0]
        raise StoreAway(f"store {where}: {reason}; see that the server runs") from error
    return engine


async def open_postgres_store(url: str) -> PostgresStore:
    """Open the store, whose schema must be up to date. Raise StoreAway."""
    engine = await asyncio.to_thread(open_postgres_engine, url)
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    bell = Bell(plain)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await bell.hears.wait()
    except TimeoutError as error:
        await bell.close()
        raise StoreAway("store: the server takes no listening connection") from error
    return PostgresStore(engine, bell)


async def open_upgraded_store(url: str) -> PostgresStore:
    """Open the store after bringing its schema up to date. Raise StartupError."""

    def prepare() -> None:
        engine = open_postgres_engine(url)
        try:
            upgrade(engine)
        finally:
            engine.dispose()

    await asyncio.to_thread(prepare)
    return await open_postgres_store(url)


_: tuple[type[Transaction], type[Store]] = (PostgresTransaction, PostgresStore)
