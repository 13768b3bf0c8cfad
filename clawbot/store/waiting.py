"""Messages that wait in a busy session: how many may, for how long, and which join the turn that
runs there. What the policies mean stands in `clawbot.queueing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from sqlalchemy import bindparam, func, or_, select, update

from clawbot.history import Entry
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import history, sessions
from clawbot.store.claims import Claim, Compose, joins
from clawbot.store.inbox import InboxRow, open_rows
from clawbot.store.schema import inbox, turns
from clawbot.store.schema import sessions as session_rows
from clawbot.store.topics import TURNS

AT_ONCE = 50

_WAITING = select(func.count()).where(
    inbox.c.session_key == bindparam("of_session"),
    inbox.c.settled_ms.is_(None),
    inbox.c.state.in_(("received", "queued")),
)


def count(tx: Transaction, key: SessionKey) -> int:
    """How many messages wait in a session."""
    found: int = tx.run(_WAITING, {"of_session": str(key)}).scalar_one()
    return found


# -- bursts ----------------------------------------------------------------------------------------


def wait_for_more(tx: Transaction, key: SessionKey, until_ms: int, now_ms: int) -> None:
    """Let the next turn of a busy session wait, for more of the same burst."""
    tx.conn.execute(
        update(session_rows)
        .where(
            session_rows.c.key == str(key),
            or_(session_rows.c.owner.is_not(None), session_rows.c.wait_until_ms > now_ms),
        )
        .values(wait_until_ms=until_ms)
    )


def hurry(tx: Transaction, key: SessionKey) -> None:
    """Wait for no more; a turn that waits for people goes on to do so (the claim looks)."""
    tx.conn.execute(
        update(session_rows)
        .where(session_rows.c.key == str(key), session_rows.c.wait_until_ms.is_not(None))
        .values(wait_until_ms=None)
    )
    tx.ring(TURNS)


def next_ms(tx: Transaction) -> int | None:
    """When the first of the sessions that wait need wait no more."""
    found: int | None = tx.conn.execute(
        select(func.min(session_rows.c.wait_until_ms)).where(
            session_rows.c.owner.is_(None), session_rows.c.due_ms.is_not(None)
        )
    ).scalar_one()
    return found


# -- the turn that runs ----------------------------------------------------------------------------


def newcomers(tx: Transaction, turn: Claim) -> list[InboxRow]:
    """The messages that may join a running turn: those next in line, as long as its own sender
    wrote them to its own place.
    """
    found = []
    for row in open_rows(tx, str(turn.session), limit=AT_ONCE + len(turn.rows)):
        if row.turn_id == turn.turn_id and row.state == "claimed":
            continue
        if row.state != "queued" or not joins(turn.rows[0], row):
            break
        found.append(row)
    return found


def join(tx: Transaction, turn: Claim, compose: Compose, now_ms: int) -> list[Entry]:
    """Let newcomers join a turn; return their history entries.

    Raise LeaseLost or TurnStopped: so what joins came before any stop of the turn.
    """
    sessions.lock(tx, turn.session, turn.fence, first_seq=turn.first_seq)
    # Files are written before a turn begins: their messages wait for the next one.
    rows = list(takewhile(lambda row: not row.attachments, newcomers(tx, turn)))
    if not rows:
        return []
    entries = [replace(entry, turn_id=turn.turn_id) for entry in compose(rows, [])]
    numbers = sessions.lock(tx, turn.session, turn.fence, count=len(entries))
    tx.conn.execute(
        update(inbox)
        .where(inbox.c.id.in_([row.id for row in rows]))
        .values(state="claimed", turn_id=turn.turn_id)
    )
    tx.conn.execute(update(turns).where(turns.c.id == turn.turn_id).values(last_seq=rows[-1].seq))
    first = numbers.last_seq - len(entries) + 1
    return history.append(tx, turn.session, turn.epoch, first, entries, now_ms)


def interrupted(tx: Transaction, running: Sequence[Claim]) -> set[str]:
    """The turns, by their ids, that a newcomer cuts short."""
    return {turn.turn_id for turn in running if newcomers(tx, turn)}
