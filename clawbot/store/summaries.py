"""Rows of `summaries`: what is remembered of the beginning of an epoch, and who is writing it.

A summary takes long to write and belongs to the history it was made of. So it is claimed first (one
process at a time, for a while), and written only if the session still is what it was then: the same
epoch, not stopped, not deleted, the same earlier summary. Failures make the next try wait longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Update, bindparam, select, update

from clawbot.ports import Transaction
from clawbot.recollection import FOR_ANY_WINDOW, Summary
from clawbot.session_key import SessionKey
from clawbot.store.schema import messages, sessions, summaries

FIRST_WAIT_MS = 60_000
LONGEST_WAIT_MS = 6 * 3600_000

_FIND = select(summaries).where(
    summaries.c.session_key == bindparam("of_session"), summaries.c.epoch == bindparam("of_epoch")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryClaim:
    """The right to write the next summary of an epoch, while nothing has changed.

    stop_seq: the session's when it was claimed. earlier: the summary to go on from.
    """

    session: SessionKey
    epoch: int
    stop_seq: int
    earlier: Summary | None


def find(tx: Transaction, key: SessionKey, epoch: int) -> Summary | None:
    """The summary of an epoch, if there is one."""
    params = {"of_session": str(key), "of_epoch": epoch}
    return of_row(tx.run(_FIND, params).mappings().one_or_none() or {})[0]


def of_row(row: Mapping[Any, Any], prefix: str = "") -> tuple[Summary | None, bool]:
    """What a row says, if there is one: the summary, and whether a person waits for a new one."""
    if not row.get(f"{prefix}through_seq"):
        return None, bool(row.get(f"{prefix}wanted_seq"))
    summary = Summary(
        text=row[f"{prefix}text"],
        through_seq=row[f"{prefix}through_seq"],
        for_tokens=row[f"{prefix}for_tokens"],
    )
    return summary, row[f"{prefix}wanted_seq"] > 0


def want(tx: Transaction, key: SessionKey, epoch: int, seq: int) -> bool:
    """Note that a person asks for a summary of all up to now, the number `seq`.

    False = there is nothing that the summary does not hold.
    """
    known = find(tx, key, epoch)
    is_new = messages.c.seq > (0 if known is None else known.through_seq)
    mine = (messages.c.session_key == str(key)) & (messages.c.epoch == epoch)
    if tx.conn.execute(select(messages.c.seq).where(mine, is_new).limit(1)).first() is None:
        return False
    _make_row(tx, key, epoch)
    tx.conn.execute(
        _of(key, epoch, summaries.c.wanted_seq < seq).values(wanted_seq=seq, next_try_ms=0)
    )
    return True


def claim(
    tx: Transaction, key: SessionKey, epoch: int, *, now_ms: int, busy_ms: int
) -> SummaryClaim | None:
    """Take the right to summarise for `busy_ms`; None while another has it, or it is too early."""
    session = (
        tx.conn.execute(
            select(sessions.c.epoch, sessions.c.stop_seq, sessions.c.deleted_ms).where(
                sessions.c.key == str(key)
            )
        )
        .mappings()
        .one_or_none()
    )
    if session is None or session["epoch"] != epoch or session["deleted_ms"] is not None:
        return None
    _make_row(tx, key, epoch)
    is_free = (summaries.c.busy_until_ms <= now_ms) & (summaries.c.next_try_ms <= now_ms)
    taken = tx.conn.execute(_of(key, epoch, is_free).values(busy_until_ms=now_ms + busy_ms))
    if taken.rowcount != 1:
        return None
    return SummaryClaim(
        session=key,
        epoch=epoch,
        stop_seq=session["stop_seq"],
        earlier=find(tx, key, epoch),
    )


def write(tx: Transaction, claimed: SummaryClaim, summary: Summary) -> bool:
    """Keep a summary; False, and nothing is kept, when the session is not any more what it was."""
    still = tx.conn.execute(
        update(sessions)
        .where(
            sessions.c.key == str(claimed.session),
            sessions.c.epoch == claimed.epoch,
            sessions.c.stop_seq == claimed.stop_seq,
            sessions.c.deleted_ms.is_(None),
        )
        .values(last_seq=sessions.c.last_seq)  # locks the row until the commit
    )
    if still.rowcount != 1:
        return False
    before = 0 if claimed.earlier is None else claimed.earlier.through_seq
    done = summaries.c.wanted_seq if summary.for_tokens < FOR_ANY_WINDOW else 0
    kept = tx.conn.execute(
        _of(claimed.session, claimed.epoch, summaries.c.through_seq == before).values(
            text=summary.text,
            through_seq=summary.through_seq,
            for_tokens=summary.for_tokens,
            wanted_seq=done,
            failures=0,
            next_try_ms=0,
            busy_until_ms=0,
        )
    )
    return kept.rowcount == 1


def give_up(tx: Transaction, claimed: SummaryClaim, *, now_ms: int, is_failure: bool) -> None:
    """End a claim without a summary. After a failure the next try waits, each time twice as long.

    A wish is dropped with it: a person is not made to wait before every message.
    """
    row = (
        tx.run(_FIND, {"of_session": str(claimed.session), "of_epoch": claimed.epoch})
        .mappings()
        .one_or_none()
    )
    if row is None:
        return
    failures = row["failures"] + is_failure
    wait_ms = min(FIRST_WAIT_MS * 2 ** min(failures - 1, 20), LONGEST_WAIT_MS) if is_failure else 0
    tx.conn.execute(
        _of(claimed.session, claimed.epoch, summaries.c.through_seq == row["through_seq"]).values(
            failures=failures,
            next_try_ms=now_ms + wait_ms if is_failure else row["next_try_ms"],
            busy_until_ms=0,
            wanted_seq=0,
        )
    )


def _make_row(tx: Transaction, key: SessionKey, epoch: int) -> None:
    tx.conn.execute(
        tx.insert(summaries).values(session_key=str(key), epoch=epoch).on_conflict_do_nothing()
    )


def _of(key: SessionKey, epoch: int, condition: ColumnElement[bool]) -> Update:
    return update(summaries).where(
        summaries.c.session_key == str(key), summaries.c.epoch == epoch, condition
    )
