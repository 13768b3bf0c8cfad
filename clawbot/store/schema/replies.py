"""Replies on their way to people, and what people have read."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
)

from clawbot.store.schema.base import RowId, metadata, partial_index

outbox = Table(
    "outbox",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("channel", Text, nullable=False),
    Column("chat_id", Text, nullable=False),
    Column("lane_thread", Text, nullable=False, server_default=""),
    # Order in the lane is coalesce(lane_pos, 2 * id); a released row is given 2 * max(id) + 1.
    Column("lane_pos", BigInteger),
    Column("skips_lane", Boolean, nullable=False, server_default=false()),
    # streaming -> pending -> sending -> sent | unknown | dead; pending -> held -> pending
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("session_key", Text),
    Column("turn_id", Text),
    Column("inbox_id", BigInteger),
    Column("route", JSON, nullable=False),
    Column("text", Text, nullable=False, server_default=""),
    Column("holder", Text),
    Column("lease_ms", BigInteger),
    Column("next_try_ms", BigInteger, nullable=False, server_default="0"),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("has_posted", Boolean, nullable=False, server_default=false()),
    # Which of its session's replies this is (`sessions.visible_total` then), for read positions.
    Column("visible_no", BigInteger),
    Column("footer", Text, nullable=False, server_default=""),
    Column("choices", JSON(none_as_null=True)),
    Column("file", JSON(none_as_null=True)),  # what is sent; the text, where it cannot be
    # How often it was changed after it had been put here: what is sent may be of an earlier one.
    Column("revision", Integer, nullable=False, server_default="0"),
    Column("inline_holder", Text),
    Column("inline_until_ms", BigInteger),
    Column("created_ms", BigInteger, nullable=False),
    Column("settled_ms", BigInteger),
)
partial_index(
    "ix_outbox_open",
    outbox.c.channel,
    outbox.c.chat_id,
    outbox.c.lane_thread,
    where="settled_ms IS NULL",
)
partial_index("ix_outbox_held", outbox.c.channel, outbox.c.chat_id, where="state = 'held'")
partial_index("ix_outbox_choices", outbox.c.channel, outbox.c.chat_id, where="choices IS NOT NULL")
partial_index("ix_outbox_inline", outbox.c.inbox_id, where="inline_holder IS NOT NULL")

partial_index(
    "ix_outbox_inactive",
    outbox.c.channel,
    outbox.c.chat_id,
    outbox.c.lane_thread,
    where="reason = 'inactive'",
)

outbox_parts = Table(
    "outbox_parts",
    metadata,
    Column("outbox_id", BigInteger, ForeignKey("outbox.id", ondelete="CASCADE"), nullable=False),
    Column("part_no", Integer, nullable=False),
    Column("key", Text, nullable=False),
    Column("state", Text, nullable=False),  # sending, sent, unknown
    Column("ref", Text),
    Column("sent_text", Text, nullable=False, server_default=""),
    Column("edits", Integer, nullable=False, server_default="0"),
    # When the first attempt that may have been taken began; 0 = when the reply was made, or later.
    Column("begun_ms", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("outbox_id", "part_no"),
)

# How many of a session's replies a viewer has seen: a place, or a browser.
read_marks = Table(
    "read_marks",
    metadata,
    Column("viewer", Text, nullable=False),
    Column("session_key", Text, nullable=False),
    Column("seen_total", BigInteger, nullable=False),
    PrimaryKeyConstraint("viewer", "session_key"),
)
