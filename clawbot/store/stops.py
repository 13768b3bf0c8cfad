"""Stopping a session: one transaction after which nothing that came before it goes on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import RowMapping, select, update

from clawbot.agent.interruption import STOPPED_NOTE, cut_short
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import approvals, events, history, outbox, sessions, task_runs
from clawbot.store.schema import inbox, turns
from clawbot.store.schema import sessions as session_rows
from clawbot.store.topics import STOPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What a stop found. seq: its number in the session; withdrawn: messages that waited; tasks:
    how many tasks that the session's agent had begun ended too.
    """

    session: SessionKey
    seq: int
    epoch: int
    had_turn: bool
    withdrawn: int
    tasks: int = 0


def stop(tx: Transaction, key: SessionKey, now_ms: int, *, new_epoch: bool = False) -> Stopped:
    """Stop the session's turn, withdraw what waits, take back what people were asked, and stop the
    tasks that its agent has begun beside it; with `new_epoch` begin an empty history too.

    A turn with a living owner is ended by it, within a heartbeat of the doorbell or a second; a
    turn without one is ended here. Stopping twice does nothing the second time.
    """
    stopped = _stop_alone(tx, key, now_ms, new_epoch=new_epoch)
    tasks = [_stop_alone(tx, run.session, now_ms) for run in task_runs.open_of(tx, key)]
    return replace(stopped, tasks=len(tasks))


def _stop_alone(
    tx: Transaction, key: SessionKey, now_ms: int, *, new_epoch: bool = False
) -> Stopped:
    if key.task is not None:
        task_runs.lock_base(tx, key)
    numbers = sessions.take_numbers(tx, key, 2, now_ms)
    text_key = str(key)
    tx.conn.execute(
        update(session_rows)
        .where(session_rows.c.key == text_key)
        .values(
            stop_seq=numbers.last_seq,
            wait_until_ms=None,
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
        _end(tx, key, turn, now_ms)
    approvals.cancel(tx, key, now_ms)
    tx.ring(STOPS)
    epoch = numbers.epoch + (1 if new_epoch else 0)
    kind = "new_epoch" if new_epoch else "stopped"
    events.append(tx, key, numbers.last_seq, epoch, kind, {"withdrawn": withdrawn}, now_ms)
    task_runs.end_stopped(tx, key, now_ms)
    return Stopped(
        session=key,
        seq=numbers.last_seq - 1,
        epoch=epoch,
        had_turn=turn is not None,
        withdrawn=withdrawn,
    )


def stop_all(tx: Transaction, now_ms: int) -> list[Stopped]:
    """Stop every session in which something runs, is parked or waits, in this transaction: no queue
    is left from which a stopped session could go on, or be waken by a task.
    """
    is_open = [SessionKey.parse(key) for key in _all_open_keys(tx)]
    all_keys = {*is_open, *(key.base for key in is_open if task_runs.find(tx, key) is not None)}
    # A conversation comes before its tasks: their reports see that it was stopped.
    stopped = [_stop_alone(tx, key, now_ms) for key in sorted(all_keys, key=str)]
    return [one for one in stopped if one.session in is_open]


def _end(tx: Transaction, key: SessionKey, turn: RowMapping, now_ms: int) -> None:
    """End a turn that no process runs; the raised fence keeps a stale owner from writing."""
    turn_id, epoch = turn["id"], turn["epoch"]
    tx.conn.execute(
        update(session_rows)
        .where(session_rows.c.key == str(key))
        .values(fence=session_rows.c.fence + 1, owner=None, due_ms=None)
    )
    recorded = history.of_turn(tx, key, epoch, turn_id, after=turn["first_seq"])
    entries = cut_short(recorded, turn_id, turn["draft_text"], STOPPED_NOTE)
    numbers = sessions.take_numbers(tx, key, len(entries) + 1, now_ms)
    history.append(tx, key, epoch, numbers.last_seq - len(entries), entries, now_ms)
    data = {"turn": turn_id, "state": "stopped"}
    events.append(tx, key, numbers.last_seq, epoch, "turn_ended", data, now_ms)
    tx.conn.execute(
        update(turns).where(turns.c.id == turn_id).values(state="stopped", ended_ms=now_ms)
    )
    channel = tx.conn.execute(
        update(inbox)
        .where(inbox.c.turn_id == turn_id, inbox.c.state == "claimed")
        .values(state="done", reason="stopped", settled_ms=now_ms)
        .returning(inbox.c.channel)
    ).scalars()
    if turn["outbox_id"] is not None:
        outbox.freeze(tx, turn["outbox_id"], turn["draft_text"], next(channel))


def is_busy(tx: Transaction, key: SessionKey) -> bool:
    """Whether something runs, is parked or waits in a session."""
    waiting = select(inbox.c.id).where(
        inbox.c.session_key == str(key), inbox.c.settled_ms.is_(None)
    )
    return tx.conn.execute(waiting.limit(1)).first() is not None


def _all_open_keys(tx: Transaction) -> list[str]:
    """Sessions with open work; a turn's messages are open as long as it is."""
    waiting = select(inbox.c.session_key).where(
        inbox.c.settled_ms.is_(None), inbox.c.session_key.is_not(None)
    )
    return sorted(set(tx.conn.execute(waiting.distinct()).scalars()))


def open_keys(tx: Transaction, channel: str, chat_id: str) -> list[str]:
    """Sessions of a chat in which a turn runs, is parked or waits; for a command at its root."""
    waiting = select(inbox.c.session_key).where(
        inbox.c.channel == channel,
        inbox.c.chat_id == chat_id,
        inbox.c.settled_ms.is_(None),
        inbox.c.session_key.is_not(None),
    )
    return sorted(set(tx.conn.execute(waiting).scalars()))
