"""Faults of `schedules`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clawbot.ports import Transaction
from clawbot.schedules import When, every
from clawbot.store import schedules
from clawbot.store.inbox import StoredMeanwhile
from tests.contracts.broken.breaking import (
    Break,
    afterwards,
    before,
    changing,
    replacing,
    wrapping,
)


def next_in_turn(_when: When, begun_ms: int, now_ms: int) -> int | None:
    """Catch up with every time that passed."""
    return begun_ms + 600_000 if now_ms - begun_ms < 600_000 else begun_ms + 1_200_000


def cancel_anywhere(tx: Transaction, *, base: object, schedule_id: str) -> bool:
    """Do not look whose it is."""
    statement = f"DELETE FROM schedules WHERE id = '{schedule_id}'"  # noqa: S608
    return tx.conn.exec_driver_sql(statement).rowcount == 1


def begin_without_moving(
    original: Callable[..., bool], tx: Transaction, row: Any, now_ms: int
) -> bool:
    """Leave the row at the time that has come."""
    done = original(tx, row, now_ms)
    tx.conn.exec_driver_sql(f"UPDATE schedules SET next_ms = {row['next_ms']}")  # noqa: S608
    return done


PLANNING_BREAKS = (
    Break(
        clause="test_what_is_due_becomes_a_message_of_its_session",
        fault="it belongs to nobody",
        apply=afterwards(schedules, "fire", "UPDATE inbox SET sender_id = ''"),
    ),
    Break(
        clause="test_several_processes_begin_it_once",
        fault="the time stays",
        apply=wrapping(schedules, "_begin", begin_without_moving),
        raises=(StoredMeanwhile,),
    ),
    Break(
        clause="test_times_that_passed_unseen_count_as_one",
        fault="each is made up for",
        apply=replacing(schedules, "next_ms", next_in_turn),
    ),
    Break(
        clause="test_a_single_time_is_over_when_it_has_come",
        fault="it comes again",
        apply=replacing(schedules, "_when", lambda _row: every(600)),
    ),
    Break(
        clause="test_what_is_cancelled_does_not_begin",
        fault="anybody cancels it",
        apply=replacing(schedules, "cancel", cancel_anywhere),
    ),
    Break(
        clause="test_what_belongs_to_a_deleted_session_goes_with_it",
        fault="it is put back",
        apply=before(
            schedules,
            "fire",
            "INSERT INTO schedules (id, session_key, base_key, channel, chat_id, chat_type,"
            " sender_id, text, kind, spec, zone, created_ms, next_ms)"
            " VALUES ('x', 'global', 'global', 'a', 'b', 'dm', '', '', 'every', '60', 'UTC', 0, 0)",
        ),
    ),
    Break(
        clause="test_a_chat_has_only_so_many_plans",
        fault="it has more",
        apply=changing(schedules, "add", is_counted=False),
    ),
    Break(
        clause="test_what_the_config_plans_follows_it_and_keeps_its_time",
        fault="it begins anew at each start",
        apply=replacing(schedules, "_is_same", lambda *_: False),
    ),
)
