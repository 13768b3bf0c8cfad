"""Signs that an answer is being prepared; at best effort, never in anybody's way.

In a thread it is the assistant's status ("is thinking…"), which Slack clears by itself after two
minutes or with the next post; elsewhere, and where the app may not set one, a reaction on the
message that is answered.
"""

from __future__ import annotations

import structlog

from adapters.recent import Recent
from adapters.slack.chat_api import ChatApi
from adapters.slack.references import Asked
from clawbot.errors import Rejected, SendError
from clawbot.messages import ReplyRoute
from clawbot.ports import Clock

log = structlog.get_logger(__name__)

_THINKING = "is thinking…"
_STATUS_CHARS = 100
_KEPT_S = 3600.0
_MAX_SIGNS = 5_000
_REFUSED_S = 3600.0
_STATUS_GAP_S = 1.5
_FEATURE_CODES = frozenset(
    {
        "feature_not_enabled",
        "method_deprecated",
        "missing_scope",
        "no_permission",
        "not_allowed_token_type",
        "unknown_method",
    }
)
"""They will not change while nobody changes the app."""


class _Status:
    """A thread's status: who waits for an answer there, and what it says."""

    __slots__ = ("said", "said_at", "waiting")

    def __init__(self) -> None:
        self.waiting: set[ReplyRoute] = set()
        self.said = ""
        self.said_at = float("-inf")


class Signs:
    """Shows signs and takes them away again. emoji: the reaction's name, "" for none."""

    def __init__(self, channel: str, chat: ChatApi, clock: Clock, *, emoji: str) -> None:
        self._channel = channel
        self._chat = chat
        self._clock = clock
        self._emoji = emoji
        self._statuses: Recent[_Status] = Recent(clock, kept_s=_KEPT_S, at_most=_MAX_SIGNS)
        self._reacted: Recent[bool] = Recent(clock, kept_s=_KEPT_S, at_most=_MAX_SIGNS)
        self._refused_until = {"status": float("-inf"), "reaction": float("-inf")}

    async def show(self, route: ReplyRoute, *, active: bool) -> None:
        """Begin or end the sign for the answer of a route; may be called twice."""
        if active:
            if not await self._begin_status(route):
                await self._react(route, active=True)
            return
        await self._end_status(route)
        if _mark(route) in self._reacted:
            await self._react(route, active=False)

    async def progress(self, route: ReplyRoute, line: str) -> None:
        """Say in the status what the agent is doing, "" = thinking, where the thread has one."""
        status = self._statuses.get(_thread(route))
        if status is None or not status.waiting:
            return
        text = " ".join(line.split())
        text = text if len(text) <= _STATUS_CHARS else f"{text[: _STATUS_CHARS - 1]}…"
        is_due = self._clock.monotonic() >= status.said_at + _STATUS_GAP_S
        if (text or _THINKING) != status.said and is_due:
            await self._say(route, status, text or _THINKING)

    async def _begin_status(self, route: ReplyRoute) -> bool:
        if route.thread is None or self._is_refused("status"):
            return False
        status = self._statuses.get(_thread(route)) or _Status()
        self._statuses.remember(_thread(route), status)
        if not await self._say(route, status, status.said or _THINKING):
            return False
        status.waiting.add(route)
        return True

    async def _end_status(self, route: ReplyRoute) -> None:
        status = self._statuses.get(_thread(route))
        if status is None or route not in status.waiting:
            return
        status.waiting.discard(route)
        if not status.waiting:
            self._statuses.forget(_thread(route))
            await self._say(route, status, "")

    async def _say(self, route: ReplyRoute, status: _Status, text: str) -> bool:
        status.said, status.said_at = text, self._clock.monotonic()
        try:
            await self._chat.set_status(route.chat_id, route.thread or "", text)
        except SendError as error:
            self._note("status", error)
            return False
        return True

    async def _react(self, route: ReplyRoute, *, active: bool) -> None:
        ts = Asked.decode(route.token).ts
        if not self._emoji or not ts or self._is_refused("reaction"):
            return
        try:
            if active:
                await self._chat.react(route.chat_id, ts, self._emoji)
                self._reacted.remember(_mark(route), value=True)
            else:
                self._reacted.forget(_mark(route))
                await self._chat.unreact(route.chat_id, ts, self._emoji)
        except SendError as error:
            self._note("reaction", error)

    def _is_refused(self, sign: str) -> bool:
        return self._clock.monotonic() < self._refused_until[sign]

    def _note(self, sign: str, error: SendError) -> None:
        if isinstance(error, Rejected) and error.code in _FEATURE_CODES:
            self._refused_until[sign] = self._clock.monotonic() + _REFUSED_S
        log.info("slack_sign_not_shown", channel=self._channel, sign=sign, error=str(error))


def _thread(route: ReplyRoute) -> str:
    return f"{route.chat_id}:{route.thread}"


def _mark(route: ReplyRoute) -> str:
    return f"{route.chat_id}:{Asked.decode(route.token).ts}"
