"""`/approve` and `/deny`: what people decide about the calls that ask for it."""

from __future__ import annotations

import re

from clawbot.commands.answers import answer
from clawbot.commands.grammar import Command
from clawbot.ports import Transaction
from clawbot.store import approvals
from clawbot.store.approvals import Decision, Voter

REASON_CHARS = 500
ALWAYS = frozenset({"always", "session", "始终", "总是", "一直", "本会话"})
_OPEN = frozenset({"none", "several", "not_yours"})

_ID = re.compile(rf"`?([0-9a-fA-F]{{{approvals.ID_BYTES * 2}}})`?(?:\s+(.*))?", re.DOTALL)


def vote(
    tx: Transaction, command: Command, voter: Voter, like: str, now_ms: int
) -> tuple[str, bool]:
    """`/approve [ID] [always]`, `/deny [ID] [reason]`; without an ID the only question that is open
    here. always: for the same call as long as the conversation lasts.

    The answer, and whether the question is closed now.
    """
    match = _ID.fullmatch(command.words)
    approval_id, reason = (match[1].lower(), match[2] or "") if match else (None, command.words)
    approves = command.name == "approve"
    is_lasting = approves and reason.strip().casefold() in ALWAYS
    if approves and match is None and command.words and not is_lasting:
        return answer("approval_unknown", like=like, id=command.words[:20]), False
    decision = approvals.decide(
        tx,
        voter,
        approval_id,
        approves=approves,
        reason="" if approves else reason.strip()[:REASON_CHARS],
        now_ms=now_ms,
        lasts="session" if is_lasting else "once",
    )
    is_closed = decision.outcome not in _OPEN
    if is_lasting and decision.outcome == "decided":
        return answer("approval_given_always", like=like, tool=decision.tool), is_closed
    return _told(decision, approval_id, like, approves=approves), is_closed


def _told(decision: Decision, approval_id: str | None, like: str, *, approves: bool) -> str:
    if decision.outcome == "decided":
        name = "approval_given" if approves else "approval_refused"
        return answer(name, like=like, tool=decision.tool)
    if decision.outcome == "none":
        name = "approval_none" if approval_id is None else "approval_unknown"
        return answer(name, like=like, id=approval_id)
    if decision.outcome == "several":
        ids = ", ".join(f"`{one}`" for one in decision.ids[:10])
        return answer("approval_several", like=like, ids=ids)
    return answer(f"approval_{decision.outcome}", like=like, tool=decision.tool)
