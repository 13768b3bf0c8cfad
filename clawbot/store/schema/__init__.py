"""The tables, as SQLAlchemy Core; the same on SQLite and PostgreSQL.

Times are Unix milliseconds (`*_ms`). Within a session everything that happens takes its number from
one counter, `sessions.last_seq`, in the transaction that writes it.

Partial indexes keep the queries of the message path proportional to what is open, not to what is
stored. What is open has no `settled_ms` (`ended_ms`): that, and not a list of states, is their
condition, because SQLite uses such an index only for a query that holds its condition to the
letter, without parameters.
"""

from __future__ import annotations

from clawbot.store.schema.arrivals import (
    aliases,
    blobs,
    context_marks,
    inbox,
    places,
    seen,
)
from clawbot.store.schema.base import metadata
from clawbot.store.schema.conversations import (
    approvals,
    events,
    memories,
    messages,
    schedules,
    seeds,
    sessions,
    summaries,
    task_runs,
    turns,
    usage,
)
from clawbot.store.schema.replies import (
    outbox,
    outbox_parts,
    read_marks,
)
from clawbot.store.schema.running import (
    channel_notes,
    channel_state,
    processes,
)

__all__ = [
    "aliases",
    "approvals",
    "blobs",
    "channel_notes",
    "channel_state",
    "context_marks",
    "events",
    "inbox",
    "memories",
    "messages",
    "metadata",
    "outbox",
    "outbox_parts",
    "places",
    "processes",
    "read_marks",
    "schedules",
    "seeds",
    "seen",
    "sessions",
    "summaries",
    "task_runs",
    "turns",
    "usage",
]
