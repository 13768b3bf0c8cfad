"""The processes and channels that run."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from clawbot.store.schema.base import metadata

processes = Table(
    "processes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("heartbeat_ms", BigInteger, nullable=False),
    Column("facts", JSON(none_as_null=True)),  # its troubles, by what they concern
)

channel_state = Table(
    "channel_state",
    metadata,
    Column("channel", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("detail", Text, nullable=False, server_default=""),
    Column("facts", JSON(none_as_null=True)),
    Column("process_id", Text),
    # The one process that serves it, where the platform keeps one connection; see store.holding.
    Column("holder", Text),
    Column("last_in_ms", BigInteger),
    Column("last_out_ms", BigInteger),
    Column("updated_ms", BigInteger, nullable=False),
)

# Also tokens that a platform lent us: they go into no copy and no diagnostics.
channel_notes = Table(
    "channel_notes",
    metadata,
    Column("channel", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("until_ms", BigInteger, nullable=False, index=True),
    PrimaryKeyConstraint("channel", "key"),
)
