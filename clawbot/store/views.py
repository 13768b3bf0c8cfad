"""What people are shown of sessions, in lists and while a turn runs: read-only units.

The page of one session stands in `clawbot.store.transcript`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import RowMapping, func, select

from clawbot.ports import Transaction
from clawbot.store.schema import inbox, messages, sessions, turns

TITLE_CHARS = 200


# To the letter the conditions of the partial indexes: SQLite uses these for nothing else.
OPEN_ROWS = inbox.c.settled_ms.is_(None)
OPEN_TURNS = turns.c.ended_ms.is_(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session in a list. words: its title, or how its first message begins.

    state: running, parked (a turn waits for a decision), waiting (for a worker) or idle.
    """

    key: str
    words: str
    chat_type: str
    state: str
    last_seq: int
    visible_total: int
    created_ms: int
    active_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningView:
    """An open turn. live: its text that is in no history entry yet; progress: one line, or ""."""

    turn: str
    state: str
    rev: int
    last_seq: int
    live: str
    progress: str
    started_ms: int


def session_views(
    tx: Transaction, *, keys: Iterable[str] | None = None, limit: int = 200
) -> list[SessionView]:
    """These sessions, or the most recently active ones that are not archived."""
    open_turn = (
        select(turns.c.state)
        .where(turns.c.session_key == sessions.c.key, OPEN_TURNS)
        .limit(1)
        .scalar_subquery()
    )
    waits = (
        select(inbox.c.text)
        .where(inbox.c.session_key == sessions.c.key, OPEN_ROWS)
        .order_by(inbox.c.seq)
        .limit(1)
        .scalar_subquery()
    )
    said = (
        select(func.substr(messages.c.text, 1, TITLE_CHARS))
        .where(
            messages.c.session_key == sessions.c.key,
            messages.c.epoch == sessions.c.epoch,
            messages.c.kind == "user",
        )
        .order_by(messages.c.seq)
        .limit(1)
        .scalar_subquery()
    )
    query = select(
        sessions, open_turn.label("turn_state"), waits.label("waits"), said.label("said")
    ).order_by(sessions.c.active_ms.desc(), sessions.c.key)
    if keys is None:
        query = query.where(sessions.c.archived.is_(False)).limit(limit)
    else:
        query = query.where(sessions.c.key.in_(list(keys)))
    return [_session_view(row) for row in tx.conn.execute(query).mappings()]


def _session_view(row: RowMapping) -> SessionView:
    waits: str | None = row["waits"]
    state = row["turn_state"] or ("idle" if waits is None else "waiting")
    return SessionView(
        key=row["key"],
        words=row["title"] or row["said"] or (waits or "")[:TITLE_CHARS],
        chat_type=row["chat_type"],
        state=state,
        last_seq=row["last_seq"],
        visible_total=row["visible_total"],
        created_ms=row["created_ms"],
        active_ms=row["active_ms"],
    )


def running(tx: Transaction, keys: Sequence[str]) -> dict[str, RunningView]:
    """The open turns of these sessions."""
    rows = tx.conn.execute(
        select(turns, sessions.c.last_seq.label("head"))
        .join(sessions, sessions.c.key == turns.c.session_key)
        .where(turns.c.session_key.in_(keys), OPEN_TURNS)
    ).mappings()
    return {
        row["session_key"]: RunningView(
            turn=row["id"],
            state=row["state"],
            rev=row["draft_rev"],
            last_seq=row["head"],
            live=_live(row["draft_text"], _recorded(tx, row)),
            progress=row["draft_progress"],
            started_ms=row["started_ms"],
        )
        for row in rows.all()
    }


def _recorded(tx: Transaction, turn: RowMapping) -> str:
    texts = tx.conn.execute(
        select(messages.c.text)
        .where(
            messages.c.session_key == turn["session_key"],
            messages.c.epoch == turn["epoch"],
            messages.c.seq >= turn["first_seq"],
            messages.c.turn_id == turn["id"],
            messages.c.kind == "assistant",
        )
        .order_by(messages.c.seq)
    ).scalars()
    return "\n\n".join(texts)


def _live(draft: str, recorded: str) -> str:
    """The draft is the text of all steps; it may lag behind the steps that are recorded."""
    if not draft.startswith(recorded):
        return ""
    return draft[len(recorded) :].lstrip("\n")
