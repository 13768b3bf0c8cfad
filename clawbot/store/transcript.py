"""A session as it is read: its history merged with what only the event log knows.

The event log adds answers to commands, errors, withdrawn messages and new beginnings. Both are
numbered by the session's one counter and sorted by (epoch, seq): what a stopped turn still records
after `/new` stands before the new beginning. Units that only read; nothing here is HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import RowMapping, select, tuple_

from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import events, inbox, messages, sessions, turns
from clawbot.store.views import OPEN_ROWS, RunningView, SessionView, running, session_views

EVENTS_PER_PAGE = 200
# Why a message that no turn answered is shown all the same: with it goes who sent it.
_APPROVAL_KINDS = ("approval_asked", "approval_decided")
SHOWN_ALONE = ("stopped", "withdrawn", "command")
# How many epochs back a stopped turn may still be recording while the newest one is read on.
LATE_EPOCHS = 2

_AT = tuple_(messages.c.epoch, messages.c.seq)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Position:
    """A place in a transcript."""

    epoch: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The accepted message behind a history entry."""

    channel: str
    identity: str
    sender: str
    accepted_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    """A history entry; see `history.Entry` for its fields. origin: of a user's entry."""

    at: Position
    kind: str
    text: str
    call_id: str
    tool: str
    arguments: str
    is_error: bool
    created_ms: int
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """What stands in no history. kind: notice, failed, withdrawn, stopped, new_epoch,
    approval_asked or approval_decided.

    text: of a notice, failure or question, or of the withdrawn message; how a question was decided.
    asked: the command that a notice answers. count: how many messages a stop withdrew. approval:
    the id of a question.
    """

    at: Position
    kind: str
    at_ms: int
    text: str = ""
    asked: str = ""
    count: int = 0
    approval: str = ""
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingView:
    """An accepted message that is in no turn yet."""

    seq: int
    text: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A page of a session, oldest first. older: where the page before this one ends, if any."""

    session: SessionView
    entries: tuple[EntryView, ...]
    events: tuple[EventView, ...]
    older: Position | None
    waiting: tuple[WaitingView, ...]
    running: RunningView | None


def transcript(
    tx: Transaction,
    key: SessionKey,
    *,
    before: Position | None = None,
    after: int | None = None,
    limit: int = 60,
) -> Transcript | None:
    """A page of a session; None if there is no such session.

    Without a position the newest page; `before` one: the page before it; `after` a number: all that
    was recorded since, if that is not more than a page (else `older` is set: read the newest page).
    A page is about `limit` history entries and holds whole turns.
    """
    found = session_views(tx, keys=[str(key)])
    if not found:
        return None
    rows, has_older = _entries(tx, key, before, after, limit)
    lowest = _position(rows[-1]) if rows and has_older else None
    return Transcript(
        session=found[0],
        entries=tuple(_with_origins(tx, rows[::-1])),
        events=tuple(_events(tx, key, rows if has_older else (), before, after)),
        older=lowest,
        waiting=tuple(_waiting(tx, key)),
        running=running(tx, [str(key)]).get(str(key)),
    )


def _position(row: RowMapping) -> Position:
    return Position(epoch=row["epoch"], seq=row["seq"])


def _entries(
    tx: Transaction, key: SessionKey, before: Position | None, after: int | None, limit: int
) -> tuple[list[RowMapping], bool]:
    """Rows of `messages`, newest first, and whether there are older ones."""
    mine = select(messages).where(messages.c.session_key == str(key))
    newest_first = (messages.c.epoch.desc(), messages.c.seq.desc())
    query = mine.order_by(*newest_first).limit(limit + 1)
    if before is not None:
        query = query.where((before.epoch, before.seq) > _AT)
    if after is not None:
        epoch = select(sessions.c.epoch).where(sessions.c.key == str(key)).scalar_subquery()
        query = query.where(messages.c.epoch >= epoch - LATE_EPOCHS, messages.c.seq > after)
    rows = list(tx.conn.execute(query).mappings())
    if len(rows) <= limit:
        return rows, False
    del rows[limit:]
    oldest = rows[-1]
    if after is None and oldest["turn_id"] is not None:
        begin = select(turns.c.first_seq).where(turns.c.id == oldest["turn_id"]).scalar_subquery()
        rest = mine.where(
            messages.c.epoch == oldest["epoch"],
            messages.c.seq < oldest["seq"],
            messages.c.seq >= begin,
            messages.c.turn_id == oldest["turn_id"],
        )
        rows += tx.conn.execute(rest.order_by(messages.c.seq.desc())).mappings()
        oldest = rows[-1]
    before_page = mine.where((oldest["epoch"], oldest["seq"]) > _AT).limit(1)
    return rows, tx.conn.execute(before_page).first() is not None


def _with_origins(tx: Transaction, rows: Sequence[RowMapping]) -> list[EntryView]:
    """A turn begins with one user entry for each of its messages, in their order."""
    of_users = {row["turn_id"] for row in rows if row["kind"] == "user" and row["turn_id"]}
    origins: dict[str, list[Origin]] = {}
    if of_users:
        accepted = tx.conn.execute(
            select(inbox).where(inbox.c.turn_id.in_(of_users)).order_by(inbox.c.seq)
        ).mappings()
        for row in accepted:
            origins.setdefault(row["turn_id"], []).append(_origin(row))
    views = []
    for row in rows:
        mine = origins.get(row["turn_id"], []) if row["kind"] == "user" else []
        views.append(
            EntryView(
                at=_position(row),
                kind=row["kind"],
                text=row["text"],
                call_id=row["call_id"],
                tool=row["tool"],
                arguments=row["arguments"],
                is_error=row["is_error"],
                created_ms=row["created_ms"],
                origin=mine.pop(0) if mine else _kept_origin(row),
            )
        )
    return views


def _kept_origin(row: RowMapping) -> Origin | None:
    """What the history itself knows of a message whose inbox row is gone."""
    if row["kind"] != "user" or not row["sender"]:
        return None
    return Origin(channel="", identity="", sender=row["sender"], accepted_ms=row["created_ms"])


def _origin(row: RowMapping) -> Origin:
    return Origin(
        channel=row["channel"],
        identity=row["identity"],
        sender=row["sender_name"] or row["sender_id"],
        accepted_ms=row["accepted_ms"],
    )


def _events(
    tx: Transaction,
    key: SessionKey,
    page: Sequence[RowMapping],
    before: Position | None,
    after: int | None,
) -> list[EventView]:
    """The events that belong to a page of history rows; to all of the history if that is empty."""
    kinds = ("accepted", "reply", "notice", "stopped", "new_epoch", *_APPROVAL_KINDS)
    at = tuple_(events.c.epoch, events.c.seq)
    query = (
        select(events)
        .where(events.c.session_key == str(key), events.c.kind.in_(kinds))
        .order_by(events.c.seq.desc())
        .limit(EVENTS_PER_PAGE)
    )
    if page:
        query = query.where(
            events.c.seq >= min(row["seq"] for row in page),
            at >= (page[-1]["epoch"], page[-1]["seq"]),
        )
    if before is not None:
        query = query.where(at < (before.epoch, before.seq))
    if after is not None:
        query = query.where(events.c.seq > after)
    found = list(tx.conn.execute(query).mappings())[::-1]
    failed = _failed_turns(tx, found)
    accepted = _accepted_rows(tx, found)
    views = (_event_view(row, failed, accepted) for row in found)
    return [view for view in views if view is not None]


def _failed_turns(tx: Transaction, found: Sequence[RowMapping]) -> frozenset[str]:
    ids = [row["data"]["turn"] for row in found if row["kind"] == "reply"]
    query = select(turns.c.id).where(turns.c.id.in_(ids), turns.c.state == "failed")
    return frozenset(tx.conn.execute(query).scalars()) if ids else frozenset()


def _accepted_rows(tx: Transaction, found: Sequence[RowMapping]) -> dict[int, RowMapping]:
    """The inbox rows of commands, and of messages that were withdrawn before any turn."""
    ids = [row["data"]["inbox"] for row in found if "inbox" in row["data"]]
    if not ids:
        return {}
    rows = tx.conn.execute(
        select(inbox).where(
            inbox.c.id.in_(ids),
            inbox.c.turn_id.is_(None),
            inbox.c.reason.in_(SHOWN_ALONE),
        )
    ).mappings()
    return {row["id"]: row for row in rows}


def _event_view(
    row: RowMapping, failed: frozenset[str], accepted: Mapping[int, RowMapping]
) -> EventView | None:
    """An event as it is shown; None = the history shows it."""
    kind, data = row["kind"], row["data"]
    behind = accepted.get(data.get("inbox", 0))
    origin = None if behind is None else _origin(behind)
    text, asked, count = "", "", 0
    if kind == "reply":
        kind, text = "failed", data["text"]
        if data["turn"] not in failed:
            return None
    elif kind == "accepted":
        kind, text = "withdrawn", data["text"]
        if origin is None:
            return None
    elif kind == "notice":
        text, asked = data["text"], data.get("asked", "")
    elif kind in _APPROVAL_KINDS:
        text = data["text"] if kind == "approval_asked" else data["state"]
    else:
        count = data.get("withdrawn", 0)
        if kind == "stopped" and not count:
            return None
    return EventView(
        at=_position(row),
        kind=kind,
        at_ms=row["at_ms"],
        text=text,
        asked=asked,
        count=count,
        approval=data["id"] if kind in _APPROVAL_KINDS else "",
        origin=origin,
    )


def _waiting(tx: Transaction, key: SessionKey) -> list[WaitingView]:
    rows = tx.conn.execute(
        select(inbox)
        .where(inbox.c.session_key == str(key), OPEN_ROWS, inbox.c.turn_id.is_(None))
        .order_by(inbox.c.seq)
        .limit(EVENTS_PER_PAGE)
    ).mappings()
    return [WaitingView(seq=row["seq"], text=row["text"], origin=_origin(row)) for row in rows]
