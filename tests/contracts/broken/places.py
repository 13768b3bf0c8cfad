"""Faults of `places` and of the decision whether a reply is sent or held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clawbot.ports import Transaction
from clawbot.store import lanes, places
from clawbot.store.places import Missed
from tests.contracts.broken.breaking import Break, before, replacing, wrapping


def show_always(_tx: Transaction, _row: object, _now_ms: int) -> bool:
    """Send whatever comes."""
    return True


def hold_for_good(tx: Transaction, outbox_id: int, _now_ms: int) -> None:
    """Put a reply aside where nobody looks for it."""
    places._set(tx, {"id": outbox_id}, state="held", reason="lost", holder=None)  # type: ignore[arg-type]


def take_without_ending(
    original: Callable[..., list[Missed]], tx: Transaction, *args: Any
) -> list[Missed]:
    """Deliver what was missed, and leave it where it is."""
    missed = original(tx, *args)
    for item in missed:
        places._set(tx, {"id": item.outbox_id}, state="held", reason=places.INACTIVE)  # type: ignore[arg-type]
    return missed


def end_what_grows(
    original: Callable[..., list[Missed]], tx: Transaction, *args: Any
) -> list[Missed]:
    """Forget that a held reply may still grow."""
    missed = original(tx, *args)
    tx.conn.exec_driver_sql("UPDATE outbox SET state = 'sent' WHERE state = 'streaming'")
    return missed


def end_files(original: Callable[..., list[Missed]], tx: Transaction, *args: Any) -> list[Missed]:
    """Forget that a held reply is a file."""
    tx.conn.exec_driver_sql("UPDATE outbox SET file = NULL")
    return original(tx, *args)


PLACE_BREAKS = (
    Break(
        clause="test_what_was_said_before_a_question_is_read_where_its_session_is_chosen_again",
        fault="it is taken for one that still grows",
        apply=before(
            places, "take_missed", "UPDATE turns SET outbox_id = (SELECT min(id) FROM outbox)"
        ),
    ),
    Break(
        clause="test_a_reply_is_held_while_another_session_is_active_and_comes_with_the_choice",
        fault="every reply is sent",
        apply=replacing(lanes, "_is_shown", show_always),
    ),
    Break(
        clause="test_a_held_reply_blocks_no_other",
        fault="it is put where nobody finds it",
        apply=replacing(places, "hold", hold_for_good),
    ),
    Break(
        clause="test_a_growing_reply_goes_on_where_its_session_is_chosen_again",
        fault="choosing ends it",
        apply=wrapping(places, "take_missed", end_what_grows),
        raises=(ValueError,),
    ),
    Break(
        clause="test_a_held_file_is_sent_as_such_where_its_session_is_chosen",
        fault="it is taken for text",
        apply=wrapping(places, "take_missed", end_files),
        raises=(ValueError, AssertionError),
    ),
    Break(
        clause="test_what_was_sent_or_delivered_later_counts_as_seen_once",
        fault="nothing is ever seen",
        apply=replacing(places, "mark_seen", lambda *_args: None),
    ),
    Break(
        clause="test_choosing_races_with_a_finishing_turn_and_no_reply_is_lost_or_doubled",
        fault="what was missed is delivered each time",
        apply=wrapping(places, "take_missed", take_without_ending),
    ),
    Break(
        clause="test_choosing_in_another_process_races_with_a_finishing_turn",
        fault="a held reply is put where nobody finds it",
        apply=replacing(places, "hold", hold_for_good),
    ),
    Break(
        clause="test_unread_behaves_as_a_plain_count_says",
        fault="nothing is ever seen",
        apply=replacing(places, "mark_seen", lambda *_args: None),
    ),
)
