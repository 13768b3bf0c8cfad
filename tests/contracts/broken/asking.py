"""Broken approvals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import ColumnElement, RowMapping, true

from clawbot.ports import Transaction
from clawbot.store import approvals, grants, sessions, stops, told, turns
from clawbot.store.approvals import Decision
from clawbot.store.grants import Voter
from tests.contracts.broken.breaking import Break, afterwards, before, replacing, wrapping
from tests.contracts.broken.running import without_stops

FOR_EVER = "UPDATE sessions SET wait_until_ms = 4000000000000"


def by_a_clock_that_stands(
    original: Callable[..., int | None], tx: Transaction, turn_id: str, _now_ms: int
) -> int | None:
    """Find no question too old."""
    return original(tx, turn_id, 0)


def by_anybody(
    original: Callable[..., Decision], tx: Transaction, voter: Voter, *args: object, **kw: object
) -> Decision:
    """Take everybody for an owner."""
    return original(tx, replace(voter, is_owner=True), *args, **kw)


def at_the_beginning(original: Callable[[int], ColumnElement[bool]], _now_ms: int) -> object:
    """Let no time pass."""
    return original(0)


def only_before_it_grows(
    original: Callable[..., str], tx: Transaction, turn: RowMapping, route: object
) -> str:
    """Forget what was told once a further message has begun."""
    return "" if turn["outbox_id"] is not None else original(tx, turn, route)


APPROVAL_BREAKS = (
    Break(
        clause="test_a_parked_turn_waits_and_so_do_new_messages",
        fault="a parked turn goes on unasked",
        apply=replacing(approvals, "waits_until", lambda *_: None),
    ),
    Break(
        clause="test_what_is_said_after_a_question_is_a_message_of_its_own",
        fault="what was told is forgotten",
        apply=replacing(told, "told_before", lambda *_: ""),
    ),
    Break(
        clause="test_what_is_said_after_a_question_is_a_message_of_its_own",
        fault="a further message begins anew when the turn is resumed again",
        apply=wrapping(told, "told_before", only_before_it_grows),
    ),
    Break(
        clause="test_an_answer_of_one_piece_after_a_question_repeats_nothing",
        fault="the answer repeats what was told",
        apply=replacing(told, "rest_of", lambda text, _told: text),
    ),
    Break(
        clause="test_a_decision_makes_the_turn_claimable_and_counts_once",
        fault="a decision wakes nobody",
        apply=afterwards(approvals, "decide", FOR_EVER),
    ),
    Break(
        clause="test_a_decision_makes_the_turn_claimable_and_counts_once",
        fault="a decision counts again",
        apply=afterwards(approvals, "ask", "UPDATE approvals SET used_ms = NULL"),
    ),
    Break(
        clause="test_a_used_decision_is_no_reason_to_call_again",
        fault="a used call is made again",
        apply=replacing(approvals, "asked_calls", lambda *_: frozenset({1})),
    ),
    Break(
        clause="test_what_was_allowed_counts_for_the_same_arguments_alone",
        fault="any arguments will do",
        apply=replacing(approvals, "_hash_of", lambda *_: ""),
    ),
    Break(
        clause="test_what_is_allowed_for_a_conversation_needs_no_second_question_in_it",
        fault="people are asked again",
        apply=replacing(grants, "holds", lambda *_: False),
    ),
    Break(
        clause="test_what_is_allowed_for_a_conversation_needs_no_second_question_in_it",
        fault="it counts for everything",
        apply=replacing(grants, "holds", lambda *_: True),
    ),
    Break(
        clause="test_what_is_allowed_until_a_time_needs_no_second_question_before_it",
        fault="people are asked again",
        apply=replacing(grants, "holds", lambda *_: False),
    ),
    Break(
        clause="test_what_is_allowed_until_a_time_needs_no_second_question_before_it",
        fault="the time is never over",
        apply=wrapping(grants, "_is_in_force", at_the_beginning),
    ),
    Break(
        clause="test_what_is_allowed_for_longer_is_taken_back_by_a_no",
        fault="a no changes nothing",
        apply=replacing(grants, "revoke", lambda *_: None),
    ),
    Break(
        clause="test_a_question_is_put_once",
        fault="a question is put again",
        apply=before(approvals, "ask", "DELETE FROM approvals"),
    ),
    Break(
        clause="test_a_question_that_is_decided_before_its_turn_is_parked_is_not_waited_for",
        fault="a parked turn waits in any case",
        apply=afterwards(turns, "park", FOR_EVER),
    ),
    Break(
        clause="test_a_question_expires_when_its_time_is_over",
        fault="a question stays open for ever",
        apply=wrapping(approvals, "waits_until", by_a_clock_that_stands),
    ),
    Break(
        clause="test_only_the_asker_and_owners_decide",
        fault="anybody decides",
        apply=wrapping(approvals, "decide", by_anybody),
    ),
    Break(
        clause="test_a_bot_does_not_allow_its_own_calls",
        fault="a bot is asked",
        apply=afterwards(approvals, "ask", "UPDATE approvals SET people = '[\"B1\"]'"),
    ),
    Break(
        clause="test_a_question_is_answered_where_it_was_asked",
        fault="it is answered anywhere",
        apply=replacing(grants, "is_here", lambda _: true()),
    ),
    Break(
        clause="test_without_an_id_the_only_open_question_is_meant",
        fault="no question is found",
        apply=replacing(approvals, "open_here", lambda *_: []),
    ),
    Break(
        clause="test_of_two_decisions_the_first_counts",
        fault="a question stays open after a decision",
        apply=afterwards(
            approvals, "_settle", "UPDATE approvals SET state = 'open', decided_ms = NULL"
        ),
    ),
    Break(
        clause="test_a_stopped_turn_asks_nobody",
        fault="nobody looks whether the turn was stopped",
        apply=wrapping(sessions, "lock", without_stops),
    ),
    Break(
        clause="test_the_history_of_a_turn_that_is_stopped_while_parked_is_whole",
        fault="open calls stay open",
        apply=replacing(stops, "cut_short", lambda *_: []),
    ),
)
