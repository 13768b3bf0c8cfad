"""Messages that people change or delete while they wait: the turn to come sees them as they are.

What a turn has taken up already is left as it was read: its answer is on the way.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import RowMapping, select, update

from clawbot.messages import Amendment, InboundMessage
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import events, sessions
from clawbot.store.inbox import mark_due, ring_enrichers
from clawbot.store.schema import inbox

_WAITING = ("received", "queued", "context")


def amend(tx: Transaction, amendment: Amendment, enrich_ms: int, now_ms: int) -> bool:
    """Replace or withdraw a waiting message; False when none such waits. A second time changes
    nothing more. enrich_ms: how long what a new text lacks may be loaded.
    """
    found = _waiting(tx, amendment)
    if found is None:
        return False
    if found["session_key"] is None:
        _apply(tx, found, amendment.message, now_ms + enrich_ms, now_ms)
        return True
    # A claim holds this row too, so a message is either changed before it is read or not at all.
    key = SessionKey.parse(found["session_key"])
    numbers = sessions.take_numbers(tx, key, 1, now_ms)
    found = _waiting(tx, amendment)
    if found is None:
        return False
    _apply(tx, found, amendment.message, now_ms + enrich_ms, now_ms)
    mark_due(tx, str(key), now_ms)  # later messages may have waited for this one
    data = {"inbox": found["id"]}
    events.append(tx, key, numbers.last_seq, numbers.epoch, "amended", data, now_ms)
    return True


def _waiting(tx: Transaction, amendment: Amendment) -> RowMapping | None:
    return (
        tx.conn.execute(
            select(inbox).where(
                inbox.c.channel == amendment.channel,
                inbox.c.identity == amendment.identity,
                inbox.c.state.in_(_WAITING),
            )
        )
        .mappings()
        .one_or_none()
    )


def _apply(
    tx: Transaction, row: RowMapping, message: InboundMessage | None, enrich_by_ms: int, now_ms: int
) -> None:
    if message is None:
        values: dict[str, Any] = {
            "state": "done",
            "reason": "withdrawn",
            "settled_ms": now_ms,
            "enrich_by_ms": None,
        }
    else:
        attachments = [asdict(item) for item in message.attachments] or None
        values = {"text": message.text, "raw": message.raw, "attachments": attachments}
        values["turn_id"] = None  # where it was read before, the new words are read too
        lacks = message.is_incomplete or bool(message.attachments)
        if (lacks and enrich_by_ms > now_ms) or row["enrich_by_ms"] is not None:
            # Under another deadline, so that what is being loaded for the old words is left.
            by_ms = max(enrich_by_ms, (row["enrich_by_ms"] or 0) + 1)
            values |= {"enrich_by_ms": by_ms, "enrich_holder": None}
            if row["state"] == "queued":
                values["state"] = "received"
            ring_enrichers(tx, row["channel"])
    tx.conn.execute(update(inbox).where(inbox.c.id == row["id"]).values(**values))
