"""Claiming a session's next turn: the right of one worker to run it, under a fence.

A session has one open turn at most. A turn whose owner died is claimed again and keeps its id; else
a turn begins with the messages that wait, in order of arrival.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from sqlalchemy import RowMapping, Select, bindparam, func, insert, or_, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from clawbot import seed
from clawbot.history import Entry, Usage
from clawbot.messages import ReplyRoute
from clawbot.ports import Transaction
from clawbot.queueing import DEFAULT_POOL, QueuePolicy
from clawbot.session_key import SessionKey
from clawbot.session_settings import SessionSettings, restored
from clawbot.store import approvals, events, history, sessions, task_runs, told
from clawbot.store import overheard as overheard_rows
from clawbot.store.costs import Payer
from clawbot.store.inbox import ALL, ALONE, TASK, InboxRow, open_rows, row_of
from clawbot.store.schema import inbox, turns
from clawbot.store.schema import sessions as session_rows
from clawbot.store.task_runs import TaskRun
from clawbot.store.topics import TURNS

Compose = Callable[[Sequence[InboxRow], Sequence[InboxRow]], list[Entry]]
"""Makes the history entries of a new turn from its messages and the context before them."""

QueueOf = Callable[[SessionKey, str, SessionSettings], QueuePolicy]
"""The policy of a session, by its key, the channel of a message in it, and its own settings."""

ROWS_PER_TURN = 50
TRY_AGAIN_MS = 60_000

log = structlog.get_logger(__name__)

_DUE = (
    select(session_rows)
    .where(
        session_rows.c.owner.is_(None),
        session_rows.c.due_ms.is_not(None),
        or_(
            session_rows.c.wait_until_ms.is_(None), session_rows.c.wait_until_ms <= bindparam("now")
        ),
    )
    .order_by(session_rows.c.due_ms)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_OPEN_TURN = select(turns).where(
    turns.c.session_key == bindparam("of_key"), turns.c.ended_ms.is_(None)
)
_INSERT_TURN = insert(turns)
_SAVEPOINT = text("SAVEPOINT claim")
_UNDO, _RELEASE = text("ROLLBACK TO SAVEPOINT claim"), text("RELEASE SAVEPOINT claim")
_CLAIM_ROWS = (
    update(inbox)
    .where(inbox.c.id.in_(bindparam("ids", expanding=True)))
    .values(state="claimed", turn_id=bindparam("of_turn"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker's right to run one turn, until somebody raises the session's fence.

    attempt: how many earlier attempts at this turn ended unclean without progress.
    title, settings, work_dirs: the session's own, as they were when the turn was claimed.
    usage: what the turn cost until it was parked. asked: the calls, by their numbers in the
        history, that people were asked about: they are made again, not closed.
    task: the task of another conversation that this turn does. Its answer goes there, as a report.
    told: how the reply begins in earlier messages, where people were asked in between.
    """

    turn_id: str
    session: SessionKey
    epoch: int
    fence: int
    attempt: int
    rows: tuple[InboxRow, ...]
    is_resumed: bool
    draft_text: str
    outbox_id: int | None
    started_ms: int
    title: str = ""
    settings: SessionSettings = field(default_factory=SessionSettings)
    work_dirs: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    asked: frozenset[int] = frozenset()
    task: TaskRun | None = None
    told: str = ""

    @property
    def first_seq(self) -> int:
        """The number of the turn's first message: a stop at or after it ends the turn."""
        return self.rows[0].seq

    @property
    def payer(self) -> Payer:
        """Whose model calls they are: its messages have one sender. A task's are on the bill of the
        conversation that began it.
        """
        last, session, epoch = self.rows[-1], self.session, self.epoch
        if self.task is not None:
            session, epoch = session.base, self.task.epoch
        return Payer(session=session, epoch=epoch, user=f"{last.channel}:{last.sender.id}")

    @property
    def is_task(self) -> bool:
        """Whether its answer is the report of a task."""
        return self.rows[0].reason == TASK

    @property
    def route(self) -> ReplyRoute | None:
        """Where people are met: with the newest message; None = it is only read here."""
        return self.rows[-1].route

    @property
    def reply_route(self) -> ReplyRoute | None:
        """Where the answer goes; None = nowhere from here."""
        return None if self.is_task else self.route


def collecting(_session: SessionKey, _channel: str, _own: SessionSettings) -> QueuePolicy:
    """The usual policy."""
    return "collect"


def claim(
    tx: Transaction,
    worker: str,
    *,
    limit: int,
    now_ms: int,
    context_rows: int,
    compose: Compose,
    queue_of: QueueOf = collecting,
    running: Mapping[str, int] | None = None,
    per_chat: int = ALL,
    pools: Collection[str] = (),
) -> list[Claim]:
    """Take the next turns of up to `limit` sessions, those that wait longest first.

    running: how many turns of each chat (`SessionKey.chat`) the worker runs already; of no chat it
    gets more than `per_chat`, whatever waits there. pools: of which turns are taken; none = all.

    A session whose turn cannot be made, for what a row of it holds, holds up no other: it is
    logged, and tried again later.
    """
    counts, claims = Counter(running or {}), list[Claim]()
    while True:
        crowded = [chat for chat, count in counts.items() if count >= per_chat]
        wanted = {"most": limit - len(claims), "now": now_ms}
        if crowded or pools:
            rows = tx.conn.execute(_beside(crowded, pools), wanted).mappings().all()
        else:
            rows = tx.run(_DUE, wanted).mappings().all()
        is_crowded = False
        for session in rows:
            chat = SessionKey.parse(session["key"]).chat
            if counts[chat] >= per_chat:
                is_crowded = True
                continue
            taken = _try_session(tx, session, worker, now_ms, context_rows, compose, queue_of)
            if taken is not None:
                counts[chat] += 1
                claims.append(taken)
        if not is_crowded or len(claims) == limit:
            return claims


def _beside(crowded: Sequence[str], pools: Collection[str]) -> Select[Any]:
    """The sessions that are due, without those of some chats, and of other pools."""
    due = _DUE
    if pools:
        due = due.where(func.coalesce(session_rows.c.pool, DEFAULT_POOL).in_(pools))
    for chat in crowded:
        start = func.substr(session_rows.c.key + "/", 1, len(chat) + 1)
        due = due.where(start != f"{chat}/")
    return due


def _try_session(
    tx: Transaction,
    session: RowMapping,
    worker: str,
    now_ms: int,
    context_rows: int,
    compose: Compose,
    queue_of: QueueOf,
) -> Claim | None:
    tx.run(_SAVEPOINT, {})
    try:
        taken = _claim_session(tx, session, worker, now_ms, context_rows, compose, queue_of)
    except SQLAlchemyError:
        raise  # the database's own faults concern everybody
    except Exception:
        tx.run(_UNDO, {})
        log.exception("session_not_claimed", session=session["key"])
        _set(tx, session, wait_until_ms=now_ms + TRY_AGAIN_MS)
        taken = None
    tx.run(_RELEASE, {})
    return taken


def _set(tx: Transaction, session: RowMapping, **values: object) -> None:
    tx.conn.execute(
        update(session_rows).where(session_rows.c.key == session["key"]).values(**values)
    )


def _claim_session(
    tx: Transaction,
    session: RowMapping,
    worker: str,
    now_ms: int,
    context_rows: int,
    compose: Compose,
    queue_of: QueueOf,
) -> Claim | None:
    turn = tx.run(_OPEN_TURN, {"of_key": session["key"]}).mappings().one_or_none()
    if turn is not None:
        if turn["state"] == "parked":
            until_ms = approvals.waits_until(tx, turn["id"], now_ms)
            if until_ms is not None:
                _set(tx, session, wait_until_ms=until_ms)
                return None
        return _resume(tx, session, turn, worker)
    rows = _next_rows(open_rows(tx, session["key"], limit=ROWS_PER_TURN))
    if len(rows) > 1:
        key = SessionKey.parse(session["key"])
        if queue_of(key, rows[0].channel, restored(session["settings"])) == "followup":
            rows = rows[:1]
    if not rows:
        _set(tx, session, due_ms=None, wait_until_ms=None)
        return None
    return _begin(tx, session, rows, worker, now_ms, context_rows, compose)


def _next_rows(waiting: Sequence[InboxRow]) -> list[InboxRow]:
    """The longest run of rows, from the oldest on, of one sender to one place."""
    run: list[InboxRow] = []
    for row in waiting:
        if row.state != "queued" or (run and not joins(run[0], row)):
            break
        run.append(row)
    return run


def joins(first: InboxRow, row: InboxRow) -> bool:
    """Whether a message may be answered in one turn with another: same sender, same place."""
    if not ALONE.isdisjoint({first.reason, row.reason}):
        return False
    lanes = [None if item.route is None else item.route.lane for item in (first, row)]
    return first.sender.id == row.sender.id and lanes[0] == lanes[1]


def _resume(tx: Transaction, session: RowMapping, turn: RowMapping, worker: str) -> Claim:
    fence = session["fence"] + 1
    _set(tx, session, owner=worker, fence=fence, due_ms=None, wait_until_ms=None)
    tx.conn.execute(
        update(turns)
        .where(turns.c.id == turn["id"])
        .values(state="running", worker=worker, fence=fence)
    )
    claimed = tx.conn.execute(
        select(inbox)
        .where(inbox.c.turn_id == turn["id"], inbox.c.state == "claimed")
        .order_by(inbox.c.seq)
    ).mappings()
    rows = tuple(row_of(row) for row in claimed)
    task = _task_of(tx, session, rows)
    return Claim(
        turn_id=turn["id"],
        session=SessionKey.parse(session["key"]),
        epoch=turn["epoch"],
        fence=fence,
        attempt=turn["attempt"],
        rows=rows,
        is_resumed=True,
        draft_text=turn["draft_text"],
        outbox_id=turn["outbox_id"],
        started_ms=turn["started_ms"],
        usage=Usage(**(turn["usage"] or {})),
        asked=approvals.asked_calls(tx, turn["id"]),
        task=task,
        told=told.told_before(tx, turn, rows[-1].route),
        **_own_values(session),
    )


def _begin(
    tx: Transaction,
    session: RowMapping,
    rows: list[InboxRow],
    worker: str,
    now_ms: int,
    context_rows: int,
    compose: Compose,
) -> Claim:
    key = SessionKey.parse(session["key"])
    first = rows[0]
    overheard = overheard_rows.take(tx, first, 0 if first.reason == TASK else context_rows)
    entries = [*_reminder(tx, key, session["epoch"]), *compose(_untold(rows), overheard)]
    fence = session["fence"] + 1
    numbers = sessions.own(
        tx,
        key,
        session["fence"],
        worker,
        count=len(entries) + 1,
        now_ms=now_ms,
    )
    turn_id = uuid.uuid4().hex
    tx.run(
        _INSERT_TURN,
        {
            "id": turn_id,
            "session_key": session["key"],
            "epoch": numbers.epoch,
            "state": "running",
            "worker": worker,
            "fence": fence,
            "first_seq": first.seq,
            "last_seq": rows[-1].seq,
            "started_ms": now_ms,
        },
    )
    tx.run(_CLAIM_ROWS, {"ids": [row.id for row in rows], "of_turn": turn_id})
    number = numbers.last_seq - len(entries)
    events.append(tx, key, number, numbers.epoch, "turn_started", {"turn": turn_id}, now_ms)
    stamped = [replace(entry, turn_id=turn_id) for entry in entries]
    history.append(tx, key, numbers.epoch, number + 1, stamped, now_ms)
    return Claim(
        turn_id=turn_id,
        session=key,
        epoch=numbers.epoch,
        fence=fence,
        attempt=0,
        rows=tuple(rows),
        is_resumed=False,
        draft_text="",
        outbox_id=None,
        started_ms=now_ms,
        task=_task_of(tx, session, rows),
        **_own_values(session),
    )


def _untold(rows: list[InboxRow]) -> list[InboxRow]:
    """The messages of a new turn that do not stand in the history yet; all, if each of them does:
    a turn begins with something that was said.
    """
    return [row for row in rows if row.turn_id is None] or rows


def _task_of(tx: Transaction, session: RowMapping, rows: Sequence[InboxRow]) -> TaskRun | None:
    if rows[0].reason != TASK:
        return None
    return task_runs.find(tx, SessionKey.parse(session["key"]))


def _own_values(session: RowMapping) -> dict[str, Any]:
    return {
        "title": session["title"],
        "settings": restored(session["settings"]),
        "work_dirs": tuple(session["work_dirs"] or ()),
    }


def _reminder(tx: Transaction, key: SessionKey, epoch: int) -> list[Entry]:
    """What a later turn of a task begins with."""
    if key.task is None or not history.has_begun(tx, key, epoch):
        return []
    return [seed.reminder(key)]


def give_back(tx: Transaction, turn: Claim, now_ms: int) -> None:
    """Let another worker go on with a turn, cleanly (a drain); it counts as no attempt."""
    sessions.give_back(tx, turn.session, turn.fence, now_ms)
    tx.ring(TURNS)
