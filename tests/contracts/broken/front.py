"""Broken inboxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import RowMapping, select, update

from clawbot import intake
from clawbot.messages import Accepted, InboundMessage
from clawbot.ports import Transaction
from clawbot.store import claims, inbox, overheard, processes, schema, turns, typing_marks
from clawbot.store.inbox import InboxRow, StoredMeanwhile
from tests.contracts.broken.breaking import (
    Break,
    afterwards,
    before,
    changing,
    nothing,
    replacing,
    wrapping,
)


def known_by_identity_alone(tx: Transaction, message: InboundMessage) -> RowMapping | None:
    """Do not look at the ids of deliveries."""
    rows = tx.conn.execute(select(schema.inbox).where(schema.inbox.c.identity == message.identity))
    return rows.mappings().one_or_none()


def known_as_answered(
    original: Callable[..., RowMapping | None], tx: Transaction, message: InboundMessage
) -> object:
    """Take a message that was only overheard for a duplicate."""
    row = original(tx, message)
    return None if row is None else {**row, "state": "queued"}


def admit_apart(
    original: Callable[..., Accepted], tx: Transaction, message: InboundMessage, *args: Any
) -> Accepted:
    """Know a message under an identity that other processes do not know."""
    return original(tx, replace(message, identity=f"mine-{message.identity}"), *args)


def put_over(
    original: Callable[..., int], tx: Transaction, message: InboundMessage, **values: Any
) -> int:
    """Let a copy overwrite the state of the message."""
    try:
        return original(tx, message, **values)
    except StoredMeanwhile:
        tx.conn.execute(update(schema.inbox).values(state=values["state"]))
        return 1


def refuse_the_unaddressed(
    tx: Transaction, message: InboundMessage, _rules: object, verdict: Any, now_ms: int
) -> object:
    """Keep a refused row of what was not for us."""
    row_id = inbox.put(tx, message, state="refused", now_ms=now_ms, reason=verdict.reason)
    return Accepted(inbox_id=row_id, decision="ignored", reason=verdict.reason)


def context_of_anywhere(
    original: Callable[..., list[InboxRow]], tx: Transaction, *place: Any, **bounds: Any
) -> list[InboxRow]:
    """Give the talk at the root to every thread."""
    channel, chat_id, _thread = place
    return original(tx, channel, chat_id, None, **bounds)


def skipping_unfinished(waiting: Sequence[InboxRow]) -> list[InboxRow]:
    """Do not wait for a message that is being completed."""
    return [row for row in waiting if row.state == "queued"]


INBOX_BREAKS = (
    Break(
        clause="test_a_sign_is_known_until_it_is_off_though_its_turn_has_ended",
        fault="its mark is not kept",
        apply=replacing(typing_marks, "note", nothing),
    ),
    Break(
        clause="test_a_sign_is_known_until_it_is_off_though_its_turn_has_ended",
        fault="it is forgotten with its turn",
        apply=afterwards(turns, "finish", "UPDATE inbox SET typing_mark = NULL"),
    ),
    Break(
        clause="test_a_sign_is_known_until_it_is_off_though_its_turn_has_ended",
        fault="its mark is not kept",
        apply=replacing(typing_marks, "note", nothing),
    ),
    Break(
        clause="test_a_sign_is_known_until_it_is_off_though_its_turn_has_ended",
        fault="it is forgotten with its turn",
        apply=afterwards(turns, "finish", "UPDATE inbox SET typing_mark = NULL"),
    ),
    Break(
        clause="test_a_second_copy_is_a_duplicate_of_the_same_row",
        fault="earlier copies are not looked for",
        apply=replacing(inbox, "known", nothing),
        raises=(StoredMeanwhile,),
    ),
    Break(
        clause="test_a_known_delivery_is_a_duplicate_under_another_identity",
        fault="ids of deliveries are ignored",
        apply=replacing(inbox, "known", known_by_identity_alone),
    ),
    Break(
        clause="test_two_processes_store_a_message_once_and_lose_none",
        fault="each process has identities of its own",
        apply=wrapping(intake, "admit", admit_apart),
    ),
    Break(
        clause="test_an_overheard_message_is_promoted_by_its_mention",
        fault="an overheard message counts as answered",
        apply=wrapping(inbox, "known", known_as_answered),
    ),
    Break(
        clause="test_a_mention_is_not_undone_by_its_unaddressed_copy",
        fault="a copy overwrites",
        apply=wrapping(inbox, "put", put_over),
    ),
    Break(
        clause="test_the_mention_rule_burns_no_identity",
        fault="the mention rule leaves a refused row",
        apply=replacing(intake, "_overhear", refuse_the_unaddressed),
    ),
    Break(
        clause="test_context_is_pruned_by_number_and_by_age",
        fault="nothing is pruned",
        apply=replacing(overheard, "prune", nothing),
    ),
    Break(
        clause="test_context_is_pruned_by_number_and_by_age",
        fault="age is ignored",
        apply=changing(overheard, "prune", since_ms=0),
    ),
    Break(
        clause="test_context_is_given_at_most_once_to_each_session",
        fault="context is given again",
        apply=changing(overheard, "context_of", after_id=0),
    ),
    Break(
        clause="test_context_is_given_at_most_once_to_each_session",
        fault="a thread is given the talk around it",
        apply=wrapping(overheard, "context_of", context_of_anywhere),
    ),
    Break(
        clause="test_a_root_that_was_overheard_is_context_of_its_thread_too",
        fault="what was overheard is not kept again",
        apply=replacing(overheard, "_is_elsewhere", lambda *_: False),
    ),
    Break(
        clause="test_a_message_being_completed_holds_later_ones_back",
        fault="later messages overtake",
        apply=replacing(claims, "_next_rows", skipping_unfinished),
    ),
    Break(
        clause="test_a_message_being_completed_holds_later_ones_back",
        fault="a completed message wakes nobody",
        apply=afterwards(inbox, "complete", "UPDATE sessions SET due_ms = NULL"),
    ),
    Break(
        clause="test_a_message_is_completed_by_one_process_at_a_time",
        fault="two processes take the same message",
        apply=before(inbox, "take_unenriched", "UPDATE inbox SET enrich_holder = NULL"),
    ),
    Break(
        clause="test_a_message_is_completed_by_one_process_at_a_time",
        fault="a dead process keeps what it took",
        apply=afterwards(
            processes,
            "release",
            "UPDATE inbox SET enrich_holder = 'two' WHERE enrich_holder IS NULL",
        ),
    ),
    Break(
        clause="test_an_overheard_message_is_completed_and_stays_overheard",
        fault="a completed message is queued whatever it was",
        apply=afterwards(inbox, "complete", "UPDATE inbox SET state = 'queued'"),
    ),
)
