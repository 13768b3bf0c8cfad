"""Broken claims, turns, fences and stops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from clawbot import intake
from clawbot.errors import TurnStopped
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import claims, history, holding, outbox, processes, schema, sessions, stops
from clawbot.store import turns as turn_units
from clawbot.store.claims import Claim
from clawbot.store.engine import SqliteStore
from clawbot.store.inbox import InboxRow
from clawbot.store.sessions import Numbers
from tests.contracts.broken.breaking import (
    Apply,
    Break,
    afterwards,
    before,
    changing,
    nothing,
    replacing,
    wrapping,
)
from tests.contracts.sqlite_ground import SqliteGround

FREE = "UPDATE sessions SET owner = NULL, due_ms = 1"


def take_all(waiting: Sequence[InboxRow]) -> list[InboxRow]:
    """Let every message join."""
    return list(waiting)


def forgetting_drafts(original: Callable[..., Claim], *args: Any) -> Claim:
    """Resume a turn without what was shown of it."""
    return replace(original(*args), draft_text="", outbox_id=None)


def resuming_under_a_new_id(original: Callable[..., Claim], *args: Any) -> Claim:
    """Take a resumed turn for a new one."""
    return replace(original(*args), turn_id="another")


def whatever_the_fence(
    original: Callable[..., Numbers],
    tx: Transaction,
    key: SessionKey,
    _fence: int,
    *args: Any,
    **kwargs: Any,
) -> Numbers:
    """Read the fence instead of holding it against the claim's."""
    row = sessions.find(tx, key)
    assert row is not None
    return original(tx, key, row["fence"], *args, **kwargs)


def unfenced(*units: str) -> Apply:
    """See `whatever_the_fence`."""
    breaks = [wrapping(sessions, name, whatever_the_fence) for name in units]

    def apply(patch: pytest.MonkeyPatch, ground: SqliteGround) -> None:
        for one in breaks:
            one(patch, ground)

    return apply


def without_stops(
    original: Callable[..., Numbers], *args: Any, first_seq: int | None = None, **kw: Any
) -> Numbers:
    """Do not look whether the turn was stopped."""
    return original(*args, first_seq=None, **kw)


def add_another_row(tx: Transaction, turn: Claim, outcome: turn_units.Outcome, *more: int) -> None:
    """Send the reply beside what grew."""
    assert turn.route is not None
    outbox.add(
        tx,
        channel=turn.rows[-1].channel,
        route=turn.route,
        state="pending",
        text=outcome.reply or "",
        now_ms=more[-1],
    )


def deliver_what_the_claim_knew(
    tx: Transaction,
    turn: Claim,
    outcome: turn_units.Outcome,
    shown: tuple[int, str],
    *_more: object,
) -> None:
    """End a growing reply in the draft of the time when its turn was claimed."""
    row_id, _ = shown
    outbox.freeze(tx, row_id, outcome.reply or turn.draft_text, turn.rows[-1].channel)


def commit_half(original: Callable[..., object], self: SqliteStore, unit: Any) -> object:
    """Keep what a failing unit had done so far."""

    def half(tx: Transaction) -> object:
        try:
            return unit(tx)
        except LookupError as error:
            return error

    return _raising(original(self, half))


async def _raising(writing: Any) -> object:
    result = await writing
    if isinstance(result, LookupError):
        raise result
    return result


def reap_all(original: Callable[..., list[str]], tx: Transaction, _lease_ms: int) -> list[str]:
    """Take everybody for dead."""
    return original(tx, -1)


def append_to_the_newest_epoch(
    original: Callable[..., object], tx: Transaction, key: SessionKey, *args: Any
) -> object:
    """Write into the conversation that is shown, whichever one is meant."""
    row = sessions.find(tx, key)
    assert row is not None
    return original(tx, key, row["epoch"], *args[1:])


TURN_BREAKS = (
    Break(
        clause="test_a_worker_gets_the_sessions_of_its_pools_and_no_others",
        fault="it gets all",
        apply=changing(claims, "claim", pools=()),
    ),
    Break(
        clause="test_a_worker_gets_the_sessions_of_its_pools_and_no_others",
        fault="a session has no pool",
        apply=changing(sessions, "take_numbers", pool=None),
    ),
    Break(
        clause="test_one_living_process_holds_a_channel",
        fault="whoever asks gets it",
        apply=before(holding, "hold", "UPDATE channel_state SET holder = NULL"),
    ),
    Break(
        clause="test_one_living_process_holds_a_channel",
        fault="a dead one holds it for ever",
        apply=wrapping(holding, "_living", lambda *_: select(schema.channel_state.c.holder)),
    ),
    Break(
        clause="test_a_chat_gets_so_many_turns_and_then_others_theirs",
        fault="those that wait longest go first",
        apply=changing(claims, "claim", per_chat=1000),
    ),
    Break(
        clause="test_a_chat_gets_so_many_turns_and_then_others_theirs",
        fault="one claim may bring a chat more than its share",
        apply=changing(claims, "claim", running={"desk:C1": 4}),
    ),
    Break(
        clause="test_of_two_workers_one_gets_a_session",
        fault="a claimed session stays free",
        apply=afterwards(claims, "_begin", FREE),
    ),
    Break(
        clause="test_a_message_waits_until_the_turn_before_it_ends",
        fault="a new message frees the session",
        apply=afterwards(intake, "admit", FREE),
    ),
    Break(
        clause="test_only_consecutive_messages_of_one_sender_join",
        fault="the end of a turn does not look for more",
        apply=replacing(turn_units, "mark_if_waiting", nothing),
    ),
    Break(
        clause="test_only_consecutive_messages_of_one_sender_join",
        fault="all that waits joins",
        apply=replacing(claims, "_next_rows", take_all),
    ),
    Break(
        clause="test_only_consecutive_messages_of_one_sender_join",
        fault="nothing joins",
        apply=replacing(claims, "joins", lambda _first, _row: False),
    ),
    Break(
        clause="test_messages_for_different_places_do_not_join",
        fault="the place is ignored",
        apply=replacing(claims, "joins", lambda first, row: first.sender == row.sender),
    ),
    Break(
        clause="test_a_turn_begins_with_its_messages_in_the_history",
        fault="a turn begins with an empty history",
        apply=wrapping(
            claims,
            "_begin",
            lambda original, *args: original(*args[:-1], lambda _rows, _overheard: []),
        ),
    ),
    Break(
        clause="test_a_turn_is_resumed_where_it_stood",
        fault="the draft is forgotten",
        apply=wrapping(claims, "_resume", forgetting_drafts),
    ),
    Break(
        clause="test_a_turn_is_resumed_where_it_stood",
        fault="the turn gets a new id",
        apply=wrapping(claims, "_resume", resuming_under_a_new_id),
    ),
    Break(
        clause="test_only_unclean_ends_without_progress_count_as_attempts",
        fault="unclean ends are not counted",
        apply=afterwards(processes, "release", "UPDATE turns SET attempt = 0"),
    ),
    Break(
        clause="test_only_unclean_ends_without_progress_count_as_attempts",
        fault="progress is not seen",
        apply=changing(turn_units, "record", is_progress=False),
    ),
    Break(
        clause="test_only_unclean_ends_without_progress_count_as_attempts",
        fault="a clean end counts",
        apply=afterwards(claims, "give_back", "UPDATE turns SET attempt = attempt + 1"),
    ),
    Break(
        clause="test_a_finished_turn_is_done_in_every_table",
        fault="the reply is not delivered",
        apply=replacing(turn_units, "_deliver", nothing),
    ),
    Break(
        clause="test_a_finished_turn_is_done_in_every_table",
        fault="its messages stay open",
        apply=afterwards(
            turn_units, "finish", "UPDATE inbox SET state = 'claimed', settled_ms = NULL"
        ),
    ),
    Break(
        clause="test_a_growing_reply_ends_in_its_own_row",
        fault="the reply is sent beside it",
        apply=replacing(turn_units, "_deliver", add_another_row),
    ),
    Break(
        clause="test_a_turn_without_reply_ends_in_what_its_draft_shows",
        fault="the draft of an earlier time is sent",
        apply=replacing(turn_units, "_deliver", deliver_what_the_claim_knew),
    ),
    Break(
        clause="test_a_turn_ends_whole_or_not_at_all",
        fault="what was done before a failure is kept",
        apply=wrapping(SqliteStore, "write", commit_half),
    ),
)

FENCE_BREAKS = (
    Break(
        clause="test_a_process_is_released_under_each_name_that_it_had",
        fault="only the first name is known",
        apply=before(processes, "release", "DELETE FROM processes WHERE id LIKE 'worker.%'"),
    ),
    Break(
        clause="test_a_process_is_released_under_each_name_that_it_had",
        fault="a name that only looks alike is taken for a later one",
        apply=before(
            processes, "release", "UPDATE processes SET id = 'worker.3' WHERE id = 'worker_1'"
        ),
    ),
    Break(
        clause="test_a_stale_worker_writes_nothing",
        fault="the fence is only read",
        apply=unfenced("lock", "leave", "give_back"),
    ),
    Break(
        clause="test_a_worker_that_gave_its_turn_back_writes_nothing",
        fault="giving back leaves the fence",
        apply=afterwards(claims, "give_back", "UPDATE sessions SET fence = fence - 1"),
    ),
    Break(
        clause="test_a_finished_turn_is_not_finished_again",
        fault="the end leaves the fence",
        apply=afterwards(turn_units, "finish", "UPDATE sessions SET fence = 1"),
    ),
    Break(
        clause="test_the_silent_are_reaped_and_the_living_are_not",
        fault="everybody is reaped",
        apply=wrapping(processes, "reap", reap_all),
    ),
    Break(
        clause="test_the_silent_are_reaped_and_the_living_are_not",
        fault="nobody is reaped",
        apply=replacing(processes, "reap", lambda _tx, _lease_ms: []),
    ),
    Break(
        clause="test_a_beat_keeps_a_process_alive",
        fault="a beat of a known process is ignored",
        apply=afterwards(
            processes, "beat", "UPDATE processes SET heartbeat_ms = started_ms - 60000"
        ),
    ),
)

STOP_BREAKS = (
    Break(
        clause="test_a_stop_withdraws_what_waits",
        fault="what waits stays",
        apply=afterwards(
            stops, "stop", "UPDATE inbox SET state = 'queued', reason = '', settled_ms = NULL"
        ),
    ),
    Break(
        clause="test_a_running_turn_hears_of_its_stop_at_its_next_write",
        fault="writes do not look at stops",
        apply=wrapping(sessions, "lock", without_stops),
    ),
    Break(
        clause="test_a_running_turn_hears_of_its_stop_at_its_next_write",
        fault="the end does not look at stops",
        apply=wrapping(sessions, "leave", without_stops),
    ),
    Break(
        clause="test_a_turn_without_an_owner_is_ended_by_the_stop",
        fault="it is left to its next worker",
        apply=replacing(stops, "_end", nothing),
    ),
    Break(
        clause="test_a_turn_without_an_owner_is_ended_by_the_stop",
        fault="the fence is not raised",
        apply=afterwards(stops, "_end", "UPDATE sessions SET fence = 1"),
        raises=(TurnStopped,),
    ),
    Break(
        clause="test_a_parked_turn_is_ended_by_the_stop",
        fault="it stays parked",
        apply=replacing(stops, "_end", nothing),
    ),
    Break(
        clause="test_a_stopped_turn_whose_worker_died_does_not_go_on",
        fault="a new owner forgets the stop",
        apply=afterwards(claims, "_resume", "UPDATE sessions SET stop_seq = 0"),
    ),
    Break(
        clause="test_a_message_after_the_stop_runs",
        fault="a stop holds for what comes too",
        apply=afterwards(stops, "stop", "UPDATE sessions SET stop_seq = 1000000"),
        raises=(TurnStopped,),
    ),
    Break(
        clause="test_stopping_twice_is_stopping_once",
        fault="a stopped turn stays open",
        apply=afterwards(stops, "_end", "UPDATE turns SET state = 'running', ended_ms = NULL"),
    ),
    Break(
        clause="test_concurrent_stops_end_a_turn_once",
        fault="a stopped turn stays open",
        apply=afterwards(stops, "_end", "UPDATE turns SET state = 'running', ended_ms = NULL"),
    ),
    Break(
        clause="test_a_stop_after_the_end_finds_nothing",
        fault="a turn that has ended is stopped again",
        apply=afterwards(
            turn_units, "finish", "UPDATE turns SET state = 'parked', ended_ms = NULL"
        ),
    ),
    Break(
        clause="test_a_new_conversation_begins_empty_and_the_old_one_ends_in_its_own",
        fault="the history goes on",
        apply=changing(stops, "stop", new_epoch=False),
    ),
    Break(
        clause="test_a_new_conversation_begins_empty_and_the_old_one_ends_in_its_own",
        fault="the old turn ends in the new conversation",
        apply=wrapping(history, "append", append_to_the_newest_epoch),
    ),
)
