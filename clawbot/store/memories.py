"""Rows of `memories`, and all that a turn remembers of its session when it begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.sql.dml import Insert

from clawbot.history import Entry
from clawbot.ports import InsertOf, Transaction
from clawbot.recollection import MemoryState, Reach, Recollection
from clawbot.session_key import SessionKey
from clawbot.store import history, summaries
from clawbot.store.schema import memories, sessions
from clawbot.store.schema import summaries as summary_rows

_FIND = select(memories).where(
    memories.c.session_key == bindparam("of_session"), memories.c.epoch == bindparam("of_epoch")
)
# Both in one question: each turn begins with it.
_KNOWN = (
    select(
        *(column.label(f"memory_{column.name}") for column in memories.c),
        *(column.label(f"summary_{column.name}") for column in summary_rows.c),
    )
    .select_from(sessions)
    .outerjoin(
        memories,
        (memories.c.session_key == sessions.c.key) & (memories.c.epoch == bindparam("of_epoch")),
    )
    .outerjoin(
        summary_rows,
        (summary_rows.c.session_key == sessions.c.key)
        & (summary_rows.c.epoch == bindparam("of_epoch")),
    )
    .where(sessions.c.key == bindparam("of_session"))
)


def recall(
    tx: Transaction, key: SessionKey, epoch: int, turn_id: str, reach: Reach
) -> Recollection:
    """What a turn begins with; the cost depends on `reach`, not on the length of the history."""
    params = {"of_session": str(key), "of_epoch": epoch}
    row: Mapping[Any, Any] = tx.run(_KNOWN, params).mappings().one_or_none() or {}
    summary, is_wanted = summaries.of_row(row, "summary_")
    return Recollection(
        entries=tuple(_newest(tx, key, epoch, turn_id, reach)),
        state=_state(row, "memory_"),
        summary=summary,
        wants_summary=is_wanted,
    )


def _newest(
    tx: Transaction, key: SessionKey, epoch: int, turn_id: str, reach: Reach
) -> list[Entry]:
    found: list[Entry] = []
    older = chars = 0
    for entry in history.newest_first(tx, key, epoch):
        is_older = entry.turn_id != turn_id
        is_enough = chars >= reach.chars or 0 < reach.messages <= older
        if is_older and is_enough and not _belong_together(found[-1], entry):
            break
        found.append(entry)
        older += is_older
        chars += len(entry.text) + len(entry.arguments)
    return found[::-1]


def _belong_together(later: Entry, earlier: Entry) -> bool:
    """Whether two neighbours are of one step, which is never cut apart."""
    if earlier.step < 0:  # imported entries have no numbers
        return later.turn_id == earlier.turn_id and later.step < 0 and later.turn_id is not None
    return (later.turn_id, later.step) == (earlier.turn_id, earlier.step)


def find(tx: Transaction, key: SessionKey, epoch: int) -> MemoryState | None:
    """What working memory has learned in an epoch."""
    params = {"of_session": str(key), "of_epoch": epoch}
    return _state(tx.run(_FIND, params).mappings().one_or_none() or {})


def _state(row: Mapping[Any, Any], prefix: str = "") -> MemoryState | None:
    if row.get(f"{prefix}model") is None:
        return None
    return MemoryState(
        model=row[f"{prefix}model"],
        factor=row[f"{prefix}factor"],
        window_tokens=row[f"{prefix}window_tokens"],
        kept_from=row[f"{prefix}kept_from"],
        budget=row[f"{prefix}budget"] or {},
    )


def keep(tx: Transaction, key: SessionKey, epoch: int, state: MemoryState) -> None:
    """Write what working memory has learned; the caller holds the session's lock."""
    tx.run(
        tx.prepared(_keeping),
        {
            "session_key": str(key),
            "epoch": epoch,
            "model": state.model,
            "factor": state.factor,
            "window_tokens": state.window_tokens,
            "kept_from": state.kept_from,
            "budget": dict(state.budget),
        },
    )


def _keeping(insert: InsertOf) -> Insert:
    statement = insert(memories)
    changed = {
        column.name: statement.excluded[column.name]
        for column in memories.c
        if not column.primary_key
    }
    made: Insert = statement.on_conflict_do_update(index_elements=["session_key"], set_=changed)
    return made
