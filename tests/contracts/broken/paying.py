"""Broken counts of what model calls cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import costs, deletion, sessions, turns
from clawbot.store.costs import Total
from clawbot.store.sessions import Numbers
from tests.contracts.broken.breaking import Break, afterwards, nothing, wrapping


def adding_before_the_fence(
    original: Callable[..., Numbers], tx: Transaction, key: SessionKey, *args: Any, **kw: Any
) -> Numbers:
    """Let a stale worker write."""
    kw["first_seq"] = None
    fence = tx.conn.exec_driver_sql("SELECT max(fence) FROM sessions").scalar_one()
    return original(tx, key, fence, **kw)


def taking_unknown_for_nothing(original: Callable[..., None], *args: Any) -> None:
    """Forget which prices are not known."""
    original(*args)
    args[0].conn.exec_driver_sql("UPDATE usage SET unpriced = 0")


def without(*names: str) -> Callable[..., Total]:
    """Ask for a sum without some of its conditions."""

    def wrap(original: Callable[..., Total], tx: Transaction, **of: Any) -> Total:
        return original(tx, **{name: value for name, value in of.items() if name not in names})

    return wrap


def of_entries_alone(original: Callable[..., None], *args: Any, **kw: Any) -> None:
    """Forget the calls that came to nothing."""
    kw.pop("lost", None)
    original(*args, **kw)


COST_BREAKS = (
    Break(
        clause="test_calls_are_counted_with_the_steps_that_they_came_to",
        fault="steps are not counted",
        apply=wrapping(costs, "spent_by", lambda *_: []),
    ),
    Break(
        clause="test_calls_are_counted_with_the_steps_that_they_came_to",
        fault="the second call replaces the first",
        apply=afterwards(costs, "add", "UPDATE usage SET calls = 1"),
    ),
    Break(
        clause="test_what_may_not_be_recorded_is_not_counted",
        fault="a stale worker's steps are counted",
        apply=wrapping(sessions, "lock", adding_before_the_fence),
    ),
    Break(
        clause="test_a_stopped_turn_pays_for_what_came_to_nothing",
        fault="it pays for nothing",
        apply=wrapping(costs, "add", nothing),
    ),
    Break(
        clause="test_a_parked_turn_pays_for_what_came_to_nothing",
        fault="it pays for nothing",
        apply=wrapping(turns, "park", of_entries_alone),
    ),
    Break(
        clause="test_an_unknown_price_is_never_nothing",
        fault="it is",
        apply=wrapping(costs, "add", taking_unknown_for_nothing),
    ),
    *(
        Break(
            clause=("test_sums_are_of_the_session_the_person_and_the_time_that_are_asked_for"),
            fault=f"{name} does not count",
            apply=wrapping(costs, "total", without(name)),
        )
        for name in ("session", "epoch", "user", "since_hour")
    ),
    Break(
        clause="test_sums_are_of_the_session_the_person_and_the_time_that_are_asked_for",
        fault="all is forgotten",
        apply=afterwards(costs, "forget", "DELETE FROM usage"),
    ),
    Break(
        clause="test_what_was_spent_outlives_its_session",
        fault="it goes with it",
        apply=afterwards(deletion, "delete_session", "DELETE FROM usage"),
    ),
)
