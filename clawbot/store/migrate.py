"""Bringing a database to this clawbot's schema.

Each migration is one transaction, so a process that is killed in the middle leaves the version
before it and the next start goes on. A database made by a newer clawbot is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from clawbot.errors import SchemaMismatch
from clawbot.store.engine import while_busy

ADVISORY_LOCK = 0x636C6177  # "claw": held while a PostgreSQL database is upgraded


def _alembic(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


def newest_revision() -> str:
    """The schema revision that this clawbot writes."""
    head = ScriptDirectory.from_config(_alembic()).get_current_head()
    assert head is not None, "the package holds no migrations"  # noqa: S101 - a broken build
    return head


def current_revision(connection: Connection) -> str | None:
    """The schema revision of a database; None = empty."""
    return MigrationContext.configure(connection).get_current_revision()


def upgrade(engine: Engine) -> None:
    """Bring the database up to date; nothing happens when it is. Blocks; one process at a time.

    Raise SchemaMismatch when a newer clawbot made it.
    """
    with engine.connect() as connection:
        if current_revision(connection) == newest_revision():
            return
        with _turn_of(connection):
            _refuse_newer(connection)
            command.upgrade(_alembic(connection), "head")


@contextmanager
def _turn_of(connection: Connection) -> Iterator[None]:
    """One transaction and one lock from the first look to the commit: processes take turns."""
    is_postgres = connection.dialect.name == "postgresql"
    if is_postgres:
        connection.exec_driver_sql(f"SELECT pg_advisory_lock({ADVISORY_LOCK})")
        connection.exec_driver_sql("BEGIN")
    else:
        while_busy(lambda: connection.exec_driver_sql("BEGIN EXCLUSIVE"))
    try:
        yield
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise
    else:
        connection.exec_driver_sql("COMMIT")
    finally:
        if is_postgres:
            connection.exec_driver_sql(f"SELECT pg_advisory_unlock({ADVISORY_LOCK})")


def _refuse_newer(connection: Connection) -> None:
    found = current_revision(connection)
    known = {item.revision for item in ScriptDirectory.from_config(_alembic()).walk_revisions()}
    if found is not None and found not in known:
        raise SchemaMismatch(
            f"store: made by a newer clawbot (schema {found}); upgrade this one, or use the state "
            "directory of its own version"
        )
