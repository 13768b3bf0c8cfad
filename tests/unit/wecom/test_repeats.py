"""Telling a repeated send from a repeated text."""

from __future__ import annotations

from adapters.wecom.repeats import Repeats
from clawbot.clock import SystemClock


class MovableClock(SystemClock):
    def __init__(self) -> None:
        self.moved_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.moved_s


def test_every_attempt_at_one_message_is_checked() -> None:
    repeats = Repeats(MovableClock(), 1800)
    assert [repeats.is_checked("alice", "hi", "k1") for _ in range(3)] == [True] * 3


def test_another_message_that_says_the_same_goes_unchecked_once() -> None:
    repeats = Repeats(MovableClock(), 1800)
    assert repeats.is_checked("alice", "hi", "k1")
    assert not repeats.is_checked("alice", "hi", "k2")
    assert repeats.is_checked("alice", "hi", "k2")  # its second attempt may be a repetition
    assert not repeats.is_checked("alice", "hi", "k3")


def test_the_same_to_another_person_is_another_message() -> None:
    repeats = Repeats(MovableClock(), 1800)
    assert repeats.is_checked("alice", "hi", "k1")
    assert repeats.is_checked("bob", "hi", "k2")


def test_what_is_older_than_the_check_is_forgotten() -> None:
    clock = MovableClock()
    repeats = Repeats(clock, 1800)
    repeats.is_checked("alice", "hi", "k1")
    clock.moved_s = 1801
    assert repeats.is_checked("alice", "hi", "k2")
