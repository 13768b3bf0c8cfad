"""Lists of sessions and their totals: one query for which, one for what is shown of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, case, func, or_, select

from clawbot.ports import Transaction
from clawbot.session_key import escape_id
from clawbot.store.schema import sessions, turns
from clawbot.store.views import SessionView, session_views

# Databases bound the number of parameters of one statement.
KEYS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions. text: a part of the key or title, in any case; channel: of which platform
    account. archived: None = both. limit: the most recently active ones; None = all.
    """

    text: str = ""
    channel: str | None = None
    archived: bool | None = False
    limit: int | None = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTotals:
    """How many sessions there are, and in how many a turn is open."""

    active: int
    archived: int
    working: int
    replies: int


def list_sessions(tx: Transaction, wanted: SessionFilter) -> list[SessionView]:
    """The sessions that fit, the most recently active first."""
    query = (
        select(sessions.c.key)
        .where(sessions.c.deleted_ms.is_(None), *_conditions(wanted))
        .order_by(sessions.c.active_ms.desc(), sessions.c.key)
        .limit(wanted.limit)
    )
    keys = list(tx.conn.execute(query).scalars())
    found: dict[str, SessionView] = {}
    for start in range(0, len(keys), KEYS_AT_ONCE):
        page = keys[start : start + KEYS_AT_ONCE]
        found |= {view.key: view for view in session_views(tx, keys=page)}
    return [found[key] for key in keys]


def totals(tx: Transaction) -> SessionTotals:
    """Count all sessions; no history is looked at."""
    row = tx.conn.execute(
        select(
            func.count(case((sessions.c.archived.is_(False), 1))),
            func.count(case((sessions.c.archived.is_(True), 1))),
            func.coalesce(func.sum(sessions.c.visible_total), 0),
        ).where(sessions.c.deleted_ms.is_(None))
    ).one()
    working = tx.conn.execute(
        select(func.count()).select_from(turns).where(turns.c.ended_ms.is_(None))
    ).scalar_one()
    return SessionTotals(active=row[0], archived=row[1], replies=row[2], working=working)


def _conditions(wanted: SessionFilter) -> Sequence[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.archived is not None:
        conditions.append(sessions.c.archived.is_(wanted.archived))
    if wanted.channel is not None:
        # A range instead of LIKE, so that the primary key serves: ";" is the character after ":".
        start = escape_id(wanted.channel)
        conditions += [sessions.c.key >= f"{start}:", sessions.c.key < f"{start};"]
    if wanted.text:
        conditions.append(
            or_(
                sessions.c.key.icontains(wanted.text, autoescape=True),
                sessions.c.title.icontains(wanted.text, autoescape=True),
            )
        )
    return conditions
