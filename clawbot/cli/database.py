"""`clawbot db …`: upgrade the database, look it over, copy it into another one, prune it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clawbot.cli.options import DEFAULT_CONFIG, ConfigPath
from clawbot.cli.store_access import existing_state, with_store
from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.errors import RequestRefused
from clawbot.ports import Store
from clawbot.state_dir import hold_state_dir

if TYPE_CHECKING:
    from sqlalchemy import Engine

POSTGRES = "postgresql://"

app = typer.Typer(help="Look after the database.", no_args_is_help=True)


@app.command()
def upgrade(config: ConfigPath = DEFAULT_CONFIG) -> None:
    """Bring the database's schema up to date, as the next start would."""
    from clawbot.store import migrate

    with _engine_of(existing_state(config)) as engine:
        with engine.connect() as connection:
            before = migrate.current_revision(connection)
        migrate.upgrade(engine)
    newest = migrate.newest_revision()
    if before == newest:
        typer.echo(f"schema {newest}: was up to date")
    else:
        typer.echo(f"schema {newest}: upgraded from {before or 'an empty database'}")


@app.command()
def check(config: ConfigPath = DEFAULT_CONFIG) -> None:
    """Show what the database holds and whether it is whole; exit code 1 = it is not."""
    from clawbot.store.integrity import inspect_database

    with _engine_of(existing_state(config)) as engine:
        found = inspect_database(engine)
    typer.echo(f"schema {found.revision or 'none'} (this clawbot: {found.newest})")
    for table, rows in found.rows.items():
        states = found.open_rows.get(table, {})
        told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        typer.echo(f"  {table:16} {rows:>10} rows{f', open: {told}' if told else ''}")
    for problem in found.problems:
        typer.echo(problem, err=True)
    if found.problems:
        raise typer.Exit(1)
    typer.echo("whole: nothing wrong was found")


@app.command()
def copy(
    target: Annotated[
        str,
        typer.Argument(
            envvar="CLAWBOT_COPY_TO",
            help="postgresql://USER:PASSWORD@HOST/NAME, a database without rows; or the path of a "
            "SQLite file that does not exist. Best set in the environment: a password in a command "
            "is seen by everybody on the host.",
        ),
    ],
    config: ConfigPath = DEFAULT_CONFIG,
) -> None:
    """Copy the database that the config names into an empty one, and prove the copy.

    Nothing of clawbot may run on it. Afterwards change `database` in the config. A copy that is
    interrupted leaves nothing in the target: run it again.
    """
    from clawbot.store.copying import copy_database, copy_to_file
    from clawbot.store.postgres import open_postgres_engine

    loaded = existing_state(config)
    started = time.monotonic()

    def told(table: str, rows: int) -> None:
        typer.echo(f"  {table:16} {rows:>10} rows")

    with hold_state_dir(loaded.state_dir), _engine_of(loaded) as source:
        _refuse_in_use(source, loaded)
        if target.startswith(POSTGRES):
            to = open_postgres_engine(target)
            try:
                digests = copy_database(source, to, told)
            finally:
                to.dispose()
        else:
            digests = copy_to_file(source, Path(target), told)
        _refuse_in_use(source, loaded)
    rows = sum(digest.rows for digest in digests.values())
    seconds = time.monotonic() - started
    typer.echo(f"copied {rows} rows in {seconds:.1f} s; both sides hold the same, row by row")


@app.command()
def prune(config: ConfigPath = DEFAULT_CONFIG) -> None:
    """Remove what is older than `retention:` says; `clawbot run` does so by itself, each hour."""
    from clawbot.housekeeping import Housekeeping

    async def sweep(loaded: Config, store: Store) -> dict[str, int]:
        keeper = Housekeeping(store, SystemClock(), loaded.retention, loaded.state_dir)
        return await keeper.round()

    removed = with_store(config, sweep)
    told = ", ".join(f"{name} {rows}" for name, rows in removed.items())
    typer.echo(f"removed: {told or 'nothing, all is kept'}")


@contextmanager
def _engine_of(config: Config) -> Iterator[Engine]:
    """The config's database, which must exist. Raise StartupError or RequestRefused."""
    from clawbot.parts import STORE_FILE
    from clawbot.store.engine import open_sqlite_engine
    from clawbot.store.postgres import open_postgres_engine

    if config.database is not None:
        engine = open_postgres_engine(config.database.get_secret_value())
    else:
        path = config.state_dir / STORE_FILE
        if not path.exists():
            raise RequestRefused(f"{path}: does not exist; clawbot never ran here")
        engine = open_sqlite_engine(path)
    try:
        yield engine
    finally:
        engine.dispose()


def _refuse_in_use(engine: Engine, config: Config) -> None:
    """Refuse a database on which a process has given a sign of life within the lease."""
    from clawbot.store import processes
    from clawbot.store.copying import has_schema
    from clawbot.store.engine import SqliteTransaction
    from clawbot.store.postgres import PostgresTransaction
    from clawbot.store.statements import Statements

    with engine.connect() as connection:
        if not has_schema(connection):
            return
        lease_ms = config.limits.lease_s * 1000
        is_postgres = engine.dialect.name == "postgresql"
        found = processes.live(
            PostgresTransaction(connection, {})
            if is_postgres
            else SqliteTransaction(connection, Statements(engine.dialect))
        )
        names = ", ".join(row.id for row in found if row.age_ms < lease_ms)
    if names:
        raise RequestRefused(
            f"in use by {names}; stop every clawbot on this database, then copy again"
        )
