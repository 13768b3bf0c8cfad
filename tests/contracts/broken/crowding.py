"""Broken queues: what becomes of messages that arrive while their session is busy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import text

from clawbot.ports import Transaction
from clawbot.store import claims, inbox, sessions, turns, waiting
from clawbot.store.claims import Claim
from clawbot.store.inbox import InboxRow, open_rows
from tests.contracts.broken.breaking import (
    Break,
    afterwards,
    changing,
    nothing,
    replacing,
    wrapping,
)
from tests.contracts.broken.running import without_stops


def all_that_wait(tx: Transaction, turn: Claim) -> list[InboxRow]:
    """Take whatever waits for a newcomer, whoever wrote it."""
    return [row for row in open_rows(tx, str(turn.session)) if row.state == "queued"]


def told_again(rows: Sequence[InboxRow]) -> list[InboxRow]:
    """Take all for new."""
    return list(rows)


def told_each_time(_tx: Transaction, *_args: Any) -> bool:
    """Forget what was told."""
    return True


def requeue_all(original: Callable[..., None], tx: Transaction, turn: Claim, *args: Any) -> None:
    """Let stopped messages wait again."""
    original(tx, turn, *args)
    tx.conn.execute(text("UPDATE inbox SET state = 'queued', settled_ms = NULL"))
    tx.conn.execute(text("UPDATE sessions SET due_ms = 1"))


WAITING_BREAKS = (
    Break(
        clause="test_one_by_one_each_message_has_a_turn_of_its_own",
        fault="they are collected",
        apply=changing(claims, "claim", queue_of=claims.collecting),
    ),
    Break(
        clause="test_what_joins_a_turn_is_its_own_sender_s_and_next_in_line",
        fault="anybody joins",
        apply=replacing(waiting, "newcomers", all_that_wait),
    ),
    Break(
        clause="test_what_joined_a_turn_ends_and_resumes_with_it",
        fault="nobody looks whether the turn was stopped",
        apply=wrapping(sessions, "lock", without_stops),
    ),
    Break(
        clause="test_an_interrupted_turn_s_messages_are_answered_in_the_next_one",
        fault="they stand twice in the history",
        apply=replacing(claims, "_untold", told_again),
    ),
    Break(
        clause="test_an_interrupted_turn_s_messages_are_answered_in_the_next_one",
        fault="they end with the turn",
        apply=replacing(turns, "_REQUEUE", text("SELECT 1")),
    ),
    Break(
        clause="test_a_stop_also_ends_what_was_just_interrupted",
        fault="stopped messages wait again",
        apply=wrapping(turns, "finish", requeue_all),
    ),
    Break(
        clause="test_a_burst_is_waited_for_once_the_session_was_busy",
        fault="nothing is waited for",
        apply=replacing(waiting, "wait_for_more", nothing),
    ),
    Break(
        clause="test_a_burst_is_waited_for_once_the_session_was_busy",
        fault="an idle session waits too",
        apply=afterwards(sessions, "take_numbers", "UPDATE sessions SET wait_until_ms = 4e12"),
    ),
    Break(
        clause="test_a_file_or_a_command_ends_the_waiting",
        fault="nothing ends it",
        apply=replacing(waiting, "hurry", nothing),
    ),
    Break(
        clause="test_a_message_too_many_is_not_taken_and_its_sender_told_once",
        fault="all are taken",
        apply=replacing(waiting, "count", lambda *_: 0),
    ),
    Break(
        clause="test_a_message_too_many_is_not_taken_and_its_sender_told_once",
        fault="each is told of",
        apply=replacing(inbox, "note_once", told_each_time),
    ),
)
