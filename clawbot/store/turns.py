"""Rows of `turns` while they run and when they end, under the fence of their claim.

Steps are recorded before they are acted on, so that a killed turn is resumed where it stood; the
fence keeps a stale worker from writing. The end of a turn is one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import bindparam, select, update

from clawbot.history import Entry, Spent, Usage
from clawbot.ports import Transaction
from clawbot.recollection import MemoryState
from clawbot.store import (
    approvals,
    costs,
    events,
    history,
    inline,
    memories,
    outbox,
    sessions,
    task_runs,
    told,
)
from clawbot.store.claims import Claim
from clawbot.store.inbox import InboxRow, note_once
from clawbot.store.schema import inbox, turns
from clawbot.store.schema import sessions as session_rows
from clawbot.store.topics import EVENTS, TURNS, draft_topic

NOTICE_WINDOW_MS = 600_000

_END_ROWS = (
    update(inbox)
    .where(inbox.c.turn_id == bindparam("of_turn"), inbox.c.state == "claimed")
    .values(state=bindparam("new_state"), reason=bindparam("why"), settled_ms=bindparam("now_ms"))
)
_REQUEUE = (
    update(inbox)
    .where(
        inbox.c.turn_id == bindparam("of_turn"),
        inbox.c.state == "claimed",
        inbox.c.seq > bindparam("stop_seq"),
    )
    .values(state="queued")
)
_END_TURN = (
    update(turns)
    .where(turns.c.id == bindparam("of_turn"))
    .values(
        state=bindparam("new_state"),
        error_id=bindparam("new_error_id"),
        usage=bindparam("new_usage", type_=turns.c.usage.type),
        ended_ms=bindparam("now_ms"),
        draft_progress="",
    )
    .returning(turns.c.outbox_id, turns.c.draft_text)
)
_WAITING = (
    select(inbox.c.id)
    .where(inbox.c.session_key == bindparam("of_session"), inbox.c.settled_ms.is_(None))
    .limit(1)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a turn ended. state: done, stopped or failed. reply: the text to deliver, if any.

    notice: the name of a fault that concerns every message; a chat is sent it once in a while.
    memory: what the session's working memory has learned. lost: model calls that no entry tells of.
    """

    state: str
    entries: tuple[Entry, ...] = ()
    reply: str | None = None
    notice: str | None = None
    error_id: str | None = None
    usage: Usage | None = None
    memory: MemoryState | None = None
    lost: tuple[Spent, ...] = ()


# -- while it runs ---------------------------------------------------------------------------------


def record(
    tx: Transaction, turn: Claim, entries: Sequence[Entry], now_ms: int, *, is_progress: bool = True
) -> list[Entry]:
    """Append a step to the history. Raise LeaseLost or TurnStopped: then nothing was written.

    A step that got further ends the count of unclean attempts.
    """
    numbers = sessions.lock(
        tx, turn.session, turn.fence, count=len(entries), first_seq=turn.first_seq
    )
    if is_progress and turn.attempt:
        tx.conn.execute(update(turns).where(turns.c.id == turn.turn_id).values(attempt=0))
    costs.add(tx, turn.payer, costs.spent_by(entries), now_ms)
    return history.append(
        tx, turn.session, turn.epoch, numbers.last_seq - len(entries) + 1, entries, now_ms
    )


def write_draft(tx: Transaction, turn: Claim, text: str, progress: str, now_ms: int) -> int | None:
    """Show how far the reply is; return the id of its outbox row, made with the first text where
    the platform can edit. Raise LeaseLost or TurnStopped.
    """
    sessions.lock(tx, turn.session, turn.fence, first_seq=turn.first_seq)
    outbox_id: int | None = tx.conn.execute(
        update(turns)
        .where(turns.c.id == turn.turn_id)
        .values(draft_text=text, draft_progress=progress, draft_rev=turns.c.draft_rev + 1)
        .returning(turns.c.outbox_id)
    ).scalar_one()
    last = turn.rows[-1]
    route = turn.reply_route
    begun = told.rest_of(text, turn.told)
    if outbox_id is None and begun and route is not None and route.can_edit:
        outbox_id = outbox.add(
            tx,
            channel=last.channel,
            route=route,
            state="streaming",
            text=turn.told,
            now_ms=now_ms,
            session_key=str(turn.session),
            turn_id=turn.turn_id,
            inbox_id=last.id,
        )
        tx.conn.execute(update(turns).where(turns.c.id == turn.turn_id).values(outbox_id=outbox_id))
    if outbox_id is not None:
        tx.ring(draft_topic(last.channel))
    tx.ring(EVENTS)
    return outbox_id


def park(
    tx: Transaction,
    turn: Claim,
    text: str,
    usage: Usage,
    now_ms: int,
    *,
    lost: Sequence[Spent] = (),
) -> None:
    """Let a turn wait for people, without any process; `text` is the reply so far. lost: see
    `Outcome`. Where it is a message that grows, that ends here: what is said once people have
    decided stands below their question.

    Raise LeaseLost or TurnStopped.
    """
    growing = write_draft(tx, turn, text, "", now_ms) if text else None
    if growing is not None:
        outbox.freeze(tx, growing, text, turn.rows[-1].channel)
    sessions.lock(tx, turn.session, turn.fence, first_seq=turn.first_seq)
    tx.conn.execute(
        update(turns)
        .where(turns.c.id == turn.turn_id)
        .values(state="parked", draft_progress="", usage=asdict(usage), outbox_id=None)
    )
    costs.add(tx, turn.payer, lost, now_ms)
    until_ms = approvals.waits_until(tx, turn.turn_id, now_ms)
    sessions.give_back(tx, turn.session, turn.fence, now_ms, until_ms=until_ms)
    tx.ring(TURNS)
    tx.ring(EVENTS)


# -- its end ---------------------------------------------------------------------------------------


def finish(tx: Transaction, turn: Claim, outcome: Outcome, now_ms: int) -> None:
    """End a turn: history, events, counters, the reply and its messages, in this transaction.

    Raise LeaseLost; and TurnStopped when a turn that wants to end otherwise was stopped.
    """
    if turn.is_task:
        task_runs.lock_base(tx, turn.session)
    numbers = sessions.leave(
        tx,
        turn.session,
        turn.fence,
        count=len(outcome.entries) + 2,
        replies=1 if outcome.reply and not turn.is_task else 0,
        now_ms=now_ms,
        first_seq=None if outcome.state == "stopped" else turn.first_seq,
    )
    first = numbers.last_seq - len(outcome.entries) - 1
    history.append(tx, turn.session, turn.epoch, first, outcome.entries, now_ms)
    costs.add(tx, turn.payer, [*costs.spent_by(outcome.entries), *outcome.lost], now_ms)
    if outcome.memory is not None:
        memories.keep(tx, turn.session, turn.epoch, outcome.memory)
    reply_seq, end_seq = numbers.last_seq - 1, numbers.last_seq
    if outcome.reply:
        data = {"turn": turn.turn_id, "text": outcome.reply}
        events.append(tx, turn.session, reply_seq, turn.epoch, "reply", data, now_ms)
    if outcome.state == "stopped":
        # What no stop named is answered anew: the messages of a turn that was interrupted.
        params = {"of_turn": turn.turn_id, "stop_seq": numbers.stop_seq}
        tx.run(_REQUEUE, params)
    tx.run(
        _END_ROWS,
        {
            "of_turn": turn.turn_id,
            "new_state": "dead" if outcome.state == "failed" else "done",
            "why": "" if outcome.state == "done" else outcome.error_id or outcome.state,
            "now_ms": now_ms,
        },
    )
    outbox_id, draft = tx.run(
        _END_TURN,
        {
            "of_turn": turn.turn_id,
            "new_state": outcome.state,
            "new_error_id": outcome.error_id,
            "new_usage": None if outcome.usage is None else asdict(outcome.usage),
            "now_ms": now_ms,
        },
    ).one()
    _deliver(tx, turn, outcome, (outbox_id, draft), numbers.visible_total, now_ms)
    if turn.is_task:
        task_runs.report(tx, turn.session, outcome.state, outcome.reply or draft, now_ms)
    data = {"turn": turn.turn_id, "state": outcome.state}
    events.append(tx, turn.session, end_seq, turn.epoch, "turn_ended", data, now_ms)
    mark_if_waiting(tx, str(turn.session), now_ms)


def _deliver(
    tx: Transaction,
    turn: Claim,
    outcome: Outcome,
    shown: tuple[int | None, str],
    visible_total: int,
    now_ms: int,
) -> None:
    """Hand the reply over; `shown` is what was shown of it: the outbox row, if any, and a text."""
    last, route = turn.rows[-1], turn.reply_route
    if route is None:
        return
    outbox_id, draft = shown
    if outbox_id is not None:
        outbox.freeze(tx, outbox_id, outcome.reply or draft, last.channel, visible_total)
    elif (rest := told.rest_of(outcome.reply or "", turn.told)) and _is_news(
        tx, last, outcome, now_ms
    ):
        outbox_id = outbox.add(
            tx,
            channel=last.channel,
            route=route,
            state="pending",
            text=rest,
            now_ms=now_ms,
            session_key=str(turn.session),
            turn_id=turn.turn_id,
            inbox_id=last.id,
            visible_no=visible_total,
        )
        inline.pass_on(tx, last.id, outbox_id)


def _is_news(tx: Transaction, row: InboxRow, outcome: Outcome, now_ms: int) -> bool:
    """A fault that concerns everybody is told once per place and window, not once per message."""
    if outcome.notice is None or row.route is None:
        return True
    window = now_ms // NOTICE_WINDOW_MS
    lane = ":".join((row.route.chat_id, row.route.thread or ""))
    return note_once(tx, row.channel, f"notice:{outcome.notice}:{lane}:{window}", now_ms)


def mark_if_waiting(tx: Transaction, session_key: str, now_ms: int) -> None:
    """Make the session claimable again when something waits in it."""
    if tx.run(_WAITING, {"of_session": session_key}).first() is not None:
        tx.conn.execute(
            update(session_rows).where(session_rows.c.key == session_key).values(due_ms=now_ms)
        )
        tx.ring(TURNS)
