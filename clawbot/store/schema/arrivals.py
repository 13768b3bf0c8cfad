"""What has arrived, and where it belongs."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from clawbot.store.schema.base import RowId, metadata, partial_index

inbox = Table(
    "inbox",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("channel", Text, nullable=False),
    Column("identity", Text, nullable=False),
    # received -> queued -> claimed -> done | dead; context; refused
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("chat_id", Text, nullable=False),
    Column("chat_type", Text, nullable=False),
    Column("thread", Text),
    Column("sender_id", Text, nullable=False),
    Column("sender_name", Text, nullable=False, server_default=""),
    Column("sender_is_bot", Boolean, nullable=False, server_default=false()),
    Column("text", Text, nullable=False),
    Column("attachments", JSON(none_as_null=True)),
    Column("raw", Text, nullable=False, server_default=""),
    Column("mentioned", Boolean, nullable=False, server_default=false()),
    Column("is_late", Boolean, nullable=False, server_default=false()),
    Column("sent_ms", BigInteger),
    Column("accepted_ms", BigInteger, nullable=False),
    Column("settled_ms", BigInteger),
    Column("session_key", Text),  # none for a context row
    Column("seq", BigInteger),
    Column("route", JSON(none_as_null=True)),  # none: answered where the session is read, not sent
    Column("place_thread", Text),
    Column("command", Text),
    Column("turn_id", Text),
    Column("enrich_by_ms", BigInteger),  # set as long as something must be loaded
    Column("enrich_holder", Text),
    Column("typing_mark", Text),  # of the sign that its answer is being prepared, while it stands
    Column("inline_holder", Text),
    Column("inline_until_ms", BigInteger),
    UniqueConstraint("channel", "identity"),
)
partial_index("ix_inbox_open", inbox.c.session_key, inbox.c.seq, where="settled_ms IS NULL")
partial_index("ix_inbox_unenriched", inbox.c.channel, inbox.c.id, where="enrich_by_ms IS NOT NULL")
partial_index("ix_inbox_typing", inbox.c.channel, where="typing_mark IS NOT NULL")
partial_index(
    "ix_inbox_context",
    inbox.c.channel,
    inbox.c.chat_id,
    inbox.c.id,
    where="state = 'context'",
)
Index("ix_inbox_turn", inbox.c.turn_id)
Index("ix_inbox_chat", inbox.c.channel, inbox.c.chat_id, inbox.c.place_thread)

seen = Table(
    "seen",
    metadata,
    Column("channel", Text, nullable=False),
    Column("transport_id", Text, nullable=False),
    Column("inbox_id", BigInteger),
    Column("at_ms", BigInteger, nullable=False, index=True),
    PrimaryKeyConstraint("channel", "transport_id"),
)

aliases = Table(
    "aliases",
    metadata,
    Column("channel", Text, nullable=False),
    Column("chat_id", Text, nullable=False),
    Column("thread", Text, nullable=False),
    Column("session_key", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("channel", "chat_id", "thread"),
)

places = Table(
    "places",
    metadata,
    Column("channel", Text, nullable=False),
    Column("chat_id", Text, nullable=False),
    Column("thread", Text, nullable=False, server_default=""),
    Column("active_session", Text, nullable=False),
    PrimaryKeyConstraint("channel", "chat_id", "thread"),
)

# Up to which overheard row a session was given, per thread (or the root) of its chat.
context_marks = Table(
    "context_marks",
    metadata,
    Column("session_key", Text, nullable=False),
    Column("thread", Text, nullable=False, server_default=""),
    Column("given_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("session_key", "thread"),
)

blobs = Table(
    "blobs",
    metadata,
    Column("digest", Text, primary_key=True),  # of the whole file
    Column("part_no", Integer, primary_key=True),
    Column("at_ms", BigInteger, nullable=False, index=True),
    Column("data", LargeBinary, nullable=False),
)
