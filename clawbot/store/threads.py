"""Rows of `aliases`: threads whose ids a platform tells late, and the sessions they belong to."""

from __future__ import annotations

from clawbot.ports import Transaction
from clawbot.store.schema import aliases


def learn(
    tx: Transaction, channel: str, chat_id: str, thread: str, session_key: str, now_ms: int
) -> None:
    """Remember that a platform's thread, learned late, belongs to a session."""
    tx.conn.execute(
        tx.insert(aliases)
        .values(
            channel=channel, chat_id=chat_id, thread=thread, session_key=session_key, at_ms=now_ms
        )
        .on_conflict_do_nothing()
    )
