"""Sessions, what they remember, and the turns that run in them."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from clawbot.store.schema.base import metadata, partial_index

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
    Column("pool", Text),  # the workers that run its turns; none: those of the default pool
    Column("archived", Boolean, nullable=False, server_default=false()),
    # A deleted session keeps its counters: numbers and fences never come again under a key.
    Column("deleted_ms", BigInteger),
    Column("first_epoch", Integer, nullable=False, server_default="0"),  # since its deletion
    Column("created_ms", BigInteger, nullable=False),
    Column("active_ms", BigInteger, nullable=False, index=True),
)
partial_index("ix_sessions_due", sessions.c.due_ms, where="owner IS NULL AND due_ms IS NOT NULL")
partial_index("ix_sessions_owner", sessions.c.owner, where="owner IS NOT NULL")

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
partial_index("ix_turns_open", turns.c.session_key, where="ended_ms IS NULL")

# What the agent does beside a conversation, as long as it is not over; see store.task_runs.
task_runs = Table(
    "task_runs",
    metadata,
    Column("session_key", Text, primary_key=True),
    Column("base_key", Text, nullable=False, index=True),
    Column("base_epoch", Integer, nullable=False),
    Column("base_seq", BigInteger, nullable=False),  # where the conversation stood
    Column("title", Text, nullable=False),
    Column("inbox_id", BigInteger, nullable=False),  # the message that says what is to be done
    Column("begun_ms", BigInteger, nullable=False),
)

# What model calls cost; see store.costs. It stays when its session is deleted: no content is in it.
usage = Table(
    "usage",
    metadata,
    Column("hour", Integer, nullable=False),  # since 1970
    Column("session_key", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("user_key", Text, nullable=False),  # CHANNEL:USER-ID
    Column("model", Text, nullable=False),
    Column("calls", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("cache_written_tokens", BigInteger, nullable=False),
    Column("cost_nanos", BigInteger, nullable=False),  # of the calls whose price is known
    Column("unpriced", BigInteger, nullable=False),  # the others
    PrimaryKeyConstraint("hour", "session_key", "epoch", "user_key", "model"),
    Index("ix_usage_session", "session_key", "epoch"),
)

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
    Column("closing", JSON(none_as_null=True)),  # how the question reads once it is decided
    Column("outbox_id", BigInteger),  # where it was sent as a message
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
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("lasts", Text, nullable=False, server_default="once"),  # session, until, revoked
    Column("lasts_until_ms", BigInteger),
    UniqueConstraint("turn_id", "call_seq"),
)
partial_index("ix_approvals_open", approvals.c.session_key, where="decided_ms IS NULL")

# What begins a turn at a time instead of at a message; see store.schedules. The last time ends it.
schedules = Table(
    "schedules",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, server_default=""),  # of one that the config has
    Column("session_key", Text, nullable=False),
    Column("base_key", Text, nullable=False, index=True),
    Column("channel", Text, nullable=False),
    Column("chat_id", Text, nullable=False),
    Column("chat_type", Text, nullable=False),
    Column("place_thread", Text),
    Column("route", JSON(none_as_null=True)),
    Column("sender_id", Text, nullable=False),
    Column("sender_name", Text, nullable=False, server_default=""),
    Column("text", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("may_be_silent", Boolean, nullable=False, server_default=false()),
    Column("created_ms", BigInteger, nullable=False),
    Column("next_ms", BigInteger, nullable=False, index=True),
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
