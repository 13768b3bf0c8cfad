"""Joins events that come in several frames. Pure but for the time it is told."""

from __future__ import annotations

from dataclasses import dataclass, field

_KEPT_S = 60.0
_MOST_PARTS = 1_000
_MOST_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class _Parts:
    total: int
    since: float
    parts: dict[int, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(map(len, self.parts.values()))


class Fragments:
    """What has come of the events that are not whole yet; old and too many are dropped.

    Feishu sends an event again that was not acknowledged, so that nothing is lost by it.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Parts] = {}

    def add(
        self, message_id: str, total: int, number: int, part: bytes, now: float
    ) -> bytes | None:
        """The whole payload once its last part is here, in whatever order they come."""
        if not 0 <= number < total <= _MOST_PARTS:
            return None
        known = self._open.get(message_id)
        if known is None or known.total != total:
            known = self._open[message_id] = _Parts(total, now)
        known.parts[number] = part
        if len(known.parts) == total:
            del self._open[message_id]
            return b"".join(known.parts[index] for index in range(total))
        self._drop(now)
        return None

    def _drop(self, now: float) -> None:
        for message_id in [key for key, each in self._open.items() if now - each.since > _KEPT_S]:
            del self._open[message_id]
        while sum(each.size for each in self._open.values()) > _MOST_BYTES:
            del self._open[next(iter(self._open))]
