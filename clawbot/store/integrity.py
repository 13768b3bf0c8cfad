"""What a database holds, and whether it is whole: for `clawbot db check`. Reads only; blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, Select, func, select

from clawbot.store.migrate import current_revision, newest_revision
from clawbot.store.schema import (
    events,
    inbox,
    messages,
    metadata,
    outbox,
    outbox_parts,
    sessions,
    turns,
)

MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A database as it was found. `open_rows` has what has not ended, by table and state; without
    the newest schema nothing else was looked at.
    """

    revision: str | None
    newest: str
    rows: Mapping[str, int]
    open_rows: Mapping[str, Mapping[str, int]]
    problems: tuple[str, ...]


def inspect_database(engine: Engine) -> Inspection:
    """Look at everything."""
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        try:
            return _inspect(connection)
        finally:
            connection.exec_driver_sql("ROLLBACK")


def _inspect(connection: Connection) -> Inspection:
    revision, newest = current_revision(connection), newest_revision()
    problems = list(_damage(connection))
    if revision != newest:
        problems.append(
            f"schema {revision or 'none'}: this clawbot writes {newest}; run `clawbot db upgrade`"
        )
        return Inspection(
            revision=revision, newest=newest, rows={}, open_rows={}, problems=tuple(problems)
        )
    rows = {
        table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for table in metadata.sorted_tables
    }
    open_rows = {
        "inbox": _by_state(
            connection, select(inbox.c.state, func.count()).where(inbox.c.settled_ms.is_(None))
        ),
        "turns": _by_state(
            connection, select(turns.c.state, func.count()).where(turns.c.ended_ms.is_(None))
        ),
        "outbox": _by_state(
            connection, select(outbox.c.state, func.count()).where(outbox.c.settled_ms.is_(None))
        ),
    }
    problems += _contradictions(connection)
    return Inspection(
        revision=revision, newest=newest, rows=rows, open_rows=open_rows, problems=tuple(problems)
    )


def _by_state(connection: Connection, query: Select[str, int]) -> dict[str, int]:
    rows = connection.execute(query.group_by(query.selected_columns[0]))
    return {row[0]: row[1] for row in rows}


def _damage(connection: Connection) -> Iterator[str]:
    """What the database itself finds wrong."""
    if connection.dialect.name == "sqlite":
        for row in connection.exec_driver_sql(f"PRAGMA integrity_check({MOST_PROBLEMS})"):
            if row[0] != "ok":
                yield f"integrity: {row[0]}"
        for row in connection.exec_driver_sql("PRAGMA foreign_key_check"):
            yield f"integrity: a row of {row[0]} belongs to no row of {row[2]}"
        return
    for row in connection.exec_driver_sql(
        "SELECT conname FROM pg_constraint "
        "WHERE connamespace = current_schema()::regnamespace AND NOT convalidated"
    ):
        yield f"integrity: the constraint {row[0]} was never proved"
    for row in connection.exec_driver_sql(
        "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
        "WHERE relnamespace = current_schema()::regnamespace AND NOT (indisvalid AND indisready)"
    ):
        yield f"integrity: the index {row[0]} is not usable; run REINDEX INDEX {row[0]}"


def _contradictions(connection: Connection) -> Iterator[str]:
    """What clawbot never writes."""
    several = (
        select(turns.c.session_key)
        .where(turns.c.ended_ms.is_(None))
        .group_by(turns.c.session_key)
        .having(func.count() > 1)
    )
    turn_of = turns.c.id == inbox.c.turn_id
    claimed = (
        select(inbox.c.id)
        .outerjoin(turns, turn_of)
        .where(inbox.c.state == "claimed", turns.c.id.is_(None))
    )
    parts = (
        select(outbox_parts.c.outbox_id)
        .outerjoin(outbox, outbox.c.id == outbox_parts.c.outbox_id)
        .where(outbox.c.id.is_(None))
    )
    found = {
        "session {}: more than one open turn": several,
        "inbox row {}: claimed by no turn": claimed,
        "a part of reply {}: there is no such reply": parts,
    }
    for table in (messages, events):
        ahead = (
            select(sessions.c.key)
            .join(table, table.c.session_key == sessions.c.key)
            .group_by(sessions.c.key, sessions.c.last_seq)
            .having(func.max(table.c.seq) > sessions.c.last_seq)
        )
        found[f"session {{}}: {table.name} are numbered beyond its counter"] = ahead
    for problem, query in found.items():
        for value in connection.execute(query.limit(MOST_PROBLEMS)).scalars():
            yield problem.format(value)
