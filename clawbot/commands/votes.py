"""`/approve` and `/deny`: what people decide about the calls that ask for it, and for how long."""

from __future__ import annotations

import re

from clawbot.commands.answers import answer
from clawbot.commands.grammar import Command
from clawbot.ports import Transaction
from clawbot.schedules import BadTime, local, parse
from clawbot.store import approvals, grants
from clawbot.store.approvals import Decision
from clawbot.store.grants import ONCE, Lasting, Voter

REASON_CHARS = 500
SUBJECT_CHARS = 80
MOST_DAYS = 7
DAY_MS = 86_400_000
ALWAYS = frozenset({"always", "session", "始终", "总是", "一直", "本会话", "本对话"})
LIST = frozenset({"list", "列表", "清单"})
_OPEN = frozenset({"none", "several", "not_yours"})

_ID = re.compile(rf"`?([0-9a-fA-F]{{{approvals.ID_BYTES * 2}}})`?(?:\s+(.*))?", re.DOTALL)
_BEFORE = re.compile(r"(?:for|until|till|直到|到|至)\s*(?=\S)", re.IGNORECASE)
_ONE = re.compile(r"(?:an?|one)\s+(?=\w)", re.IGNORECASE)
_BEHIND = frozenset({"", "内", "之内", "以内", "前", "之前", "为止"})


def vote(
    tx: Transaction, command: Command, voter: Voter, like: str, zone: str, now_ms: int
) -> tuple[str, bool]:
    """`/approve [ID] [always | TIME]`, `/deny [ID] [reason]`; without an ID the only question that
    is open here. always: for the same call as long as the conversation lasts; TIME: until then.
    `/approve list`: what is allowed for longer, which `/deny ID` takes back.

    The answer, and whether the question is closed now. zone: in which people name times.
    """
    match = _ID.fullmatch(command.words)
    approval_id, words = (match[1].lower(), match[2] or "") if match else (None, command.words)
    if command.name == "deny":
        reason = words.strip()[:REASON_CHARS]
        decision = approvals.decide(
            tx, voter, approval_id, approves=False, reason=reason, now_ms=now_ms
        )
        return _told(decision, approval_id, ONCE, like, approves=False)
    if match is None and words.strip().casefold() in LIST:
        return _list(tx, voter, like, zone, now_ms), False
    lasting = lasting_of(words, zone, now_ms)
    if lasting is None and match is None and len(words.split()) == 1:
        return answer("approval_unknown", like=like, id=words[:20]), False
    if lasting is None:
        told = {"id": approval_id or "ID", "days": MOST_DAYS}
        return answer("approval_bad_words", like=like, **told), False
    decision = approvals.decide(
        tx, voter, approval_id, approves=True, reason="", now_ms=now_ms, lasting=lasting
    )
    return _told(decision, approval_id, lasting, like, approves=True)


def lasting_of(words: str, zone: str, now_ms: int) -> Lasting | None:
    """For how long somebody allows something; None when that cannot be read."""
    words = words.strip()
    if not words:
        return ONCE
    if words.casefold() in ALWAYS:
        return Lasting(kind="session")
    words = _ONE.sub("1 ", _BEFORE.sub("", words, count=1), count=1)
    try:
        when, rest = parse(words, zone, now_ms)
    except BadTime:
        return None
    if when.kind != "once" or rest not in _BEHIND:
        return None
    until_ms = int(when.spec)
    if until_ms > now_ms + MOST_DAYS * DAY_MS:
        return None
    return Lasting(kind="until", until_ms=until_ms, told=local(until_ms, zone))


def _list(tx: Transaction, voter: Voter, like: str, zone: str, now_ms: int) -> str:
    rows = grants.in_force(tx, voter, now_ms)
    lines = "\n".join(
        answer(
            f"approval_listed_{row['lasts']}",
            like=like,
            id=row["id"],
            tool=row["tool"],
            until=local(row["lasts_until_ms"] or 0, zone),
            subject=_short((row["closing"] or {}).get("subject", "")),
        )
        for row in rows
    )
    return answer("approval_list" if rows else "approval_list_none", like=like, lines=lines)


def _short(line: str) -> str:
    return line if len(line) <= SUBJECT_CHARS else line[: SUBJECT_CHARS - 1] + "…"


def _told(
    decision: Decision, approval_id: str | None, lasting: Lasting, like: str, *, approves: bool
) -> tuple[str, bool]:
    is_closed = decision.outcome not in _OPEN
    told = {"tool": decision.tool, "id": approval_id, "until": lasting.told}
    name = f"approval_{decision.outcome}"
    if decision.outcome == "decided":
        told["id"] = decision.ids[0]
        given = "approval_given" if lasting == ONCE else f"approval_given_{lasting.kind}"
        name = given if approves else "approval_refused"
    elif decision.outcome == "none" and approval_id is not None:
        name = "approval_unknown"
    elif decision.outcome == "several":
        ids = ", ".join(f"`{one}`" for one in decision.ids[:10])
        return answer("approval_several", like=like, ids=ids), is_closed
    return answer(name, like=like, **told), is_closed
