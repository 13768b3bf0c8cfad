"""Keeps calls within Slack's limits: one pace per channel for posts, budgets for growth.

Slack counts what all processes of the app call: each of them keeps to its share.

What must be sent is only ever delayed; what a reply's growth can do without is left out when the
workspace's budget of a method runs low, because a later change brings the whole text.
"""

from __future__ import annotations

from collections.abc import Callable

from clawbot.errors import NotSent
from clawbot.ports import Clock

_POST_GAP_S = 1.0  # "one message per second per channel, short bursts", docs.slack.dev, rate limits
_POST_BURST = 4
_LONGEST_WAIT_S = 3.0
_MAX_CHANNELS = 10_000
_PER_MINUTE = {
    "chat.update": 50,  # tier 3
    "chat.startStream": 20,  # tier 2
    "chat.appendStream": 100,  # tier 4
    "chat.stopStream": 20,  # tier 2
}
_RESERVE = 0.3  # of a method's budget, for calls that cannot be left out
_DEFAULT_PAUSE_S = 1.0


class Pacer:
    """Remembers when a channel may be written to next, and what each method has left."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.processes: Callable[[], int] = lambda: 1
        self._post_at: dict[str, float] = {}
        self._spent: dict[str, tuple[float, float]] = {}
        self._closed_until: dict[str, float] = {}

    async def post_turn(self, channel: str) -> None:
        """Wait for the channel's next turn, in calling order; raise NotSent if that is far off."""
        self.check("chat.postMessage", channel)
        now, gap_s = self._clock.monotonic(), _POST_GAP_S * self.processes()
        earliest = now - max(0.0, _POST_BURST * _POST_GAP_S - gap_s)
        at = max(self._post_at.pop(channel, earliest), earliest)
        wait_s = at - now
        if wait_s > _LONGEST_WAIT_S:
            self._post_at[channel] = at
            raise NotSent(f"slack: {wait_s:.1f} s of posts wait in {channel}", retry_after_s=wait_s)
        self._post_at[channel] = at + gap_s
        while len(self._post_at) > _MAX_CHANNELS:
            del self._post_at[next(iter(self._post_at))]
        if wait_s > 0:
            await self._clock.sleep(wait_s)

    def has_room(self, *methods: str) -> bool:
        """Whether calls that can be left out may be made now."""
        return not any(self._is_low(method) for method in methods)

    def spend(self, method: str) -> None:
        """Count a call."""
        left, at = self._left(method), self._clock.monotonic()
        self._spent[method] = (left - 1, at)

    def check(self, method: str, channel: str = "") -> None:
        """Raise NotSent, without a call, while Slack wants to be left alone."""
        now = self._clock.monotonic()
        keys = (method, f"{method} {channel}")
        wait_s = max(self._closed_until.get(key, now) for key in keys) - now
        if wait_s > 0:
            raise NotSent(
                f"slack {method}: rate limited for {wait_s:.1f} s more", retry_after_s=wait_s
            )

    def note(self, error: NotSent, method: str, channel: str = "") -> None:
        """Take a refusal to heart: of this method, in one channel where one is named."""
        if error.retry_after_s is None:
            return
        now = self._clock.monotonic()
        self._closed_until = {key: at for key, at in self._closed_until.items() if at > now}
        key = f"{method} {channel}" if channel else method
        self._closed_until[key] = now + (error.retry_after_s or _DEFAULT_PAUSE_S)

    def _is_low(self, method: str) -> bool:
        closed = self._closed_until.get(method, 0.0) > self._clock.monotonic()
        return closed or self._left(method) < max(1.0, _RESERVE * self._full(method))

    def _left(self, method: str) -> float:
        full = self._full(method)
        left, at = self._spent.get(method, (full, 0.0))
        return min(full, left + (self._clock.monotonic() - at) * full / 60)

    def _full(self, method: str) -> float:
        return _PER_MINUTE[method] / self.processes()
