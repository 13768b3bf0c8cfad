"""Which models do not work now: known for a while, so that not every turn finds out anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clawbot.errors import ModelError
from clawbot.ports import Clock, Model

FALLBACK_KINDS = frozenset({"retryable", "rate_limited", "auth", "quota"})
"""Failures of the model or the way to it; of the others the request itself is the cause."""

SHORT_S = 60.0
LONG_S = 300.0
_LONG_KINDS = frozenset({"auth", "quota"})  # somebody must act


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outage:
    kind: str
    until: float


class Outages:
    """The models of one worker process that failed lately. None is given up for good: when its time
    is over it is asked first again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, _Outage] = {}

    def in_order(self, models: Sequence[Model]) -> list[Model]:
        """The models to ask, one after the other: those that failed lately come last."""
        return sorted(models, key=lambda model: self.is_out(model.name))

    def is_out(self, name: str) -> bool:
        """Whether a model failed lately."""
        outage = self._known.get(name)
        return outage is not None and outage.until > self._clock.monotonic()

    def note(self, name: str, error: ModelError) -> None:
        """Remember that a model failed."""
        seconds = LONG_S if error.kind in _LONG_KINDS else SHORT_S
        if error.retry_after_s is not None:
            seconds = min(max(error.retry_after_s, 1.0), LONG_S)
        self._known[name] = _Outage(kind=error.kind, until=self._clock.monotonic() + seconds)

    def forget(self, name: str) -> None:
        """A model has answered."""
        self._known.pop(name, None)

    def facts(self) -> dict[str, str]:
        """What `status` shows: the models that do not work, and why."""
        now = self._clock.monotonic()
        return {
            f"model {name}": f"fails ({outage.kind}), asked again in {outage.until - now:.0f} s"
            for name, outage in sorted(self._known.items())
            if outage.until > now
        }
