"""When something is to happen: once, every so often, or by a cron line; pure.

Times of day are those of a time zone, and stay so when its clocks are changed: what is due in an
hour that is left out comes right after it, and what is due in an hour that comes twice comes once,
unless it is due in every hour.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from croniter import CroniterError, croniter

from clawbot.errors import RequestRefused

Kind = Literal["once", "every", "cron"]

LEAST_S = 60
MOST_S = 366 * 86_400
CRON_FIELDS = 5


class BadTime(RequestRefused):
    """Not a time that something can be due at. `problem` names what people are told."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """The times of a schedule.

    spec: for `once` the time in Unix milliseconds, for `every` the seconds between two times, for
    `cron` a line of five fields. zone: the name of the time zone in which a cron line is read.
    """

    kind: Kind
    spec: str
    zone: str


def next_ms(when: When, begun_ms: int, now_ms: int) -> int | None:
    """The first time after `now_ms`, of a schedule made at `begun_ms`; None when there is none.

    Raise BadTime for a cron line that cannot be read, or whose time never comes.
    """
    if when.kind == "once":
        at_ms = int(when.spec)
        return at_ms if at_ms > now_ms else None
    if when.kind == "every":
        step_ms = int(when.spec) * 1000
        return begun_ms + step_ms * max(1, (now_ms - begun_ms) // step_ms + 1)
    return _next_of_cron(when, now_ms)


def cron(line: str, zone: str) -> When:
    """A schedule by a cron line. Raise BadTime."""
    line = " ".join(line.split())
    when = When(kind="cron", spec=line, zone=zone)
    if len(line.split()) != CRON_FIELDS:
        raise BadTime("cron")
    _next_of_cron(when, 0)
    return when


def every(seconds: int) -> When:
    """A schedule of equal steps. Raise BadTime for less than a minute, or more than a year."""
    if not LEAST_S <= seconds <= MOST_S:
        raise BadTime("step")
    return When(kind="every", spec=str(seconds), zone="UTC")


def once(at: datetime) -> When:
    """A single time; of an hour that comes twice, the first."""
    return When(kind="once", spec=str(_ms(at)), zone=str(at.tzinfo))


def local(at_ms: int, zone: str) -> str:
    """A time for people, in their zone."""
    at = datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone))
    return f"{at:%Y-%m-%d %H:%M} ({zone})"


def _next_of_cron(when: When, now_ms: int) -> int:
    zone = ZoneInfo(when.zone)
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    in_every_hour = when.spec.split()[1].startswith("*")
    try:
        times = croniter(when.spec, now if in_every_hour else now.replace(tzinfo=None))
        while True:
            found = times.get_next(datetime)
            at_ms = _ms(found if in_every_hour else found.replace(tzinfo=zone))
            if at_ms > now_ms:
                return at_ms
    except (CroniterError, ValueError) as error:
        raise BadTime("cron") from error


def _ms(at: datetime) -> int:
    return round(at.astimezone(UTC).timestamp() * 1000)


# -- how people say it -----------------------------------------------------------------------------

_UNIT_S = {
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes", "分钟", "分"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "小时", "个小时"), 3600),
    **dict.fromkeys(("d", "day", "days", "天"), 86_400),
    **dict.fromkeys(("w", "week", "weeks", "周", "个星期"), 604_800),
}
_WEEKDAYS = {
    **{name: day for day, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))},
    **{name: day for day, name in enumerate("日一二三四五六")},
    "天": 0,
}
_COUNT = r"(?P<count>\d{1,6})\s*"
_LATIN_UNIT = r"(?P<unit>minutes?|mins?|hours?|hrs?|days?|weeks?|[mhdw])(?![a-z])"
_CHINESE_UNIT = r"(?P<unit>分钟|个?小时|天|周|个星期|分)"
_DAY = r"(?P<day>sun|mon|tue|wed|thu|fri|sat)"
_CHINESE_DAY = r"(?P<zh_day>[一二三四五六日天])"
_TIME = (
    r"(?:(?P<hour>\d{1,2})(?:[:：](?P<minute>\d{2})|点(?:(?P<zh_minute>\d{1,2})分?|(?P<half>半))?"
    r"|(?=\s*[ap]m))(?:\s*(?P<noon>[ap]m)\b)?)"
)
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(rf"{pattern}(?P<rest>.*)", re.IGNORECASE | re.DOTALL))
    for name, pattern in (
        ("cron", r"cron\s+(?P<line>(?:[\d*/,\-a-z]+\s+){4}[\d*/,\-a-z]+)(?=\s|$)"),
        ("every", rf"every\s+{_COUNT}{_LATIN_UNIT}"),
        ("every", rf"每(?:隔)?\s*{_COUNT}{_CHINESE_UNIT}"),
        ("daily", rf"(?:every\s*day|daily|每天)\s*(?:at\s*)?{_TIME}"),
        ("workdays", rf"(?:(?:every\s+)?(?:weekdays?|workdays?)|每?个?工作日)\s*(?:at\s*)?{_TIME}"),
        (
            "weekly",
            rf"(?:every\s+{_DAY}[a-z]*|每(?:周|星期){_CHINESE_DAY})\s*(?:at\s*)?{_TIME}",
        ),
        ("in", rf"(?:in\s+)?{_COUNT}{_LATIN_UNIT}"),
        ("in", rf"{_COUNT}{_CHINESE_UNIT}(?:之?后)?"),
        ("date", rf"(?:at\s+|on\s+)?(?P<date>\d{{4}}-\d{{2}}-\d{{2}})[T\s]+(?:at\s+)?{_TIME}"),
        ("tomorrow", rf"(?:tomorrow|明天)\s*(?:at\s*)?{_TIME}"),
        ("after tomorrow", rf"后天\s*{_TIME}"),
        ("at", rf"(?:today|今天)?\s*(?:at\s+)?{_TIME}"),
    )
)
_DAYS = {"tomorrow": 1, "after tomorrow": 2, "at": 0}


def parse(words: str, zone: str, now_ms: int) -> tuple[When, str]:
    """Read a time at the head of what somebody says; return it and the rest. Raise BadTime."""
    words = words.strip()
    for form, pattern in _FORMS:
        match = pattern.match(words)
        if match is not None:
            rest = re.sub(r"^\s*(?:[:：,，]|to\b|that\b)?\s*", "", match["rest"]).strip()
            return _read(form, match, zone, now_ms), rest
    raise BadTime("time")


def _read(form: str, match: re.Match[str], zone: str, now_ms: int) -> When:
    if form == "cron":
        return cron(match["line"], zone)
    if form in {"every", "in"}:
        seconds = int(match["count"]) * _UNIT_S[match["unit"].casefold()]
        if form == "every":
            return every(seconds)
        if not LEAST_S <= seconds <= MOST_S * 5:
            raise BadTime("step")
        return once(datetime.fromtimestamp(now_ms / 1000 + seconds, ZoneInfo(zone)))
    hour, minute = _time_of_day(match)
    if form in {"daily", "workdays", "weekly"}:
        day = {"daily": "*", "workdays": "1-5"}.get(form) or str(
            _WEEKDAYS[(match["day"] or match["zh_day"]).casefold()]
        )
        return cron(f"{minute} {hour} * * {day}", zone)
    now = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(zone))
    if form == "date":
        try:
            day_of = datetime.fromisoformat(match["date"]).replace(tzinfo=ZoneInfo(zone))
        except ValueError as error:
            raise BadTime("time") from error
    else:
        day_of = now + timedelta(days=_DAYS[form])  # days of the calendar: the zone stays
    at = day_of.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if at <= now and form == "at":
        at += timedelta(days=1)
    if at <= now:
        raise BadTime("past")
    return once(at)


def _time_of_day(match: re.Match[str]) -> tuple[int, int]:
    hour = int(match["hour"])
    minute = 30 if match["half"] else int(match["minute"] or match["zh_minute"] or 0)
    noon = (match["noon"] or "").casefold()
    if noon and not 1 <= hour <= 12:  # a clock of twelve hours
        raise BadTime("time")
    if noon:
        hour = hour % 12 + (12 if noon == "pm" else 0)
    if hour > 23 or minute > 59:
        raise BadTime("time")
    return hour, minute
