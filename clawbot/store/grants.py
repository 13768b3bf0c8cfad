"""What people have allowed for longer than one call: until the conversation begins anew, or until a
time, across conversations.

Such an approval is a row of `approvals` like any other. It counts for the same call of the same
person in the same place, and for as long as nobody takes it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sqlalchemy import ColumnElement, RowMapping, and_, or_, select, update

from clawbot.messages import Place
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store.schema import approvals, sessions, task_runs

if TYPE_CHECKING:
    from clawbot.store.claims import Claim

MOST_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """How long a yes counts. until_ms: Unix milliseconds, for `until` alone; told: that time as
    people read it.
    """

    kind: Literal["once", "session", "until"] = "once"
    until_ms: int | None = None
    told: str = ""


ONCE = Lasting()


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """Who answers a question, from where. place: None where people name the session itself; name:
    what people are told of them.
    """

    person: str
    is_owner: bool
    session: SessionKey
    place: Place | None = None
    name: str = ""

    def may_decide(self, row: RowMapping) -> bool:
        """Whether a question is theirs to decide."""
        return self.is_owner or self.person in row["people"]


def is_here(voter: Voter) -> ColumnElement[bool]:
    """A question belongs to its session, and to the place where it was asked; at the root of a
    chat, to all threads of the chat. Without a place, those of a conversation's tasks belong to it.
    """
    own = approvals.c.session_key == str(voter.session)
    place = voter.place
    if place is None and voter.session.task is None:
        tasks = select(task_runs.c.session_key).where(task_runs.c.base_key == str(voter.session))
        return or_(own, approvals.c.session_key.in_(tasks))
    if place is None:
        return own
    here = [approvals.c.channel == place.channel, approvals.c.chat_id == place.chat_id]
    if place.thread is not None:
        here.append(approvals.c.thread == place.thread)
    return or_(own, and_(*here))


def holds(
    tx: Transaction,
    turn: Claim,
    arguments_hash: str,
    place: Mapping[str, str],
    people: Sequence[str],
    now_ms: int,
) -> bool:
    """Whether people have allowed the same call for longer, and it still counts."""
    found = tx.conn.execute(
        select(approvals.c.people)
        .join(sessions, sessions.c.key == approvals.c.session_key)
        .where(
            approvals.c.session_key == str(turn.session),
            approvals.c.arguments_hash == arguments_hash,
            *(approvals.c[name] == value for name, value in place.items()),
            _is_in_force(now_ms),
        )
    )
    return bool(people) and any(set(people) <= set(row) for row in found.scalars())


def in_force(
    tx: Transaction, voter: Voter, now_ms: int, approval_id: str | None = None
) -> list[RowMapping]:
    """What is allowed for longer where somebody stands, or that one approval; the newest first."""
    wanted = [is_here(voter), _is_in_force(now_ms)]
    if approval_id is not None:
        wanted.append(approvals.c.id == approval_id)
    found = tx.conn.execute(
        select(approvals)
        .join(sessions, sessions.c.key == approvals.c.session_key)
        .where(*wanted)
        .order_by(approvals.c.decided_ms.desc(), approvals.c.id)
        .limit(MOST_SHOWN)
    )
    return list(found.mappings())


def revoke(tx: Transaction, approval_id: str) -> None:
    """Let it count no longer; that it was approved stays written."""
    tx.conn.execute(update(approvals).where(approvals.c.id == approval_id).values(lasts="revoked"))


def _is_in_force(now_ms: int) -> ColumnElement[bool]:
    """Of an approval beside its session's row."""
    in_session = and_(approvals.c.lasts == "session", approvals.c.epoch == sessions.c.epoch)
    in_time = and_(approvals.c.lasts == "until", approvals.c.lasts_until_ms > now_ms)
    return and_(approvals.c.state == "approved", or_(in_session, in_time))
