"""`clawbot cost`: what model calls cost, by model, person, session or day."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer
from rich.console import Console
from rich.table import Table

from clawbot.cli.options import DEFAULT_CONFIG, ConfigPath
from clawbot.cli.store_access import with_store
from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.money import dollars
from clawbot.ports import Store, Transaction

if TYPE_CHECKING:
    from clawbot.store.costs import By, Total

Rows = list[tuple[str, "Total"]]


class Grouping(StrEnum):
    """What the rows are."""

    MODEL = "model"
    USER = "user"
    SESSION = "session"
    DAY = "day"


_COLUMNS: dict[Grouping, By] = {
    Grouping.MODEL: "model",
    Grouping.USER: "user_key",
    Grouping.SESSION: "session_key",
    Grouping.DAY: "hour",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(cost)


def cost(
    days: Annotated[int, typer.Option(min=1, help="Of the last so many days, with today.")] = 30,
    by: Annotated[Grouping, typer.Option(help="What a row is.")] = Grouping.MODEL,
    config: ConfigPath = DEFAULT_CONFIG,
    as_json: Annotated[  # noqa: FBT002 a command line flag
        bool, typer.Option("--json", help="For programs.")
    ] = False,
) -> None:
    """Show what model calls cost; a price that is not known is said to be so, and is not 0."""
    from clawbot.budgets import day_began  # noqa: PLC0415 a quick command is quick
    from clawbot.store import costs  # noqa: PLC0415 as above

    async def read(loaded: Config, store: Store) -> Rows:
        zone = loaded.time_zone
        since_hour = day_began(SystemClock().now_ms(), zone) - 24 * (days - 1)

        def look(tx: Transaction) -> Rows:
            found = costs.by(tx, _COLUMNS[by], since_hour=since_hour)
            return _by_day(found, zone) if by is Grouping.DAY else found

        return await store.read(look)

    rows = with_store(config, read)
    if as_json:
        data = [{by.value: name, **asdict(total), "usd": _usd(total)} for name, total in rows]
        typer.echo(json.dumps(data))
    else:
        _show(rows, by)


def _by_day(hours: Rows, zone: str) -> Rows:
    from clawbot.store.costs import HOUR_MS, Total  # noqa: PLC0415 a quick command is quick

    sums: dict[str, dict[str, int]] = {}
    for hour, total in hours:
        began = datetime.fromtimestamp(int(hour) * HOUR_MS / 1000, tz=ZoneInfo(zone))
        day = sums.setdefault(f"{began:%Y-%m-%d}", {})
        for name, value in asdict(total).items():
            day[name] = day.get(name, 0) + value
    return [(day, Total(**sums[day])) for day in sorted(sums)]


def _usd(total: Total) -> float | None:
    """The price; None when a part of it is unknown."""
    return None if total.unpriced else total.cost_nanos / 1_000_000_000


def _show(rows: Rows, by: Grouping) -> None:
    console = Console(highlight=False)
    table = Table(by.value, "cost", "calls", "failed", "in", "cached", "out")
    for name, total in rows:
        price = dollars(total.cost_nanos) if total.cost_nanos or not total.unpriced else "unknown"
        if total.unpriced and total.cost_nanos:
            price = f"at least {price}"
        counts = (total.calls, total.failed, total.input_tokens, total.cached_tokens)
        shown = [f"{count:,}" for count in (*counts, total.output_tokens)]
        table.add_row(name or "(summaries)", price, *shown)
    console.print(table if rows else "no model was called", markup=False)
