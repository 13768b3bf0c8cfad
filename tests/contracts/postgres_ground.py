"""The ground on which the store contract is held against PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg
from sqlalchemy import event

from clawbot.ports import Store, Transaction
from clawbot.store import migrate
from clawbot.store.postgres import PostgresStore, open_postgres_engine, open_postgres_store
from tests.contracts.store.ground import Ending
from tests.postgres import Cluster


async def open_store(address: str, _process_id: str) -> PostgresStore:
    """Open the database at the URL `address`."""
    return await open_postgres_store(address)


def make_schema(url: str) -> None:
    """Bring an empty database up to date."""
    engine = open_postgres_engine(url)
    migrate.upgrade(engine)
    engine.dispose()


def lose_the_connection(tx: Transaction) -> None:
    """Be ended by the server in the middle of a unit."""
    tx.conn.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")


class PostgresGround:
    """A `Ground`: a database of its own in the tests' cluster."""

    opener = "tests.contracts.postgres_ground:open_store"

    def __init__(self, cluster: Cluster, template: str, patience_s: float) -> None:
        self.patience_s = patience_s
        self._cluster = cluster
        self._name = cluster.create_database(template)
        self.address = cluster.url(self._name)
        self._opened: list[PostgresStore] = []

    async def open(self, process_id: str) -> Store:
        """See `Ground`."""
        store = await open_store(self.address, process_id)
        self._opened.append(store)
        return store

    def count_commits(self, store: Store) -> Callable[[], int]:
        """See `Ground`."""
        assert isinstance(store, PostgresStore)
        commits = 0

        def see(_conn: object, _cursor: object, statement: str, *_rest: object) -> None:
            nonlocal commits
            commits += statement == "COMMIT"

        event.listen(store._engine, "before_cursor_execute", see)
        return lambda: commits

    def endings(self) -> Sequence[Ending]:
        """See `Ground`."""
        return (lose_the_connection,)

    @contextmanager
    def unwritable(self) -> Iterator[None]:
        """Let the server refuse connections to the database, and end those there are."""
        self._administer("ALTER DATABASE {} ALLOW_CONNECTIONS false")
        self._end_connections()
        try:
            yield
        finally:
            self._administer("ALTER DATABASE {} ALLOW_CONNECTIONS true")

    def lose_bells(self) -> None:
        """End the connections; the listening one comes back after a second."""
        self._end_connections("LISTEN%")

    def _end_connections(self, query: str = "%") -> None:
        """End connections and wait until they are gone (at most 5 s, as the server counts)."""
        with psycopg.connect(self._admin_url(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = %s AND query LIKE %s AND pid <> pg_backend_pid()",
                (self._name, query),
            )

    def _administer(self, statement: str) -> None:
        with psycopg.connect(self._admin_url(), autocommit=True) as connection:
            connection.execute(statement.format(f'"{self._name}"').encode())

    def _admin_url(self) -> str:
        return self._cluster.url("postgres").replace("postgresql+psycopg://", "postgresql://")

    async def close(self) -> None:
        """Close all stores and drop the database."""
        for store in self._opened:
            await store.close()
        self._cluster.drop_database(self._name)
