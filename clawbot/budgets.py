"""What may be spent: a turn asks before each model call, and ends with a clear message when it is.

What is spent is what the store has counted, of every process; calls that run at the same time are
counted when they end, so a budget may be passed by what is under way.
"""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from clawbot.config_sections import Budget, BudgetsConfig
from clawbot.errors import ModelError, StoreUnavailable
from clawbot.money import dollars
from clawbot.ports import Clock, Store, Transaction
from clawbot.store import costs
from clawbot.store.costs import HOUR_MS, Payer, Total


def day_began(now_ms: int, zone: str) -> int:
    """The hour (since 1970) in which today began."""
    midnight = _local(now_ms, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return round(midnight.timestamp() * 1000) // HOUR_MS


def month_began(now_ms: int, zone: str) -> int:
    """The hour (since 1970) in which this month began."""
    first = _local(now_ms, zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return round(first.timestamp() * 1000) // HOUR_MS


def _local(now_ms: int, zone: str) -> datetime:
    return datetime.fromtimestamp(now_ms / 1000, tz=ZoneInfo(zone))


class TurnBudget:
    """The budgets that one turn must keep to. zone: where days begin."""

    def __init__(
        self, store: Store, clock: Clock, payer: Payer, section: BudgetsConfig, zone: str
    ) -> None:
        self._store = store
        self._clock = clock
        self._payer = payer
        self._section = section
        self._zone = zone

    async def check(self) -> None:
        """Raise ModelError when the conversation, the person or the day has no more to spend.

        While the store is out of reach nothing is known, and nothing refused: the turn itself waits
        for the store before its next step.
        """
        if not any((self._section.session, self._section.user_day, self._section.day)):
            return
        try:
            over = await self._store.read(self._over)
        except StoreUnavailable:
            return
        if over is not None:
            kind, spent, budget = over
            raise ModelError(
                f"budget {kind}: {dollars(spent.cost_nanos)} and {spent.tokens} tokens are spent "
                f"of {_told(budget)}; raise budgets.{kind} in the config",
                kind=f"budget_{kind.removesuffix('_day')}",
            )

    def _over(self, tx: Transaction) -> tuple[str, Total, Budget] | None:
        section, payer = self._section, self._payer
        today = day_began(self._clock.now_ms(), self._zone)
        if section.session:
            spent = costs.total(tx, session=payer.session, epoch=payer.epoch)
            if is_spent(section.session, spent):
                return "session", spent, section.session
        if section.user_day:
            spent = costs.total(tx, since_hour=today, user=payer.user)
            if is_spent(section.user_day, spent):
                return "user_day", spent, section.user_day
        if section.day:
            spent = costs.total(tx, since_hour=today)
            if is_spent(section.day, spent):
                return "day", spent, section.day
        return None


def is_spent(budget: Budget, spent: Total) -> bool:
    """Whether a budget has nothing left. Calls without a known price count in tokens alone."""
    if budget.tokens is not None and spent.tokens >= budget.tokens:
        return True
    return budget.usd is not None and spent.cost_nanos >= round(budget.usd * 1_000_000_000)


def _told(budget: Budget) -> str:
    parts = [
        "" if budget.usd is None else f"${budget.usd:g}",
        "" if budget.tokens is None else f"{budget.tokens} tokens",
    ]
    return " or ".join(filter(None, parts))
