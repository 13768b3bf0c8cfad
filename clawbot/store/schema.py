"""The tables, as SQLAlchemy Core; the same on SQLite and PostgreSQL.

Times are Unix milliseconds (`*_ms`). Within a session everything that happens takes its number from
one counter, `sessions.last_seq`, in the transaction that writes it.

Partial indexes keep the queries of the message path proportional to what is open, not to what is
stored. What is open has no `settled_ms` (`ended_ms`): that, and not a list of states, is their
condition, because SQLite uses such an index only for a query that holds its condition to the
letter, without parameters.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite numbers rows by itself only for a column declared INTEGER.
_RowId = BigInteger().with_variant(Integer(), "sqlite")


def _partial(name: str, *columns: Column[Any], where: str) -> Index:
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


inbox = Table(
    "inbox",
    metadata,
    Column("id", _RowId, primary_key=True, autoincrement=True),
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
    Column("typing_mark", Text),
    Column("inline_holder", Text),
    Column("inline_until_ms", BigInteger),
    UniqueConstraint("channel", "identity"),
)
_partial("ix_inbox_open", inbox.c.session_key, inbox.c.seq, where="settled_ms IS NULL")
_partial("ix_inbox_unenriched", inbox.c.channel, inbox.c.id, where="enrich_by_ms IS NOT NULL")
_partial(
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

sessions = Table(
    "sessions",
    metadata,
    Column("key", Text, primary_key=True),
    Column("base_key", Text, nullable=False, server_default="", index=True),  # own, unless a task
    Column("context_type", Text, nullable=False, server_default="global"),
    Column("context_id", Text, nullable=False, server_default=""),
    Column("title", Text, nullable=False, server_default=""),
    Column("chat_type", Text, nullable=False, server_default=""),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("last_seq", BigInteger, nullable=False, server_default="0"),
    Column("visible_total", BigInteger, nullable=False, server_default="0"),
    Column("stop_seq", BigInteger, nullable=False, server_default="0"),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("owner", Text),
    # When a turn was first wanted; a hint for claims, whose truth is the inbox and the turns.
    Column("due_ms", BigInteger),
    # Not before then, though it is due: for more of a burst, or for the end of a question's time.
    Column("wait_until_ms", BigInteger),
    Column("settings", JSON(none_as_null=True)),
    Column("work_dirs", JSON(none_as_null=True)),  # none: the usual one
    Column("archived", Boolean, nullable=False, server_default=false()),
    # A deleted session keeps its counters: numbers and fences never come again under a key.
    Column("deleted_ms", BigInteger),
    Column("first_epoch", Integer, nullable=False, server_default="0"),  # since its deletion
    Column("created_ms", BigInteger, nullable=False),
    Column("active_ms", BigInteger, nullable=False, index=True),
)
_partial("ix_sessions_due", sessions.c.due_ms, where="owner IS NULL AND due_ms IS NOT NULL")
_partial("ix_sessions_owner", sessions.c.owner, where="owner IS NOT NULL")

messages = Table(
    "messages",
    metadata,
    Column("session_key", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("turn_id", Text),
    Column("kind", Text, nullable=False),
    Column("step", Integer, nullable=False, server_default="-1"),
    Column("text", Text, nullable=False, server_default=""),
    Column("call_id", Text, nullable=False, server_default=""),
    Column("tool", Text, nullable=False, server_default=""),
    Column("arguments", Text, nullable=False, server_default=""),
    Column("is_error", Boolean, nullable=False, server_default=false()),
    Column("signature", Text, nullable=False, server_default=""),
    Column("sender", Text, nullable=False, server_default=""),
    Column("usage", JSON(none_as_null=True)),
    Column("created_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("session_key", "epoch", "seq"),
)

# In a table of its own: each commit of a turn rewrites its session's row, and a seed may be long.
seeds = Table(
    "seeds",
    metadata,
    Column("session_key", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("source", Text, nullable=False),  # given, configured
    Column("hash", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("session_key", "epoch"),
)

# What working memory knows of a session, for the model that answered last; see agent.memory.
memories = Table(
    "memories",
    metadata,
    Column("session_key", Text, primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("factor", Float),  # reported by estimated tokens
    Column("window_tokens", BigInteger),  # set where the model's window proved to be smaller
    Column("kept_from", BigInteger, nullable=False, server_default="0"),
    Column("budget", JSON(none_as_null=True)),  # the newest request by part, for people
)

summaries = Table(
    "summaries",
    metadata,
    Column("session_key", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("text", Text, nullable=False, server_default=""),
    Column("through_seq", BigInteger, nullable=False, server_default="0"),
    # The room for which it was made; a model with more is first given the whole history.
    Column("for_tokens", BigInteger, nullable=False, server_default="0"),
    Column("wanted_seq", BigInteger, nullable=False, server_default="0"),  # asked for by a person
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("next_try_ms", BigInteger, nullable=False, server_default="0"),
    Column("busy_until_ms", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("session_key", "epoch"),
)

turns = Table(
    "turns",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session_key", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("state", Text, nullable=False),  # running, parked, done, stopped, failed
    Column("worker", Text),
    Column("fence", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("draft_text", Text, nullable=False, server_default=""),
    Column("draft_progress", Text, nullable=False, server_default=""),
    Column("draft_rev", Integer, nullable=False, server_default="0"),
    Column("outbox_id", BigInteger),
    Column("error_id", Text),
    Column("usage", JSON(none_as_null=True)),
    Column("started_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger),
)
_partial("ix_turns_open", turns.c.session_key, where="ended_ms IS NULL")

# Questions of tools to people; see store.approvals.
approvals = Table(
    "approvals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session_key", Text, nullable=False),
    Column("turn_id", Text, nullable=False),
    Column("call_seq", BigInteger, nullable=False),  # the tool call's number in the history
    Column("tool", Text, nullable=False),
    Column("arguments_hash", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("chat_id", Text, nullable=False),
    Column("thread", Text, nullable=False, server_default=""),
    Column("people", JSON, nullable=False),  # ids of who may decide, beside owners
    Column("state", Text, nullable=False),  # open, approved, denied, expired, cancelled
    Column("decided_by", Text, nullable=False, server_default=""),
    Column("reason", Text, nullable=False, server_default=""),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("decided_ms", BigInteger),
    Column("used_ms", BigInteger),
    UniqueConstraint("turn_id", "call_seq"),
)
_partial("ix_approvals_open", approvals.c.session_key, where="decided_ms IS NULL")

outbox = Table(
    "outbox",
    metadata,
    Column("id", _RowId, primary_key=True, autoincrement=True),
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
    Column("inline_holder", Text),
    Column("inline_until_ms", BigInteger),
    Column("created_ms", BigInteger, nullable=False),
    Column("settled_ms", BigInteger),
)
_partial(
    "ix_outbox_open",
    outbox.c.channel,
    outbox.c.chat_id,
    outbox.c.lane_thread,
    where="settled_ms IS NULL",
)
_partial("ix_outbox_held", outbox.c.channel, outbox.c.chat_id, where="state = 'held'")
_partial("ix_outbox_inline", outbox.c.inbox_id, where="inline_holder IS NOT NULL")

_partial(
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

events = Table(
    "events",
    metadata,
    Column("session_key", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("data", JSON, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("session_key", "seq"),
)

processes = Table(
    "processes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("heartbeat_ms", BigInteger, nullable=False),
)

blobs = Table(
    "blobs",
    metadata,
    Column("digest", Text, primary_key=True),  # of the whole file
    Column("part_no", Integer, primary_key=True),
    Column("at_ms", BigInteger, nullable=False, index=True),
    Column("data", LargeBinary, nullable=False),
)

channel_state = Table(
    "channel_state",
    metadata,
    Column("channel", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("detail", Text, nullable=False, server_default=""),
    Column("facts", JSON(none_as_null=True)),
    Column("process_id", Text),
    Column("last_in_ms", BigInteger),
    Column("last_out_ms", BigInteger),
    Column("updated_ms", BigInteger, nullable=False),
)
