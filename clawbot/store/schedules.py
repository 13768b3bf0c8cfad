"""Rows of `schedules`: what begins a turn at a time instead of at a message.

When the time comes, one process of any number puts the text into the inbox of its session as if its
author had written it then, and moves the row to its next time, in one transaction. The message's
identity is the schedule with the time that it was due at, so it can never be there twice. Times
that passed while nobody was there count as one.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sqlalchemy import RowMapping, delete, func, insert, select, update

from clawbot.errors import RequestRefused
from clawbot.messages import ChatType, InboundMessage, Place, ReplyRoute, Sender
from clawbot.ports import Transaction
from clawbot.schedules import BadTime, Kind, When, next_ms
from clawbot.session_key import SessionKey
from clawbot.store import inbox, places, sessions
from clawbot.store.schema import schedules
from clawbot.store.topics import SCHEDULES

MOST_PER_CHAT = 50
LATE_MS = 5 * 60_000
ON_TIME, MAY_BE_SILENT = "scheduled", "scheduled:may_be_silent"
"""Reasons of inbox rows that came at a time."""

IDENTITY = "schedule:"


class TooMany(RequestRefused):
    """A chat has as many schedules as it may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Who wants what to be begun where, and when.

    route: None where answers are read and not sent. may_be_silent: whether a run that finds nothing
    worth telling may end without a message.
    """

    session: SessionKey
    channel: str
    chat_id: str
    chat_type: ChatType
    sender: Sender
    text: str
    when: When
    route: ReplyRoute | None = None
    place_thread: str | None = None
    may_be_silent: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A schedule as people see it."""

    id: str
    session: SessionKey
    text: str
    when: When
    next_ms: int


def add(tx: Transaction, schedule: Schedule, now_ms: int, *, is_counted: bool = True) -> Planned:
    """Plan something. Raise BadTime when its time never comes, TooMany where that is looked at."""
    due_ms = next_ms(schedule.when, now_ms, now_ms)
    if due_ms is None:
        raise BadTime("past")
    base = str(schedule.session.base)
    count = select(func.count()).where(schedules.c.base_key == base, schedules.c.name == "")
    if is_counted and not schedule.name and tx.conn.execute(count).scalar_one() >= MOST_PER_CHAT:
        raise TooMany
    row_id = secrets.token_hex(3) if not schedule.name else f"config:{schedule.name}"
    values = {**_values(schedule), "id": row_id, "created_ms": now_ms, "next_ms": due_ms}
    tx.conn.execute(insert(schedules).values(values))
    tx.ring(SCHEDULES)
    return Planned(
        id=row_id,
        session=schedule.session,
        text=schedule.text,
        when=schedule.when,
        next_ms=due_ms,
    )


def listing(tx: Transaction, base: SessionKey) -> list[Planned]:
    """What is planned in a base session and its sub-sessions, the next one first."""
    rows = tx.conn.execute(
        select(schedules)
        .where(schedules.c.base_key == str(base))
        .order_by(schedules.c.next_ms, schedules.c.id)
    ).mappings()
    return [_planned(row) for row in rows]


def cancel(tx: Transaction, base: SessionKey, schedule_id: str) -> bool:
    """Plan something no more; False when there is no such schedule here. What the config plans can
    be changed there alone.
    """
    found = delete(schedules).where(
        schedules.c.id == schedule_id, schedules.c.base_key == str(base), schedules.c.name == ""
    )
    return tx.conn.execute(found).rowcount == 1


def sync(tx: Transaction, wanted: Mapping[str, Schedule], now_ms: int) -> None:
    """Let the schedules that have a name be these; one that did not change keeps its time."""
    named = select(schedules).where(schedules.c.name != "").with_for_update()
    known = {row["name"]: row for row in tx.conn.execute(named).mappings()}
    for name, row in known.items():
        schedule = wanted.get(name)
        if schedule is not None and _is_same(row, schedule):
            continue
        tx.conn.execute(delete(schedules).where(schedules.c.id == row["id"]))
    for name, schedule in wanted.items():
        if name in known and _is_same(known[name], schedule):
            continue
        if next_ms(schedule.when, now_ms, now_ms) is not None:
            add(tx, schedule, now_ms)


def next_due_ms(tx: Transaction) -> int | None:
    """When the next of all is due."""
    found: int | None = tx.conn.execute(select(func.min(schedules.c.next_ms))).scalar_one()
    return found


def fire(tx: Transaction, now_ms: int, *, limit: int = 20) -> list[str]:
    """Begin what is due; return the ids of the schedules."""
    due = (
        select(schedules)
        .where(schedules.c.next_ms <= now_ms)
        .order_by(schedules.c.next_ms, schedules.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    rows = tx.conn.execute(due).mappings().all()
    return [row["id"] for row in rows if _begin(tx, row, now_ms)]


def _begin(tx: Transaction, row: RowMapping, now_ms: int) -> bool:
    due_ms: int = row["next_ms"]
    same = (schedules.c.id == row["id"], schedules.c.next_ms == due_ms)
    when = _when(row)
    try:
        after_ms = None if when.kind == "once" else next_ms(when, row["created_ms"], now_ms)
    except BadTime:  # its line has no more times
        after_ms = None
    moved = (
        delete(schedules).where(*same)
        if after_ms is None
        else update(schedules).where(*same).values(next_ms=after_ms)
    )
    if tx.conn.execute(moved).rowcount != 1:
        return False
    session = SessionKey.parse(row["session_key"])
    route = None if row["route"] is None else ReplyRoute(**row["route"])
    numbers = sessions.take_numbers(
        tx, session, 1, now_ms, chat_type=row["chat_type"], wants_turn=True
    )
    if route is not None:
        place = Place(channel=row["channel"], chat_id=row["chat_id"], thread=row["place_thread"])
        viewer = places.viewer_of(place)
        places.begin_reading(tx, viewer, str(session), numbers.visible_total)
    inbox.put(
        tx,
        InboundMessage(
            channel=row["channel"],
            identity=f"{IDENTITY}{row['id']}:{row['created_ms']}:{due_ms}",
            chat_id=row["chat_id"],
            chat_type=ChatType(row["chat_type"]),
            sender=Sender(id=row["sender_id"], name=row["sender_name"]),
            text=row["text"],
            raw="",
            sent_at_ms=due_ms,
        ),
        state="queued",
        now_ms=now_ms,
        reason=MAY_BE_SILENT if row["may_be_silent"] else ON_TIME,
        session=session,
        seq=numbers.last_seq,
        route=route,
        place_thread=row["place_thread"],
        is_late=now_ms - due_ms > LATE_MS,
    )
    return True


def _values(schedule: Schedule) -> dict[str, object]:
    return {
        "name": schedule.name,
        "session_key": str(schedule.session),
        "base_key": str(schedule.session.base),
        "channel": schedule.channel,
        "chat_id": schedule.chat_id,
        "chat_type": schedule.chat_type.value,
        "place_thread": schedule.place_thread,
        "route": None if schedule.route is None else asdict(schedule.route),
        "sender_id": schedule.sender.id,
        "sender_name": schedule.sender.name,
        "text": schedule.text,
        "kind": schedule.when.kind,
        "spec": schedule.when.spec,
        "zone": schedule.when.zone,
        "may_be_silent": schedule.may_be_silent,
    }


def _is_same(row: RowMapping, schedule: Schedule) -> bool:
    return all(row[name] == value for name, value in _values(schedule).items())


def _when(row: RowMapping) -> When:
    kind: Kind = row["kind"]
    return When(kind=kind, spec=row["spec"], zone=row["zone"])


def _planned(row: RowMapping) -> Planned:
    return Planned(
        id=row["id"],
        session=SessionKey.parse(row["session_key"]),
        text=row["text"],
        when=_when(row),
        next_ms=row["next_ms"],
    )
