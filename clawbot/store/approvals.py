"""Rows of `approvals`: questions of tools to people, each bound to one call of one turn.

    open -> approved | denied | expired | cancelled

A turn that asks is parked: no process waits for the answer. A decision makes its session claimable
at once, the expiry when its time comes. The call is then made again and finds the decision, which
counts for that very call with those arguments, and once; or, if people say so, for longer: see
`clawbot.store.grants`.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy import RowMapping, select, update

from clawbot.history import ToolCall
from clawbot.messages import Choice
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import events, grants, inline, outbox, revisions, sessions
from clawbot.store.grants import ONCE, Lasting, Voter
from clawbot.store.schema import approvals
from clawbot.store.schema import sessions as session_rows
from clawbot.store.topics import TURNS

if TYPE_CHECKING:
    from clawbot.store.claims import Claim  # which looks into the questions of a parked turn

ID_BYTES = 4
AT_MOST = 100

_IS_OPEN = approvals.c.decided_ms.is_(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What has become of a question. state: open, approved, denied, expired, cancelled; or used,
    when the call was made already, or changed, when it is not the call that was asked about.
    """

    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """How a question reads once it is decided: its `text`, and a last line for each way to end,
    in which `{by}` stands for the name of who decided and `{until}` for a time. Ways to end are the
    states of a ruling, and `approved_session` and `approved_until`. subject: the question in a few
    words, for lists.
    """

    text: str
    endings: Mapping[str, str]
    subject: str = ""

    def as_text(self, state: str, by: str, lasting: Lasting = ONCE) -> str:
        """The whole of it."""
        usual = self.endings.get(state, "")
        line = self.endings.get(f"{state}_{lasting.kind}", usual)
        line = line.replace("{by}", by).replace("{until}", lasting.told)
        return "\n\n".join(part for part in (self.text, line) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What an answer came to. outcome: decided, none, several, not_yours, expired; revoked, when it
    took back what was allowed for longer; or how the question was decided before.
    """

    outcome: str
    ids: tuple[str, ...] = ()
    tool: str = ""


def fresh_id() -> str:
    """A name that tells nothing and cannot be guessed from another one."""
    return secrets.token_hex(ID_BYTES)


def _hash_of(call: ToolCall, bound: str) -> str:
    return hashlib.sha256(f"{call.tool}\n{call.arguments}\n{bound}".encode()).hexdigest()


# -- the turn's side -------------------------------------------------------------------------------


def ask(
    tx: Transaction,
    turn: Claim,
    call: ToolCall,
    *,
    new_id: str,
    text: str,
    expires_ms: int,
    now_ms: int,
    choices: Sequence[Choice] = (),
    bound: str = "",
    closing: Closing | None = None,
) -> Ruling:
    """Put a call's question to the people of the turn, or use what they decided.

    Raise LeaseLost or TurnStopped. text: the question as it is sent, under the id `new_id`;
    choices: the answers to it. closing: how it reads afterwards. bound: what else the decision
    holds for alone (the directories).
    """
    numbers = sessions.lock(tx, turn.session, turn.fence, count=1, first_seq=turn.first_seq)
    found = (
        tx.conn.execute(
            select(approvals).where(
                approvals.c.turn_id == turn.turn_id, approvals.c.call_seq == call.seq
            )
        )
        .mappings()
        .one_or_none()
    )
    if found is not None:
        return _use(tx, found, _hash_of(call, bound), now_ms)
    last, route = turn.rows[-1], turn.route
    asked = turn.rows[0].sender
    place = {
        "channel": last.channel,
        "chat_id": last.chat_id if route is None else route.chat_id,
        "thread": (None if route is None else route.thread) or "",
    }
    people = [] if asked.is_bot else [asked.id]
    if grants.holds(tx, turn, _hash_of(call, bound), place, people, now_ms):
        return Ruling(state="approved")
    outbox_id: int | None = None
    if route is not None:
        outbox_id = outbox.add(
            tx,
            channel=last.channel,
            route=route,
            state="pending",
            text=text,
            now_ms=now_ms,
            session_key=str(turn.session.base if turn.is_task else turn.session),
            inbox_id=last.id,
            skips_lane=True,
            choices=choices,
        )
        inline.pass_on(tx, last.id, outbox_id)
    tx.conn.execute(
        approvals.insert().values(
            id=new_id,
            session_key=str(turn.session),
            turn_id=turn.turn_id,
            call_seq=call.seq,
            tool=call.tool,
            arguments_hash=_hash_of(call, bound),
            question=text,
            closing=None if closing is None else asdict(closing),
            outbox_id=outbox_id,
            **place,
            people=people,
            epoch=turn.epoch,
            state="open",
            created_ms=now_ms,
            expires_ms=expires_ms,
        )
    )
    data = {"id": new_id, "turn": turn.turn_id, "tool": call.tool, "text": text}
    events.append(tx, turn.session, numbers.last_seq, turn.epoch, "approval_asked", data, now_ms)
    return Ruling(state="open")


def _use(tx: Transaction, row: RowMapping, arguments_hash: str, now_ms: int) -> Ruling:
    """What was decided of a call, which has no second use."""
    if row["arguments_hash"] != arguments_hash:
        return Ruling(state="changed")
    if row["used_ms"] is not None:
        return Ruling(state="used")
    if row["state"] == "open":
        return Ruling(state="open")
    tx.conn.execute(update(approvals).where(approvals.c.id == row["id"]).values(used_ms=now_ms))
    return Ruling(state=row["state"], reason=row["reason"])


def waits_until(tx: Transaction, turn_id: str, now_ms: int) -> int | None:
    """Until when a parked turn must wait for people; None = it can go on.

    What nobody decided in time expires here. The caller holds the session's row.
    """
    unused = [
        row
        for row in tx.conn.execute(
            select(approvals).where(approvals.c.turn_id == turn_id, approvals.c.used_ms.is_(None))
        ).mappings()
        if row["state"] != "cancelled"
    ]
    overdue = [row for row in unused if row["state"] == "open" and row["expires_ms"] <= now_ms]
    for row in overdue:
        _settle(tx, row, "expired", None, "", now_ms)
    if overdue or any(row["state"] != "open" for row in unused):
        return None
    return min((row["expires_ms"] for row in unused), default=None)


def asked_calls(tx: Transaction, turn_id: str) -> frozenset[int]:
    """The calls of a turn, by their numbers, whose question has not been used yet."""
    rows = tx.conn.execute(
        select(approvals.c.call_seq).where(
            approvals.c.turn_id == turn_id,
            approvals.c.used_ms.is_(None),
            approvals.c.state != "cancelled",
        )
    )
    return frozenset(rows.scalars())


# -- the people's side -----------------------------------------------------------------------------


def decide(
    tx: Transaction,
    voter: Voter,
    approval_id: str | None,
    *,
    approves: bool,
    reason: str,
    now_ms: int,
    lasting: Lasting = ONCE,
) -> Decision:
    """Answer a question; without an id the only one that is open here. lasting: how long a yes
    counts. A no to what was allowed for longer takes that back.
    """
    if approval_id is None:
        rows = [row for row in open_here(tx, voter) if row["expires_ms"] > now_ms]
        if len(rows) != 1:
            ids = tuple(row["id"] for row in rows)
            return Decision(outcome="several" if ids else "none", ids=ids)
        row = rows[0]
    else:
        found = tx.conn.execute(
            select(approvals).where(approvals.c.id == approval_id, grants.is_here(voter))
        )
        if (one := found.mappings().one_or_none()) is None:
            return Decision(outcome="none")
        row = one
    decision = Decision(outcome="decided", ids=(row["id"],), tool=row["tool"])
    if not voter.may_decide(row):
        return replace(decision, outcome="not_yours")
    if not approves and grants.in_force(tx, voter, now_ms, row["id"]):
        grants.revoke(tx, row["id"])
        return replace(decision, outcome="revoked")
    state = "approved" if approves else "denied"
    is_late = row["state"] == "open" and row["expires_ms"] <= now_ms
    if is_late or not _settle(tx, row, state, voter, reason, now_ms, lasting):
        return replace(decision, outcome="expired" if is_late else _state_of(tx, row["id"]))
    tx.conn.execute(
        update(session_rows)
        .where(session_rows.c.key == row["session_key"])
        .values(due_ms=now_ms, wait_until_ms=None)
    )
    tx.ring(TURNS)
    return decision


def open_here(tx: Transaction, voter: Voter) -> list[RowMapping]:
    """The questions that wait for an answer where somebody stands, the oldest first."""
    found = tx.conn.execute(
        select(approvals)
        .where(_IS_OPEN, grants.is_here(voter))
        .order_by(approvals.c.created_ms, approvals.c.id)
        .limit(AT_MOST)
    )
    return list(found.mappings())


def cancel(tx: Transaction, key: SessionKey, now_ms: int) -> int:
    """Take back the open questions of a session that is stopped; return how many there were."""
    waiting = select(approvals).where(approvals.c.session_key == str(key), _IS_OPEN)
    rows = tx.conn.execute(waiting).mappings().all()
    for row in rows:
        _settle(tx, row, "cancelled", None, "", now_ms)
    return len(rows)


def _settle(
    tx: Transaction,
    row: RowMapping,
    state: str,
    voter: Voter | None,
    reason: str,
    now_ms: int,
    lasting: Lasting = ONCE,
) -> bool:
    """Decide a question that is still open; False when somebody was faster. Its message says so."""
    person = "" if voter is None else voter.person
    key = SessionKey.parse(row["session_key"])
    numbers = sessions.take_numbers(tx, key, 1, now_ms)
    settled = tx.conn.execute(
        update(approvals)
        .where(approvals.c.id == row["id"], approvals.c.state == "open")
        .values(
            state=state,
            decided_by=person,
            reason=reason,
            decided_ms=now_ms,
            lasts=lasting.kind,
            lasts_until_ms=lasting.until_ms,
        )
    )
    if settled.rowcount != 1:
        return False
    data = {"id": row["id"], "turn": row["turn_id"], "state": state, "by": person}
    events.append(tx, key, numbers.last_seq, numbers.epoch, "approval_decided", data, now_ms)
    if row["outbox_id"] is not None and row["closing"] is not None:
        by = person if voter is None else voter.name or person
        text = Closing(**row["closing"]).as_text(state, by, lasting)
        revisions.revise(tx, row["outbox_id"], text)
    return True


def _state_of(tx: Transaction, approval_id: str) -> str:
    state: str = tx.conn.execute(
        select(approvals.c.state).where(approvals.c.id == approval_id)
    ).scalar_one()
    return state
