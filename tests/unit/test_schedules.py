"""Times as people say them, and when they come."""

from __future__ import annotations

import itertools
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.schedules import BadTime, cron, every, local, next_ms, once, parse

ZONE = "Europe/Berlin"
MINUTE_MS = 60_000


def ms(text: str, zone: str = ZONE) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


NOW = ms("2026-11-30 14:46")  # a Monday


@pytest.mark.parametrize(
    ("words", "first", "rest"),
    [
        ("in 10m drink", "2026-11-30 14:56", "drink"),
        ("10 minutes to drink", "2026-11-30 14:56", "drink"),
        ("2h: call", "2026-11-30 16:46", "call"),
        ("10分钟后喝水", "2026-11-30 14:56", "喝水"),
        ("2小时后 喝水", "2026-11-30 16:46", "喝水"),
        ("at 18:30 go", "2026-11-30 18:30", "go"),
        ("14:46 go", "2026-12-01 14:46", "go"),
        ("9:00 go", "2026-12-01 09:00", "go"),
        ("6pm go", "2026-11-30 18:00", "go"),
        ("12am go", "2026-12-01 00:00", "go"),
        ("6:15 am go", "2026-12-01 06:15", "go"),
        ("tomorrow 9:00 go", "2026-12-01 09:00", "go"),
        ("明天9点半 开会", "2026-12-01 09:30", "开会"),
        ("后天 10点 开会", "2026-12-02 10:00", "开会"),
        ("2026-12-24 18:00 gifts", "2026-12-24 18:00", "gifts"),
        ("on 2026-12-24 at 18:00 gifts", "2026-12-24 18:00", "gifts"),
        ("every 30m look", "2026-11-30 15:16", "look"),
        ("每30分钟 看看", "2026-11-30 15:16", "看看"),
        ("every day 9:00 news", "2026-12-01 09:00", "news"),
        ("每天9:00 新闻", "2026-12-01 09:00", "新闻"),
        ("weekdays at 9:00 stand-up", "2026-12-01 09:00", "stand-up"),
        ("工作日 9点 站会", "2026-12-01 09:00", "站会"),
        ("every sunday 9:00 plan", "2026-12-06 09:00", "plan"),
        ("每周一 9:00 计划", "2026-12-07 09:00", "计划"),
        ("cron 0 9 * * 1-5 news", "2026-12-01 09:00", "news"),
        ("Every Day 9:00", "2026-12-01 09:00", ""),
    ],
)
def test_a_time_is_read_as_people_say_it(words: str, first: str, rest: str) -> None:
    when, text = parse(words, ZONE, NOW)
    assert next_ms(when, NOW, NOW) == ms(first)
    assert text == rest


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("", "time"),
        ("soon", "time"),
        ("25:00 go", "time"),
        ("13pm go", "time"),
        ("2026-02-31 12:00 go", "time"),
        ("2020-01-01 12:00 go", "past"),
        ("today 14:00", None),
        ("0m go", "step"),
        ("every 1000d go", "step"),
        ("cron 0 0 30 2 * never", "cron"),
        ("cron 61 * * * * never", "cron"),
    ],
)
def test_what_is_no_time_is_told_apart(words: str, problem: str | None) -> None:
    if problem is None:
        assert parse(words, ZONE, NOW)
        return
    with pytest.raises(BadTime) as caught:
        parse(words, ZONE, NOW)
    assert caught.value.problem == problem


@given(st.text(max_size=60))
def test_whatever_is_said_is_a_time_or_told(words: str) -> None:
    try:
        when, rest = parse(words, ZONE, NOW)
    except BadTime:
        return
    assert next_ms(when, NOW, NOW) is not None
    assert len(rest) < len(words)


def test_times_of_day_stay_when_the_clocks_change() -> None:
    daily = cron("30 2 * * *", ZONE)
    spring = [ms("2026-03-28 12:00")]
    for _ in range(3):
        spring.append(next_ms(daily, 0, spring[-1]) or 0)
    assert [local(at, ZONE)[:16] for at in spring[1:]] == [
        "2026-03-29 03:30",  # 02:30 is left out
        "2026-03-30 02:30",
        "2026-03-31 02:30",
    ]
    autumn = [ms("2026-10-24 12:00")]
    for _ in range(2):
        autumn.append(next_ms(daily, 0, autumn[-1]) or 0)
    assert autumn[2] - autumn[1] == 25 * 60 * MINUTE_MS  # 02:30 comes twice, and counts once


def test_what_is_due_in_every_hour_is_due_in_the_hour_that_comes_twice() -> None:
    at = ms("2026-10-25 01:50")
    found = []
    for _ in range(8):
        at = next_ms(cron("*/30 * * * *", ZONE), 0, at) or 0
        found.append(at)
    steps = {later - earlier for earlier, later in itertools.pairwise(found)}
    assert steps == {30 * MINUTE_MS}


def test_equal_steps_count_from_their_beginning() -> None:
    when = every(600)
    assert next_ms(when, NOW, NOW) == NOW + 10 * MINUTE_MS
    assert next_ms(when, NOW, NOW + 10 * MINUTE_MS) == NOW + 20 * MINUTE_MS
    assert next_ms(when, NOW, NOW + 45 * MINUTE_MS) == NOW + 50 * MINUTE_MS


def test_a_single_time_has_no_next() -> None:
    when = once(datetime.fromtimestamp(NOW / 1000, ZoneInfo(ZONE)))
    assert next_ms(when, 0, NOW - 1) == NOW
    assert next_ms(when, 0, NOW) is None
