"""The section `schedules` of the YAML: turns that begin at a time, each in its session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator

from clawbot.config_sections import Section, Text
from clawbot.errors import InvalidSessionKey
from clawbot.schedules import BadTime, When, parse
from clawbot.session_key import SessionKey


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError("want the name of a time zone, such as Europe/Berlin or UTC") from error
    return name


def _session(key: str) -> str:
    try:
        found = SessionKey.parse(key)
    except InvalidSessionKey as error:
        raise ValueError(
            f"want a session key, as `clawbot sessions list` shows it, or global: {error}"
        ) from error
    if found.directory is not None:
        raise ValueError("want a session of a chat, or global")
    return str(found)


def _when(words: str) -> str:
    try:
        _, rest = parse(words, "UTC", 0)
    except BadTime as error:
        raise ValueError(
            "want a time such as: every day 9:00, weekdays 18:30, every monday 9:00, every 30m, "
            "2030-01-31 12:00, or cron 0 9 * * 1-5"
        ) from error
    if rest:
        raise ValueError(f"this is behind the time: {rest}; what is to be done stands under text")
    return words


TimeZone = Annotated[str, AfterValidator(_zone)]
SessionText = Annotated[str, AfterValidator(_session)]
TimeText = Annotated[str, AfterValidator(_when)]


class ScheduleConfig(Section):
    """One of them."""

    session: SessionText
    """The key of the session, as `clawbot sessions list` shows it."""
    when: TimeText
    """The times; see the README."""
    text: Text
    """What the agent is told then."""
    time_zone: TimeZone | None = None
    """The time zone of `when`; else the general one."""
    may_be_silent: bool = False
    """Whether the agent may say nothing when there is nothing worth telling."""

    def times(self, general_zone: str) -> When:
        """When it is due."""
        now_ms = round(datetime.now(UTC).timestamp() * 1000)
        return parse(self.when, self.time_zone or general_zone, now_ms)[0]
