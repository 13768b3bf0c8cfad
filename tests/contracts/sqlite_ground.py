"""The ground on which the store contract is held against the embedded store."""

from __future__ import annotations

import asyncio
import resource
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from clawbot.ports import Store, Transaction
from clawbot.store import migrate
from clawbot.store.doorbell import bell_folder
from clawbot.store.engine import SqliteStore, open_sqlite_engine, open_sqlite_store
from tests.contracts.store.ground import Ending


async def open_store(address: str, process_id: str) -> SqliteStore:
    """Open the database in the directory `address`."""
    folder = Path(address)
    bells = await asyncio.to_thread(bell_folder, folder)
    return await open_sqlite_store(folder / "store.db", bells, process_id)


def raw(tx: Transaction) -> sqlite3.Connection:
    """The driver's own connection."""
    connection = tx.conn.connection.driver_connection
    assert isinstance(connection, sqlite3.Connection)
    return connection


def fill_up(tx: Transaction) -> None:
    """Need a page more than the disk has."""
    pages = tx.conn.exec_driver_sql("PRAGMA page_count").scalar_one()
    tx.conn.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    try:
        tx.conn.exec_driver_sql(
            "INSERT INTO aliases VALUES ('c', 'c', 'huge', hex(zeroblob(9000000)), 0)"
        )
    finally:
        raw(tx).execute("PRAGMA max_page_count=1073741823")


def be_interrupted(tx: Transaction) -> None:
    """Write until somebody interrupts."""
    raw(tx).set_progress_handler(lambda: 1, 1000)
    try:
        tx.conn.exec_driver_sql(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
            "INSERT INTO aliases SELECT 'c', 'c', 'many' || i, '', 0 FROM n"
        )
    finally:
        raw(tx).set_progress_handler(None, 0)


class SqliteGround:
    """A `Ground`: a directory with a fresh database."""

    opener = "tests.contracts.sqlite_ground:open_store"

    def __init__(self, template: Path, patience_s: float) -> None:
        self.patience_s = patience_s
        # A socket's address is short, so this is not pytest's own directory.
        self.folder = Path(tempfile.mkdtemp(prefix="clawbot-"))
        self.address = str(self.folder)
        self._opened: list[SqliteStore] = []
        self._bells: Path | None = None
        shutil.copy(template, self.folder / "store.db")

    async def open(self, process_id: str) -> Store:
        """See `Ground`."""
        self._bells = await asyncio.to_thread(bell_folder, self.folder)
        store = await open_store(self.address, process_id)
        self._opened.append(store)
        return store

    def count_commits(self, store: Store) -> Callable[[], int]:
        """See `Ground`."""
        assert isinstance(store, SqliteStore)
        commits = 0

        control = store._database.control

        def see(conn: Connection, statement: str) -> None:
            nonlocal commits
            commits += statement == "COMMIT"
            control(conn, statement)

        store._database.control = see  # type: ignore[method-assign]
        return lambda: commits

    def endings(self) -> Sequence[Ending]:
        """See `Ground`."""
        return fill_up, be_interrupted

    @contextmanager
    def unwritable(self) -> Iterator[None]:
        """Let the kernel refuse to make the log longer, as on a full disk."""
        size = (self.folder / "store.db-wal").stat().st_size
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def lose_bells(self) -> None:
        """See `Ground`."""
        assert self._bells is not None
        shutil.rmtree(self._bells)

    async def close(self) -> None:
        """Close all stores; a store that a test broke is left to the end of the process."""
        for store in self._opened:
            if store._writes._thread.is_alive() and not store._closed:
                await store.close()
        shutil.rmtree(self.folder)


def make_template(folder: Path) -> Path:
    """A file with an up-to-date schema, to be copied for each test."""
    path = folder / f"template-{time.time_ns()}.db"
    engine = open_sqlite_engine(path)
    migrate.upgrade(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()
    return path
