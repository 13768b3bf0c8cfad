"""Amounts of money as people read them; pure."""

from __future__ import annotations

from decimal import Decimal

NANOS = Decimal(1_000_000_000)
"""Billionths, in which the store counts US dollars."""


def dollars(nanos: int) -> str:
    """An amount as people read it: to the cent, small ones to a few digits."""
    amount = Decimal(nanos) / NANOS
    if amount == 0 or amount >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= Decimal("0.0001") else "<$0.0001"
