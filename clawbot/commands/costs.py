"""`/cost`: what the model calls of a conversation cost, and for owners all of them."""

from __future__ import annotations

from clawbot.budgets import day_began, month_began
from clawbot.commands.answers import answer
from clawbot.money import dollars
from clawbot.ports import Transaction
from clawbot.session_key import SessionKey
from clawbot.store import costs, sessions
from clawbot.store.costs import By, Total

LISTED = 10


def of_session(tx: Transaction, session: SessionKey, like: str, now_ms: int, zone: str) -> str:
    """What a conversation cost in all, and its session today and this month."""
    row = sessions.find(tx, session)
    epoch = 0 if row is None else row["epoch"]
    month = month_began(now_ms, zone)
    lines = [
        _line("cost_conversation", costs.total(tx, session=session, epoch=epoch), like),
        _line(
            "cost_today", costs.total(tx, session=session, since_hour=day_began(now_ms, zone)), like
        ),
        _line("cost_month", costs.total(tx, session=session, since_hour=month), like),
    ]
    models = costs.by(tx, "model", session=session, since_hour=month, limit=LISTED)
    return answer("cost", like=like, lines="\n".join([*lines, *_named(models, like)]))


def of_all(tx: Transaction, like: str, now_ms: int, zone: str) -> str:
    """What everything cost, today and this month, and where that went."""
    month = month_began(now_ms, zone)
    blocks = [
        "\n".join(
            [
                _line("cost_today", costs.total(tx, since_hour=day_began(now_ms, zone)), like),
                _line("cost_month", costs.total(tx, since_hour=month), like),
            ]
        )
    ]
    columns: tuple[tuple[str, By], ...] = (
        ("cost_by_model", "model"),
        ("cost_by_user", "user_key"),
        ("cost_by_session", "session_key"),
    )
    for title, column in columns:
        lines = _named(costs.by(tx, column, since_hour=month, limit=LISTED), like)
        if lines:
            blocks.append("\n".join([answer(title, like=like), *lines]))
    return answer("cost_all", like=like, lines="\n\n".join(blocks))


def _named(found: list[tuple[str, Total]], like: str) -> list[str]:
    nobody = answer("cost_nobody", like=like)
    return [
        f"- {f'`{name}`' if name else nobody}: {told(total, like)}"
        for name, total in found
        if total.calls
    ]


def _line(name: str, total: Total, like: str) -> str:
    return answer(name, like=like, told=told(total, like))


def told(total: Total, like: str) -> str:
    """A sum in words; what has no known price is said, and never taken for nothing."""
    if not total.calls:
        return answer("cost_nothing", like=like)
    if not total.unpriced:
        price = dollars(total.cost_nanos)
    elif total.unpriced == total.calls:
        price = answer("cost_unknown", like=like)
    else:
        at_least = dollars(total.cost_nanos)
        price = answer("cost_partly", like=like, price=at_least, count=total.unpriced)
    return answer(
        "cost_told",
        like=like,
        price=price,
        calls=f"{total.calls:,}",
        failed=answer("cost_failed", like=like, count=total.failed) if total.failed else "",
        input=f"{total.input_tokens:,}",
        cached=f"{total.cached_tokens:,}",
        output=f"{total.output_tokens:,}",
    )
