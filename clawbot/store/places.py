"""Places: which session people there have chosen, and how far each viewer has read.

A reply is sent to a place only while its session is the active one there; that is decided when the
reply is first claimed, under the lock of the place's row, which choosing a session takes too. So a
reply is either sent, or held and found by whoever chooses its session next; never neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Insert,
    RowMapping,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    select,
    update,
)

from clawbot.messages import Place
from clawbot.ports import InsertOf, Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import outbox, places, read_marks, sessions, turns
from clawbot.store.topics import outbox_topic

INACTIVE = "inactive"
AT_MOST = 50

Footer = Callable[[Sequence["Unread"], str], str]
"""Makes the line below a reply that tells what is unread elsewhere, in the language of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A session of a place and how many of its replies were not seen there."""

    session: SessionKey
    count: int
    title: str = ""
    is_running: bool = False
    is_active: bool = False


def no_footer(_unread: Sequence[Unread], _like: str) -> str:
    """Say nothing below replies."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A reply that was held because its session was not active."""

    outbox_id: int
    session: SessionKey
    text: str
    visible_no: int


def viewer_of(place: Place) -> str:
    """The name under which a place's read positions are kept; injective."""
    parts = (place.channel, place.chat_id, place.thread or "")
    return "place:" + ":".join(f"{len(part)}.{part}" for part in parts)


# -- choosing a session ----------------------------------------------------------------------------


def choose(tx: Transaction, place: Place, session: SessionKey) -> None:
    """Make a session the active one of a place. The place stays locked until the commit."""
    tx.conn.execute(
        tx.insert(places)
        .values(
            channel=place.channel,
            chat_id=place.chat_id,
            thread=place.thread or "",
            active_session=str(session),
        )
        .on_conflict_do_update(
            index_elements=["channel", "chat_id", "thread"],
            set_={"active_session": str(session)},
        )
    )


_AT_PLACE = (
    places.c.channel == bindparam("of_channel"),
    places.c.chat_id == bindparam("of_chat"),
    places.c.thread == bindparam("of_thread"),
)
_LOCK = (
    update(places)
    .where(*_AT_PLACE)
    .values(active_session=places.c.active_session)
    .returning(places.c.active_session)
)


def is_shown(tx: Transaction, place: Place, session_key: str) -> bool:
    """Whether a session's replies are sent to a place now; the place stays locked.

    Where nobody ever chose, every session's replies are sent.
    """
    active = tx.run(_LOCK, _names(place)).scalar_one_or_none()
    return active is None or active == session_key


def _names(place: Place) -> dict[str, str]:
    return {
        "of_channel": place.channel,
        "of_chat": place.chat_id,
        "of_thread": place.thread or "",
    }


# -- held replies ----------------------------------------------------------------------------------


def hold(tx: Transaction, outbox_id: int, now_ms: int) -> None:
    """Put a reply aside until its session is chosen; a growing one goes on growing unseen."""
    tx.conn.execute(
        update(outbox)
        .where(outbox.c.id == outbox_id)
        .values(state="held", reason=INACTIVE, holder=None, settled_ms=now_ms)
    )


def take_missed(tx: Transaction, place: Place, session: SessionKey, now_ms: int) -> list[Missed]:
    """Take what was held of a session at a place, oldest first, to be delivered in one reply.

    What still grows goes its own way again: it is streamed from now on. So do files, after all that
    waits in their lane.
    """
    held = (
        select(outbox, turns.c.ended_ms, turns.c.outbox_id.label("growing"))
        .outerjoin(turns, turns.c.id == outbox.c.turn_id)
        .where(
            outbox.c.channel == place.channel,
            outbox.c.chat_id == place.chat_id,
            outbox.c.lane_thread == (place.thread or ""),
            outbox.c.reason == literal_column("'inactive'"),
            outbox.c.state == "held",
            outbox.c.session_key == str(session),
        )
        .order_by(outbox.c.id)
    )
    missed = []
    for row in tx.conn.execute(held).mappings().all():
        if row["growing"] == row["id"] and row["ended_ms"] is None:
            _set(tx, row, state="streaming", reason="", settled_ms=None)
            tx.ring(outbox_topic(place.channel))
            continue
        if row["file"] is not None:
            _set(
                tx, row, state="pending", reason="", settled_ms=None, lane_pos=last_lane_position()
            )
            tx.ring(outbox_topic(place.channel))
            continue
        _set(tx, row, state="sent", reason="merged", settled_ms=now_ms)
        missed.append(
            Missed(
                outbox_id=row["id"],
                session=session,
                text=row["text"],
                visible_no=row["visible_no"] or 0,
            )
        )
    return missed


def last_lane_position() -> ColumnElement[int]:
    """A place in the lane after all that stands there now; several keep the order of their ids."""
    rows = outbox.alias("rows")
    return select(func.max(rows.c.id) * 2 + 1).scalar_subquery()


def _set(tx: Transaction, row: RowMapping, **values: object) -> None:
    tx.conn.execute(update(outbox).where(outbox.c.id == row["id"]).values(**values))


# -- read positions --------------------------------------------------------------------------------


def begin_reading(tx: Transaction, viewer: str, session_key: str, total: int) -> None:
    """A viewer that is new to a session has seen all that is there."""
    tx.run(
        tx.prepared(_beginning),
        {"viewer": viewer, "session_key": session_key, "seen_total": total},
    )


def mark_seen(tx: Transaction, viewer: str, session_key: str, total: int) -> None:
    """A viewer has seen a session's replies up to number `total`; never less than before."""
    tx.run(
        tx.prepared(_seeing),
        {"viewer": viewer, "session_key": session_key, "seen_total": total},
    )


def seen_total(tx: Transaction, viewer: str, session_key: str) -> int:
    """Up to which of a session's replies a viewer has read; 0 for one that never did."""
    found: int | None = tx.conn.execute(
        select(read_marks.c.seen_total).where(
            read_marks.c.viewer == viewer, read_marks.c.session_key == session_key
        )
    ).scalar_one_or_none()
    return found or 0


def _beginning(insert: InsertOf) -> Insert:
    made: Insert = insert(read_marks).on_conflict_do_nothing()
    return made


def _seeing(insert: InsertOf) -> Insert:
    statement = insert(read_marks)
    new = statement.excluded.seen_total
    made: Insert = statement.on_conflict_do_update(
        index_elements=["viewer", "session_key"],
        set_={
            "seen_total": case((read_marks.c.seen_total < new, new), else_=read_marks.c.seen_total)
        },
    )
    return made


_IS_RUNNING = (
    select(1).where(turns.c.session_key == sessions.c.key, turns.c.ended_ms.is_(None)).exists()
)
_OVERVIEW = (
    select(
        sessions.c.key,
        sessions.c.title,
        sessions.c.visible_total,
        read_marks.c.seen_total,
        _IS_RUNNING.label("is_running"),
    )
    .outerjoin(
        read_marks,
        and_(
            read_marks.c.session_key == sessions.c.key,
            read_marks.c.viewer == bindparam("of_viewer"),
        ),
    )
    .where(sessions.c.base_key == bindparam("of_base"), sessions.c.archived.is_(False))
    .order_by(sessions.c.created_ms, sessions.c.key)
    .limit(AT_MOST)
)
_ACTIVE = select(places.c.active_session).where(*_AT_PLACE)
_HAS_OTHERS = (
    select(sessions.c.key)
    .where(
        sessions.c.base_key == bindparam("of_base"),
        sessions.c.key != bindparam("of_session"),
        sessions.c.archived.is_(False),
    )
    .limit(1)
)


def overview(tx: Transaction, place: Place, base: SessionKey) -> list[Unread]:
    """The sessions of a base that are not archived, the base first, with what is unread of each.

    `is_active` is told of the stored choice alone: without one the base is active.
    """
    of_viewer = {"of_viewer": viewer_of(place), "of_base": str(base)}
    rows = tx.run(_OVERVIEW, of_viewer).mappings()
    active = tx.run(_ACTIVE, _names(place)).scalar_one_or_none()
    found = [
        Unread(
            session=SessionKey.parse(row["key"]),
            count=max(0, row["visible_total"] - (row["seen_total"] or 0)),
            title=row["title"],
            is_running=row["is_running"],
            is_active=row["key"] == (active or str(base)),
        )
        for row in rows
    ]
    if all(item.session != base for item in found):
        is_active = active is None or active == str(base)
        found.append(Unread(session=base, count=0, is_active=is_active))
    return sorted(found, key=lambda item: item.session.task is not None)


def unread_elsewhere(tx: Transaction, place: Place, session_key: str) -> list[Unread]:
    """The other sessions of a session's base of which this place has not seen everything."""
    base = SessionKey.parse(session_key).base
    others = {"of_base": str(base), "of_session": session_key}
    if tx.run(_HAS_OTHERS, others).first() is None:
        return []
    return [
        item
        for item in overview(tx, place, base)
        if item.count and str(item.session) != session_key
    ]
