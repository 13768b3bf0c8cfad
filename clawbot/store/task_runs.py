"""Rows of `task_runs`: what the agent of a conversation does beside it, in a sub-session each.

A row is there as long as its task is not over. The transaction that ends the task, whatever ends
it, removes the row and puts a report into the inbox of the conversation that began it; so the
report comes once, and waits its turn there like any message. A stop of that conversation stops its
tasks too: then nothing is put there that would begin a turn, and its history says so instead.

A conversation's row is always locked before that of a task of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import RowMapping, delete, select, update

from clawbot.history import Entry, EntryKind
from clawbot.messages import ChatType, InboundMessage, ReplyRoute, Sender
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import history, inbox, sessions
from clawbot.store.inbox import REPORTED, TASK
from clawbot.store.schema import inbox as inbox_rows
from clawbot.store.schema import places, task_runs, turns
from clawbot.store.schema import sessions as session_rows

if TYPE_CHECKING:
    from clawbot.store.claims import Claim  # which looks for the conversation that pays

ENDINGS = {
    "done": "is done",
    "failed": "failed",
    "stopped": "was stopped by a person",
    "deleted": "was deleted by a person",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """A task that is not over. epoch, seq: where the conversation stood when it began."""

    session: SessionKey
    title: str
    epoch: int
    seq: int
    inbox_id: int


def start(
    tx: Transaction,
    turn: Claim,
    *,
    task_id: str,
    title: str,
    text: str,
    work_dirs: Sequence[str],
    now_ms: int,
) -> None:
    """Begin a task of a turn's session; the caller holds that session's row.

    text: what is to be done. work_dirs: those that it is bound to; none = the usual ones.
    """
    parent = sessions.find(tx, turn.session)
    if parent is None:
        return
    session, last = turn.session.with_task(task_id), turn.rows[-1]
    numbers = sessions.take_numbers(
        tx,
        session,
        1,
        now_ms,
        chat_type=last.chat_type,
        wants_turn=True,
        pool=parent["pool"],
    )
    tx.conn.execute(
        update(session_rows)
        .where(session_rows.c.key == str(session))
        .values(title=title, settings=parent["settings"], work_dirs=list(work_dirs) or None)
    )
    inbox_id = inbox.put(
        tx,
        InboundMessage(
            channel=last.channel,
            identity=f"task:{task_id}:{now_ms}",
            chat_id=last.chat_id,
            chat_type=ChatType(last.chat_type),
            sender=last.sender,
            text=text,
            raw="",
            sent_at_ms=now_ms,
        ),
        state="queued",
        now_ms=now_ms,
        reason=TASK,
        session=session,
        seq=numbers.last_seq,
        route=turn.route,
        place_thread=None if turn.route is None else turn.route.thread,
    )
    tx.conn.execute(
        task_runs.insert().values(
            session_key=str(session),
            base_key=str(turn.session),
            base_epoch=turn.epoch,
            base_seq=parent["last_seq"],
            title=title,
            inbox_id=inbox_id,
            begun_ms=now_ms,
        )
    )


def open_of(tx: Transaction, base: SessionKey) -> list[TaskRun]:
    """The tasks of a conversation that are not over, the oldest first."""
    rows = tx.conn.execute(
        select(task_runs)
        .join(inbox_rows, inbox_rows.c.id == task_runs.c.inbox_id)
        .where(task_runs.c.base_key == str(base), inbox_rows.c.settled_ms.is_(None))
        .order_by(task_runs.c.inbox_id)
    )
    return [_run_of(row) for row in rows.mappings()]


def find(tx: Transaction, session: SessionKey) -> TaskRun | None:
    """The task that is done in a session, if there is one that is not over."""
    if session.task is None:
        return None
    row = tx.conn.execute(select(task_runs).where(task_runs.c.session_key == str(session)))
    found = row.mappings().one_or_none()
    return None if found is None else _run_of(found)


def _run_of(row: RowMapping) -> TaskRun:
    return TaskRun(
        session=SessionKey.parse(row["session_key"]),
        title=row["title"],
        epoch=row["base_epoch"],
        seq=row["base_seq"],
        inbox_id=row["inbox_id"],
    )


def lock_base(tx: Transaction, session: SessionKey) -> None:
    """Lock the conversation beside which a session stands."""
    tx.conn.execute(
        update(session_rows)
        .where(session_rows.c.key == str(session.base))
        .values(last_seq=session_rows.c.last_seq)
    )


def end_stopped(tx: Transaction, session: SessionKey, now_ms: int, how: str = "stopped") -> None:
    """Report a task that ends without its worker: its message was withdrawn, or its turn ended."""
    run = find(tx, session)
    if run is None:
        return
    row = tx.conn.execute(
        select(inbox_rows.c.settled_ms, turns.c.draft_text)
        .outerjoin(turns, turns.c.id == inbox_rows.c.turn_id)
        .where(inbox_rows.c.id == run.inbox_id)
    ).one_or_none()
    if row is None or row.settled_ms is not None or how == "deleted":
        report(tx, session, how, "" if row is None else row.draft_text or "", now_ms)


def report(tx: Transaction, session: SessionKey, how: str, text: str, now_ms: int) -> None:
    """End the task of a session, if it is not over, and tell the conversation that began it.

    how: one of `ENDINGS`. text: what came of it. The caller has locked the conversation's row.
    """
    run = find(tx, session)
    removed = delete(task_runs).where(task_runs.c.session_key == str(session))
    if run is None or tx.conn.execute(removed).rowcount != 1:
        return
    asked = _asked(tx, run.inbox_id)
    base = sessions.find(tx, session.base)
    if base is None or asked is None:
        return
    _put_away(tx, session, asked)
    told = f"[Task {session.task} ({run.title}) {ENDINGS[how]}."
    if base["stop_seq"] > run.seq or base["epoch"] != run.epoch:
        if base["epoch"] == run.epoch and base["deleted_ms"] is None:
            _note(tx, session.base, run.epoch, f"{told}]", now_ms)
        return
    numbers = sessions.take_numbers(
        tx, session.base, 1, now_ms, chat_type=asked["chat_type"], wants_turn=True
    )
    route = None if asked["route"] is None else ReplyRoute(**asked["route"])
    inbox.put(
        tx,
        InboundMessage(
            channel=asked["channel"],
            identity=f"task_report:{run.inbox_id}",
            chat_id=asked["chat_id"],
            chat_type=ChatType(asked["chat_type"]),
            sender=Sender(
                id=asked["sender_id"],
                name=asked["sender_name"],
                is_bot=asked["sender_is_bot"],
            ),
            text=f"{told} Its report follows.]\n\n{text}" if text else f"{told} It has no report.]",
            raw="",
            sent_at_ms=now_ms,
        ),
        state="queued",
        now_ms=now_ms,
        reason=REPORTED,
        session=session.base,
        seq=numbers.last_seq,
        route=route,
        place_thread=None if route is None else route.thread,
    )


def _asked(tx: Transaction, inbox_id: int) -> RowMapping | None:
    found = tx.conn.execute(select(inbox_rows).where(inbox_rows.c.id == inbox_id))
    return found.mappings().one_or_none()


def _put_away(tx: Transaction, session: SessionKey, asked: RowMapping) -> None:
    """Take the session of a task that is over out of the lists, unless people went there."""
    is_chosen = select(places.c.active_session).where(
        places.c.channel == asked["channel"],
        places.c.chat_id == asked["chat_id"],
        places.c.active_session == str(session),
    )
    if tx.conn.execute(is_chosen.limit(1)).first() is None:
        tx.conn.execute(
            update(session_rows).where(session_rows.c.key == str(session)).values(archived=True)
        )


def _note(tx: Transaction, base: SessionKey, epoch: int, text: str, now_ms: int) -> None:
    """Let the conversation's next turn know, without beginning one."""
    numbers = sessions.take_numbers(tx, base, 1, now_ms)
    history.append(
        tx, base, epoch, numbers.last_seq, [Entry(kind=EntryKind.NOTE, text=text)], now_ms
    )
