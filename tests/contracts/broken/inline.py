"""Faults of `inline`: answers in responses that are lost, doubled, or carried by the wrong one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import update
from sqlalchemy.exc import NoResultFound

from clawbot.ports import Transaction
from clawbot.store import inline, schema
from tests.contracts.broken.breaking import Break, afterwards, before, nothing, replacing, wrapping


def keep_the_first(original: Callable[..., bool], tx: Transaction, *args: Any, **kw: Any) -> bool:
    """Let the first attempt keep the answer."""
    return True if kw["is_again"] else original(tx, *args, **kw)


def take_all_back(tx: Transaction, inbox_id: int, _holder: str, _now_ms: int) -> None:
    """Send again whatever answered the message, by whichever way."""
    tx.conn.execute(
        update(schema.outbox)
        .where(schema.outbox.c.inbox_id == inbox_id)
        .values(state="pending", holder=None, settled_ms=None)
    )


def release_everywhere(
    original: Callable[..., bool], tx: Transaction, *args: Any, **kw: Any
) -> bool:
    """Let go what waits in any chat."""
    result = original(tx, *args, **kw)
    tx.conn.exec_driver_sql(
        "UPDATE outbox SET state = 'pending', settled_ms = NULL WHERE state = 'held'"
    )
    return result


def reverse_order(original: Callable[..., bool], tx: Transaction, *args: Any, **kw: Any) -> bool:
    """Give the newest the first place."""
    result = original(tx, *args, **kw)
    tx.conn.exec_driver_sql("UPDATE outbox SET lane_pos = 1000 - id WHERE state = 'pending'")
    return result


def more_for_all(_tx: Transaction, _message: object, _session: object, _now_ms: int) -> int:
    """Take every word for one that asks for more."""
    return 1


INLINE_BREAKS = (
    Break(
        clause="test_the_newest_attempt_gets_the_answer",
        fault="the first attempt keeps it",
        apply=wrapping(inline, "hold", keep_the_first),
    ),
    Break(
        clause="test_the_newest_attempt_gets_the_answer",
        fault="the reply does not learn who holds the request",
        apply=replacing(inline, "pass_on", nothing),
    ),
    Break(
        clause="test_after_the_deadline_anybody_answers_another_way",
        fault="the deadline is not passed on",
        apply=afterwards(inline, "pass_on", "UPDATE outbox SET inline_until_ms = 9000000000000"),
    ),
    Break(
        clause="test_a_holder_that_ends_leaves_its_answer_to_others",
        fault="the ended holder is waited for",
        apply=replacing(inline, "release_holder", nothing),
    ),
    Break(
        clause="test_what_a_lost_response_carried_is_sent_again",
        fault="what was written counts as arrived",
        apply=replacing(inline, "_take_back", nothing),
    ),
    Break(
        clause="test_what_went_another_way_is_not_sent_again",
        fault="every attempt sends the answer again",
        apply=replacing(inline, "_take_back", take_all_back),
    ),
    Break(
        clause="test_what_another_process_carried_is_taken_from_it",
        fault="it is left to the other process",
        apply=replacing(inline, "_take_back", nothing),
    ),
    Break(
        clause="test_a_reply_without_a_way_out_goes_with_the_next_request",
        fault="only what is pending is looked at",
        apply=before(inline, "hold", "UPDATE outbox SET reason = 'other' WHERE state = 'held'"),
    ),
    Break(
        clause="test_released_replies_keep_their_order",
        fault="the newest goes first",
        apply=wrapping(inline, "hold", reverse_order),
    ),
    Break(
        clause="test_asking_for_more_makes_no_turn_while_something_waits",
        fault="it is a message like others",
        apply=replacing(inline, "take_more", nothing),
    ),
    Break(
        clause="test_asking_for_more_is_a_message_when_nothing_waits",
        fault="it never is a message",
        apply=replacing(inline, "take_more", more_for_all),
        raises=(NoResultFound,),
    ),
    Break(
        clause="test_other_chats_notice_nothing",
        fault="any request lets everything go",
        apply=wrapping(inline, "hold", release_everywhere),
    ),
)
