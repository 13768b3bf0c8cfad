"""What all tables share."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, text

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite numbers rows by itself only for a column declared INTEGER.
RowId = BigInteger().with_variant(Integer(), "sqlite")


def partial_index(name: str, *columns: Column[Any], where: str) -> Index:
    """An index of the rows for which `where` holds, on both databases."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))
