"""For how long people allow something, as they say it."""

from __future__ import annotations

import pytest

from clawbot.commands.votes import lasting_of
from clawbot.store.grants import ONCE, Lasting

NOON_MS = 1_893_499_200_000  # 2030-01-01 12:00 UTC
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@pytest.mark.parametrize(
    ("words", "after_ms"),
    [
        ("2h", 2 * HOUR_MS),
        ("for 30 minutes", 30 * MINUTE_MS),
        ("for an hour", HOUR_MS),
        ("For one day", 24 * HOUR_MS),
        ("2小时", 2 * HOUR_MS),
        ("30分钟内", 30 * MINUTE_MS),
        ("7d", 7 * 24 * HOUR_MS),
        ("18:00", 6 * HOUR_MS),
        ("until 18:00", 6 * HOUR_MS),
        ("until 6 pm", 6 * HOUR_MS),
        ("till tomorrow 9:00", 21 * HOUR_MS),
        ("到18:00", 6 * HOUR_MS),
        ("直到明天9点", 21 * HOUR_MS),
        ("明天9点前", 21 * HOUR_MS),
        ("until 2030-01-02 12:00", 24 * HOUR_MS),
    ],
)
def test_a_time_is_read(words: str, after_ms: int) -> None:
    lasting = lasting_of(words, "UTC", NOON_MS)
    assert lasting is not None
    assert (lasting.kind, lasting.until_ms) == ("until", NOON_MS + after_ms)
    assert lasting.told.endswith("(UTC)")


def test_a_time_is_one_of_the_zone() -> None:
    lasting = lasting_of("until 21:00", "Asia/Shanghai", NOON_MS)
    assert lasting is not None
    assert lasting.until_ms == NOON_MS + HOUR_MS
    assert lasting.told == "2030-01-01 21:00 (Asia/Shanghai)"


@pytest.mark.parametrize("words", ["always", "Always", "始终", "本会话"])
def test_a_yes_may_count_as_long_as_the_conversation(words: str) -> None:
    assert lasting_of(words, "UTC", NOON_MS) == Lasting(kind="session")


def test_a_yes_counts_once_otherwise() -> None:
    assert lasting_of("  ", "UTC", NOON_MS) == ONCE


@pytest.mark.parametrize(
    "words",
    [
        *("alwyas", "2", "2hh", "for ever", "until", "until the cows come home", "until 25:00"),
        *("every day 9:00", "cron 0 9 * * *", "8d", "2h and a bit", "until 2029-01-01 10:00"),
    ],
)
def test_what_cannot_be_read_or_is_too_long_is_no_yes(words: str) -> None:
    assert lasting_of(words, "UTC", NOON_MS) is None
