"""Stopping a session: one transaction after which nothing that came before it goes on."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select, update

from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import events, outbox, sessions
from clawbot.store.schema import inbox, turns
from clawbot.store.schema import sessions as session_rows
from clawbot.store.topics import STOPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What a stop found. seq: its number in the session; withdrawn: messages that waited."""

    seq: int
    epoch: int
    had_turn: bool
    withdrawn: int


def stop(tx: Transaction, key: SessionKey, now_ms: int, *, new_epoch: bool = False) -> Stopped:
    """Stop the session's turn and withdraw what waits; with `new_epoch` begin an empty history too.

    A turn with a living owner is ended by it, within a heartbeat of the doorbell or a second; a
    turn without one is ended here. Stopping twice does nothing the second time.
    """
    numbers = sessions.take_numbers(tx, key, 2, now_ms)
    text_key = str(key)
    tx.conn.execute(
        update(session_rows)
        .where(session_rows.c.key == text_key)
        .values(
            stop_seq=numbers.last_seq,
            epoch=session_rows.c.epoch + (1 if new_epoch else 0),
        )
    )
    withdrawn = tx.conn.execute(
        update(inbox)
        .where(
            inbox.c.session_key == text_key,
            inbox.c.settled_ms.is_(None),
            inbox.c.state.in_(("received", "queued")),
        )
        .values(state="done", reason="stopped", settled_ms=now_ms, enrich_by_ms=None)
    ).rowcount
    turn = (
        tx.conn.execute(
            select(turns, session_rows.c.owner)
            .join(session_rows, session_rows.c.key == turns.c.session_key)
            .where(
                turns.c.session_key == text_key,
                turns.c.ended_ms.is_(None),
                turns.c.first_seq < numbers.last_seq,
            )
        )
        .mappings()
        .one_or_none()
    )
    if turn is not None and (turn["owner"] is None or turn["state"] == "parked"):
        _end(tx, text_key, turn["id"], turn["outbox_id"], turn["draft_text"], now_ms)
    tx.ring(STOPS)
    epoch = numbers.epoch + (1 if new_epoch else 0)
    kind = "new_epoch" if new_epoch else "stopped"
    events.append(tx, key, numbers.last_seq, epoch, kind, {"withdrawn": withdrawn}, now_ms)
    return Stopped(
        seq=numbers.last_seq - 1, epoch=epoch, had_turn=turn is not None, withdrawn=withdrawn
    )


def _end(
    tx: Transaction, key: str, turn_id: str, outbox_id: int | None, draft: str, now_ms: int
) -> None:
    """End a turn that no process runs; the raised fence keeps a stale owner from writing."""
    tx.conn.execute(
        update(session_rows)
        .where(session_rows.c.key == key)
        .values(fence=session_rows.c.fence + 1, owner=None, due_ms=None)
    )
    tx.conn.execute(
        update(turns).where(turns.c.id == turn_id).values(state="stopped", ended_ms=now_ms)
    )
    channel = tx.conn.execute(
        update(inbox)
        .where(inbox.c.turn_id == turn_id, inbox.c.state == "claimed")
        .values(state="done", reason="stopped", settled_ms=now_ms)
        .returning(inbox.c.channel)
    ).scalars()
    if outbox_id is not None:
        outbox.freeze(tx, outbox_id, draft, next(channel))


def open_keys(tx: Transaction, channel: str, chat_id: str) -> list[str]:
    """Sessions of a chat in which a turn runs, is parked or waits; for a command at its root."""
    waiting = select(inbox.c.session_key).where(
        inbox.c.channel == channel,
        inbox.c.chat_id == chat_id,
        inbox.c.settled_ms.is_(None),
        inbox.c.session_key.is_not(None),
    )
    return sorted(set(tx.conn.execute(waiting).scalars()))
