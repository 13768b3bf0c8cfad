"""Rows of `usage`: what model calls cost, by hour, session, person and model.

They are added in the transaction that records the step which the call came to, so that nothing is
counted twice or lost, and they outlive the history: numbers alone stand in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from sqlalchemy import Row, Select, bindparam, delete, func, select

from clawbot.history import Entry, Spent
from clawbot.ports import InsertOf, Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import usage

HOUR_MS = 3_600_000

_COUNTS = (
    "calls",
    "failed",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_written_tokens",
    "cost_nanos",
    "unpriced",
)
_KEY = ("hour", "session_key", "epoch", "user_key", "model")
_SUMS = [func.coalesce(func.sum(usage.c[name]), 0) for name in _COUNTS]

_WHERE = {
    "since_hour": usage.c.hour >= bindparam("since_hour"),
    "session": usage.c.session_key == bindparam("session"),
    "epoch": usage.c.epoch == bindparam("epoch"),
    "user": usage.c.user_key == bindparam("user"),
}
# Budgets ask before every model call.
_TOTALS = {
    frozenset(names): select(*_SUMS).where(*(_WHERE[name] for name in names))
    for count in range(len(_WHERE) + 1)
    for names in combinations(_WHERE, count)
}

By = Literal["model", "user_key", "session_key", "hour"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """Whose calls they are. user: CHANNEL:USER-ID; "" for what nobody asked for, as summaries."""

    session: SessionKey
    epoch: int
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A sum of calls. failed: those of which nothing came. unpriced: how many have no known price;
    they are not in `cost_nanos`, which is then a lower bound.
    """

    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_written_tokens: int = 0
    cost_nanos: int = 0
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        """In and out."""
        return self.input_tokens + self.output_tokens


def spent_by(entries: Sequence[Entry]) -> list[Spent]:
    """The calls whose answers these entries are."""
    return [Spent(usage=entry.usage) for entry in entries if entry.usage is not None]


def add(tx: Transaction, payer: Payer, spent: Sequence[Spent], now_ms: int) -> None:
    """Count calls; nothing at all for none."""
    rows: dict[str, dict[str, Any]] = {}
    for one in spent:
        row = rows.setdefault(
            one.usage.model,
            {
                "hour": now_ms // HOUR_MS,
                "session_key": str(payer.session),
                "epoch": payer.epoch,
                "user_key": payer.user,
                "model": one.usage.model,
                **dict.fromkeys(_COUNTS, 0),
            },
        )
        row["calls"] += 1
        row["failed"] += one.has_failed
        for name in ("input_tokens", "output_tokens", "cached_tokens", "cache_written_tokens"):
            row[name] += getattr(one.usage, name)
        row["cost_nanos"] += one.usage.cost_nanos or 0
        row["unpriced"] += one.usage.cost_nanos is None
    for row in rows.values():
        tx.run(tx.prepared(_adding), row)


def _adding(insert: InsertOf) -> Any:
    statement = insert(usage)
    return statement.on_conflict_do_update(
        index_elements=list(_KEY),
        set_={name: usage.c[name] + statement.excluded[name] for name in _COUNTS},
    )


def total(
    tx: Transaction,
    *,
    since_hour: int = 0,
    session: SessionKey | None = None,
    epoch: int | None = None,
    user: str | None = None,
) -> Total:
    """What was spent since an hour: of everything, a session (one epoch of it), a person."""
    asked = {
        "since_hour": since_hour or None,
        "session": None if session is None else str(session),
        "epoch": epoch,
        "user": user,
    }
    of = {name: value for name, value in asked.items() if value is not None}
    return _total(tx.run(_TOTALS[frozenset(of)], of).one())


def by(
    tx: Transaction,
    column: By,
    *,
    since_hour: int = 0,
    session: SessionKey | None = None,
    limit: int | None = None,
) -> list[tuple[str, Total]]:
    """What was spent since an hour by model, person, session or hour; the dearest first."""
    of = usage.c[column]
    where = [usage.c.hour >= since_hour] if since_hour else []
    if session is not None:
        where.append(usage.c.session_key == str(session))
    query: Select[Any] = (
        select(of, *_SUMS)
        .where(*where)
        .group_by(of)
        .order_by(
            func.sum(usage.c.cost_nanos).desc(),
            func.sum(usage.c.input_tokens + usage.c.output_tokens).desc(),
            of,
        )
    )
    rows = tx.conn.execute(query if limit is None else query.limit(limit))
    return [(str(name), _total(rest)) for name, *rest in rows]


def forget(tx: Transaction, before_ms: int) -> int:
    """Remove what is older; how many rows."""
    old = usage.c.hour < before_ms // HOUR_MS
    return tx.conn.execute(delete(usage).where(old)).rowcount


def _total(row: Row[Any] | Sequence[Any]) -> Total:
    # PostgreSQL sums BIGINT as NUMERIC.
    return Total(**{name: int(value) for name, value in zip(_COUNTS, row, strict=True)})
