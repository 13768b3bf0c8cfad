"""Broken outboxes and event logs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import events, lanes, outbox, schema, sessions, threads
from clawbot.store.events import EventPage
from clawbot.store.outbox import OutboxRow, Part
from clawbot.store.sessions import Numbers
from tests.contracts.broken.breaking import (
    Break,
    afterwards,
    before,
    changing,
    nothing,
    replacing,
    wrapping,
)


def change_whatever(
    original: Callable[..., None], tx: Transaction, row_id: int, holder: str, *args: Any
) -> None:
    """Do not ask who holds a reply."""
    tx.conn.execute(update(schema.outbox).where(schema.outbox.c.id == row_id).values(holder=holder))
    original(tx, row_id, holder, *args)


def begin_in_memory(
    _tx: Transaction, row: OutboxRow, _holder: str, part_no: int, text: str, **_kwargs: Any
) -> OutboxRow:
    """Send before it is written down that something is sent."""
    key = outbox.part_key(row.id, part_no, row.created_ms)
    part = Part(part_no=part_no, key=key, state="sending", ref=None, sent_text=text, edits=0)
    return replace(row, parts={part_no: part})


def begin_and_grow(
    original: Callable[..., OutboxRow], tx: Transaction, row: OutboxRow, *args: Any, **kw: Any
) -> OutboxRow:
    """Write the state of a stale view."""
    begun = original(tx, row, *args, **kw)
    tx.conn.execute(
        update(schema.outbox).where(schema.outbox.c.id == row.id).values(state=row.state)
    )
    return begun


def put_back_and_grow(
    original: Callable[..., None], tx: Transaction, row: OutboxRow, *args: Any, **kwargs: Any
) -> None:
    """Write the state of a stale view."""
    original(tx, row, *args, **kwargs)
    tx.conn.execute(
        update(schema.outbox).where(schema.outbox.c.id == row.id).values(state=row.state)
    )


def forget_parts(
    original: Callable[..., None], tx: Transaction, row: OutboxRow, *args: Any, **kwargs: Any
) -> None:
    """Forget parts that the platform took."""
    original(tx, row, *args, **kwargs)
    tx.conn.exec_driver_sql("DELETE FROM outbox_parts")


def since_one_number(
    original: Callable[..., EventPage], tx: Transaction, cursor: Mapping[str, int], **kw: Any
) -> EventPage:
    """Read on from one number for all sessions."""
    newest = max(cursor.values(), default=0)
    page = original(tx, dict.fromkeys(events.heads(tx), newest), **kw)
    return replace(page, cursor={key: max(newest, seq) for key, seq in page.cursor.items()})


def since_again(original: Callable[..., EventPage], *args: Any, **kwargs: Any) -> EventPage:
    """Leave the cursor where it was."""
    return replace(original(*args, **kwargs), cursor={})


def since_without_gaps(original: Callable[..., EventPage], *args: Any, **kw: Any) -> EventPage:
    """Say nothing of what is left out."""
    return replace(original(*args, **kw), has_gap=frozenset())


def since_newest_first(original: Callable[..., EventPage], *args: Any, **kw: Any) -> EventPage:
    """Turn the order round."""
    page = original(*args, **kw)
    return replace(page, events=page.events[::-1])


def number_by_reading(
    tx: Transaction, key: SessionKey, count: int, now_ms: int, **_more: Any
) -> Numbers:
    """Take numbers without taking them from others."""
    found = tx.conn.execute(
        select(schema.sessions.c.last_seq).where(schema.sessions.c.key == str(key))
    ).scalar()
    sessions_row = tx.insert(schema.sessions).values(
        key=str(key), created_ms=now_ms, active_ms=now_ms
    )
    tx.conn.execute(sessions_row.on_conflict_do_nothing())
    return Numbers(last_seq=(found or 0) // 2 * 2 + count, stop_seq=0, epoch=0)


OUTBOX_BREAKS = (
    Break(
        clause="test_of_a_crowded_chat_nothing_is_sent_before_another",
        fault="the oldest go first",
        apply=changing(lanes, "claim", crowded=()),
    ),
    Break(
        clause="test_a_lane_is_sent_in_order_and_lanes_do_not_wait_for_each_other",
        fault="any reply is given out",
        apply=replacing(lanes, "_FREE", lanes._free(())),
    ),
    Break(
        clause="test_a_lane_is_sent_in_order_and_lanes_do_not_wait_for_each_other",
        fault="all lanes are one",
        apply=afterwards(outbox, "add", "UPDATE outbox SET lane_thread = '', chat_id = 'C1'"),
    ),
    Break(
        clause="test_of_two_claimers_at_once_one_gets_the_head_of_a_lane",
        fault="the second in a lane is given to the second claimer",
        apply=replacing(lanes, "_FREE", lanes._free(())),
    ),
    Break(
        clause="test_a_growing_reply_blocks_its_lane_until_it_stands_there",
        fault="it never blocks",
        apply=afterwards(outbox, "add", "UPDATE outbox SET has_posted = 1"),
    ),
    Break(
        clause="test_a_growing_reply_blocks_its_lane_until_it_stands_there",
        fault="it blocks until its end",
        apply=afterwards(outbox, "part_sent", "UPDATE outbox SET has_posted = 0"),
    ),
    Break(
        clause="test_a_control_answer_skips_its_lane_and_blocks_nothing",
        fault="it waits in its lane",
        apply=changing(outbox, "add", skips_lane=False),
    ),
    Break(
        clause="test_a_reply_that_is_put_aside_blocks_nothing",
        fault="it blocks",
        apply=replacing(outbox, "settle", nothing),
    ),
    Break(
        clause="test_a_later_try_comes_at_its_time_and_keeps_its_place",
        fault="it is tried at once",
        apply=changing(outbox, "put_back", next_try_ms=0),
    ),
    Break(
        clause="test_a_later_try_comes_at_its_time_and_keeps_its_place",
        fault="others overtake it",
        apply=replacing(lanes, "_FREE", lanes._free(())),
    ),
    Break(
        clause="test_a_part_is_begun_under_its_lasting_key_before_it_is_sent",
        fault="it is begun after it was sent",
        apply=replacing(outbox, "begin_part", begin_in_memory),
    ),
    Break(
        clause="test_a_part_is_begun_under_its_lasting_key_before_it_is_sent",
        fault="each attempt has a key of its own",
        apply=replacing(outbox, "part_key", lambda *_of: uuid.uuid4().hex),
    ),
    Break(
        clause="test_keys_are_distinct_and_short",
        fault="parts share a key",
        apply=replacing(outbox, "part_key", lambda row_id, _part, _at: f"key-{row_id}"),
    ),
    Break(
        clause="test_keys_are_distinct_and_short",
        fault="a key is longer than a platform takes",
        apply=replacing(outbox, "part_key", lambda *of: "-".join(map(str, of)).zfill(51)),
    ),
    Break(
        clause="test_what_a_dead_process_was_sending_is_unknown_and_free",
        fault="it is taken for not sent",
        apply=afterwards(outbox, "release_holder", "DELETE FROM outbox_parts"),
        raises=(LookupError,),
    ),
    Break(
        clause="test_what_a_dead_process_was_sending_is_unknown_and_free",
        fault="it stays with the dead",
        apply=replacing(outbox, "release_holder", nothing),
    ),
    Break(
        clause="test_a_holder_that_lost_its_reply_changes_nothing",
        fault="anybody may settle",
        apply=wrapping(outbox, "_change", change_whatever),
    ),
    Break(
        clause="test_a_frozen_reply_never_grows_again",
        fault="beginning a part writes a stale state",
        apply=wrapping(outbox, "begin_part", begin_and_grow),
    ),
    Break(
        clause="test_a_frozen_reply_never_grows_again",
        fault="putting back writes a stale state",
        apply=wrapping(outbox, "put_back", put_back_and_grow),
    ),
    Break(
        clause="test_a_sent_part_is_kept_and_teaches_its_thread",
        fault="the thread is not learned",
        apply=replacing(threads, "learn", nothing),
    ),
    Break(
        clause="test_a_sent_part_is_kept_and_teaches_its_thread",
        fault="a sent part is forgotten",
        apply=wrapping(outbox, "put_back", forget_parts),
        raises=(LookupError,),
    ),
    Break(
        clause="test_a_part_in_doubt_stays_so_though_a_later_try_surely_failed",
        fault="the doubt is forgotten",
        apply=wrapping(outbox, "put_back", forget_parts),
    ),
    Break(
        clause="test_a_part_in_doubt_stays_so_though_a_later_try_surely_failed",
        fault="nobody knows when it was begun",
        apply=changing(outbox, "begin_part", now_ms=0),
    ),
    Break(
        clause="test_an_inline_answer_is_its_holders_until_the_deadline",
        fault="anybody may answer at once",
        apply=before(lanes, "claim", "UPDATE outbox SET inline_holder = NULL"),
    ),
    Break(
        clause="test_an_inline_answer_is_its_holders_until_the_deadline",
        fault="nobody else may ever answer",
        apply=before(lanes, "claim", "UPDATE outbox SET inline_until_ms = 9000000000000"),
    ),
)

EVENT_BREAKS = (
    Break(
        clause="test_each_session_counts_for_itself_and_is_read_in_order",
        fault="the newest comes first",
        apply=wrapping(events, "since", since_newest_first),
    ),
    Break(
        clause="test_a_cursor_gives_each_event_once",
        fault="the cursor does not move",
        apply=wrapping(events, "since", since_again),
    ),
    Break(
        clause="test_an_early_number_that_is_committed_late_is_not_skipped",
        fault="one number serves all sessions",
        apply=wrapping(events, "since", since_one_number),
    ),
    Break(
        clause="test_more_than_a_page_is_marked_as_a_gap",
        fault="a gap is not marked",
        apply=wrapping(events, "since", since_without_gaps),
    ),
    Break(
        clause="test_concurrent_events_are_numbered_without_hole_or_double",
        fault="two take the same number",
        apply=replacing(sessions, "take_numbers", number_by_reading),
        raises=(IntegrityError,),
    ),
)
