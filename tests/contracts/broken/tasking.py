"""Faults of `task_runs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clawbot.ports import Transaction
from clawbot.store import claims, task_runs
from clawbot.store.claims import Claim
from tests.contracts.broken.breaking import (
    Break,
    afterwards,
    before,
    nothing,
    replacing,
    wrapping,
)


def report_twice(original: Callable[..., None], tx: Transaction, *args: Any) -> None:
    """Report under a new name each time."""
    original(tx, *args)
    tx.conn.exec_driver_sql(
        "INSERT INTO inbox (channel, identity, state, chat_id, chat_type, sender_id, text,"
        " accepted_ms, session_key, seq, reason)"
        " SELECT channel, identity || '-again', state, chat_id, chat_type, sender_id, text,"
        " accepted_ms, session_key, seq + 1000, reason FROM inbox WHERE reason = 'task_report'"
    )


def joins_all(first: Any, row: Any) -> bool:
    """Look at the sender alone."""
    return bool(first.sender.id == row.sender.id)


TASK_BREAKS = (
    Break(
        clause="test_a_task_begins_a_turn_of_its_own_session",
        fault="it pays by itself",
        apply=replacing(claims, "_task_of", nothing),
    ),
    Break(
        clause="test_its_answer_becomes_one_report_and_no_reply",
        fault="it comes twice",
        apply=wrapping(task_runs, "report", report_twice),
    ),
    Break(
        clause="test_its_answer_becomes_one_report_and_no_reply",
        fault="it is shown as well",
        apply=replacing(Claim, "reply_route", property(lambda turn: turn.route)),
    ),
    Break(
        clause="test_a_report_waits_behind_what_runs_and_is_answered_alone",
        fault="it joins others",
        apply=replacing(claims, "joins", joins_all),
    ),
    Break(
        clause="test_a_stopped_conversation_is_not_waken_by_its_tasks",
        fault="nobody looks whether it was stopped",
        apply=before(task_runs, "report", "UPDATE sessions SET stop_seq = 0"),
    ),
    Break(
        clause="test_a_stopped_conversation_is_not_waken_by_its_tasks",
        fault="its tasks go on",
        apply=replacing(task_runs, "open_of", lambda *_: []),
    ),
    Break(
        clause="test_a_task_that_is_stopped_alone_is_reported",
        fault="nobody is told of one that no worker runs",
        apply=replacing(task_runs, "end_stopped", nothing),
    ),
    Break(
        clause="test_ends_and_stops_at_the_same_time_leave_each_task_reported_or_stopped",
        fault="what ends is forgotten",
        apply=afterwards(task_runs, "report", "DELETE FROM inbox WHERE reason = 'task_report'"),
    ),
)
