"""Telling a repeated send from a repeated text."""

from __future__ import annotations

import pytest

from adapters.notes import OwnNotes
from adapters.wecom.repeats import Repeats
from clawbot.clock import SystemClock


class MovableClock(SystemClock):
    def __init__(self) -> None:
        self.moved_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.moved_s


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def repeats(clock: MovableClock) -> Repeats:
    return Repeats(OwnNotes(clock).change, 1800)


async def test_every_attempt_at_one_message_is_checked(repeats: Repeats) -> None:
    assert [await repeats.is_checked("alice", "hi", "k1") for _ in range(3)] == [True] * 3


async def test_another_message_that_says_the_same_goes_unchecked_once(repeats: Repeats) -> None:
    assert await repeats.is_checked("alice", "hi", "k1")
    assert not await repeats.is_checked("alice", "hi", "k2")
    assert await repeats.is_checked("alice", "hi", "k2")  # the first attempt may be there
    assert not await repeats.is_checked("alice", "hi", "k3")


async def test_another_process_knows_what_was_said(clock: MovableClock) -> None:
    notes = OwnNotes(clock)
    assert await Repeats(notes.change, 1800).is_checked("alice", "hi", "k1")
    assert not await Repeats(notes.change, 1800).is_checked("alice", "hi", "k2")


async def test_the_same_to_another_person_is_another_message(repeats: Repeats) -> None:
    assert await repeats.is_checked("alice", "hi", "k1")
    assert await repeats.is_checked("bob", "hi", "k2")


async def test_what_is_older_than_the_check_is_forgotten(
    repeats: Repeats, clock: MovableClock
) -> None:
    await repeats.is_checked("alice", "hi", "k1")
    clock.moved_s = 1801
    assert await repeats.is_checked("alice", "hi", "k2")
