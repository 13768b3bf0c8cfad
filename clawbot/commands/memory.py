"""`/context` and `/compact`: what a session's working memory holds, and asking for a summary."""

from __future__ import annotations

from clawbot.commands.answers import answer
from clawbot.ports import Transaction
from clawbot.recollection import MemoryState, Summary
from clawbot.session_key import SessionKey
from clawbot.store import memories, sessions, summaries

_PARTS = ("rules", "documents", "summary", "tools", "earlier", "turn", "output")


def context(tx: Transaction, session: SessionKey, like: str) -> str:
    """The newest request of a session by part."""
    row = sessions.find(tx, session)
    state = None if row is None else memories.find(tx, session, row["epoch"])
    if row is None or state is None or not state.budget.get("window"):
        return answer("context_none", like=like)
    used = sum(state.budget.get(part, 0) for part in _PARTS)
    window = state.budget["window"]
    lines = [
        answer(f"context_{part}", like=like, tokens=f"{tokens:,}")
        for part in _PARTS
        if (tokens := state.budget.get(part, 0))
    ]
    return answer(
        "context",
        like=like,
        model=state.model,
        used=f"{used:,}",
        window=f"{window:,}",
        percent=round(100 * used / window),
        lines="\n".join(lines),
        summary=answer(_standing(state, summaries.find(tx, session, row["epoch"])), like=like),
    )


def _standing(state: MemoryState, summary: Summary | None) -> str:
    if summary is not None and state.budget.get("summary"):
        return "context_summarised"
    return "context_cut" if state.kept_from else "context_whole"


def compact(tx: Transaction, session: SessionKey, like: str) -> str:
    """Ask for a summary before the session's next turn."""
    row = sessions.find(tx, session)
    if row is None or not summaries.want(tx, session, row["epoch"], row["last_seq"]):
        return answer("compact_none", like=like)
    return answer("compact", like=like)
