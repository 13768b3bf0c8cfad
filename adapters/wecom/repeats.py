"""Tells a repeated send from a repeated text.

WeCom's duplicate check compares content, not a key: it makes the second attempt at a message
harmless, and would swallow a second message that happens to say the same. Such a one is sent
without the check.
"""

from __future__ import annotations

import hashlib

from clawbot.ports import Clock

_MAX_TEXTS = 20_000


class Repeats:
    """Which message said what to whom, within the interval of the check."""

    def __init__(self, clock: Clock, interval_s: float) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._first: dict[bytes, tuple[str, float]] = {}
        self._unchecked: dict[str, float] = {}

    def is_checked(self, user_id: str, text: str, key: str) -> bool:
        """Whether the message with this key shall be sent with the check.

        Its first attempt goes without when another message said the same; every later attempt has
        it, for then the message itself may be the earlier one.
        """
        now = self._clock.monotonic()
        _forget(self._first, now - self._interval_s)
        said = hashlib.sha256(f"{user_id}\0{text}".encode("utf-8", "replace")).digest()
        first_key, _ = self._first.pop(said, (key, now))
        self._first[said] = (first_key, now)
        if first_key == key or key in self._unchecked:
            return True
        while len(self._unchecked) >= _MAX_TEXTS:
            del self._unchecked[next(iter(self._unchecked))]
        self._unchecked[key] = now
        return False


def _forget(texts: dict[bytes, tuple[str, float]], horizon: float) -> None:
    """Drop what is too old or too much; the oldest stand first."""
    for said, (_, at) in list(texts.items())[:64]:
        if at > horizon and len(texts) < _MAX_TEXTS:
            return
        del texts[said]
