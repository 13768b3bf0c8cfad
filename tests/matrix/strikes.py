"""Who is killed where, and what came of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from tests.matrix.points import KillPoint

Victim = Literal["adapter", "worker", "backend", "server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """Who is killed when a message comes to a point. point: None = at some moment, `after_s` after
    it was sent. recovery: the point at which what is started anew is killed too.
    """

    point: KillPoint | None
    victims: tuple[Victim, ...]
    recovery: KillPoint | None = None
    after_s: float = 0.0

    @property
    def name(self) -> str:
        """For the figures."""
        return self.point.name if self.point else "any-time"


@dataclass(slots=True, kw_only=True)
class Figures:
    """What came of it. `problems` is empty when every promise was kept; kills: by point and victim;
    unknown: replies that stay so.
    """

    messages: int = 0
    lost: int = 0
    doubled: int = 0
    unknown: int = 0
    took_s: float = 0.0
    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.messages} messages, {self.kills.total()} kills at {len(self.points)} points, "
            f"lost {self.lost}, doubled {self.doubled}, unknown {self.unknown}"
        )

    @property
    def points(self) -> set[str]:
        """At which points something was killed."""
        return {point for point, _ in self.kills}

    def add(self, other: Figures) -> None:
        """Count another run's too."""
        self.messages += other.messages
        self.lost += other.lost
        self.doubled += other.doubled
        self.unknown += other.unknown
        self.took_s += other.took_s
        self.kills += other.kills
        self.problems += other.problems
