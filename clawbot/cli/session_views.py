"""What `clawbot sessions` prints: lists and single sessions, for people and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from clawbot.cli.ages import age
from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.ports import Store, Transaction
from clawbot.session_key import SessionKey
from clawbot.text import head_and_tail

if TYPE_CHECKING:
    from clawbot.history import Entry
    from clawbot.store.session_list import SessionFilter, SessionTotals
    from clawbot.store.views import SessionView

SHOWN_CHARS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Sessions and how many there are in all."""

    sessions: list[SessionView]
    totals: SessionTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One session. own: what differs from what it would inherit; settled: what a turn would get."""

    facts: dict[str, Any]
    own: dict[str, Any]
    settled: dict[str, Any]
    seed: dict[str, Any] | None
    entries: list[Entry]


async def listed(wanted: SessionFilter, _config: Config, store: Store) -> Listed:
    """The sessions that fit."""
    from clawbot.store import session_list

    def look(tx: Transaction) -> Listed:
        return Listed(
            sessions=session_list.list_sessions(tx, wanted), totals=session_list.totals(tx)
        )

    return await store.read(look)


async def described(key: SessionKey, count: int, config: Config, store: Store) -> Described:
    """All about one session. Raise NoSuchSession."""
    from clawbot.session_settings import settle, stored
    from clawbot.store import history, seeds, session_admin
    from clawbot.work_dirs import work_dirs_of

    def look(tx: Transaction) -> Described:
        info = session_admin.get(tx, key)
        channel = key.channel or ""
        seed = seeds.find(tx, key, info.epoch)
        dirs = work_dirs_of(config, channel, key, info.work_dirs)
        facts = asdict(info) | {"key": str(key), "work_dirs": [str(one) for one in dirs]}
        facts.pop("settings")
        return Described(
            facts=facts,
            own={**(stored(info.settings) or {}), "work_dirs": list(info.work_dirs)},
            settled=asdict(settle(config, channel, info.settings)),
            seed=None
            if seed is None
            else {"source": seed.source, "hash": seed.hash, "bytes": len(seed.text.encode())},
            entries=history.load(tx, key, info.epoch, newest=count) if count else [],
        )

    return await store.read(look)


def show_list(found: Listed, as_json: bool) -> None:
    """Print a list."""
    if as_json:
        data = {
            "sessions": [asdict(view) for view in found.sessions],
            "totals": asdict(found.totals),
        }
        typer.echo(json.dumps(data, ensure_ascii=False))
        return
    now_ms = SystemClock().now_ms()
    table = Table()
    for column in ("key", "title", "state"):
        table.add_column(column, overflow="fold")
    for column in ("replies", "last active"):
        table.add_column(column, justify="right")
    for view in found.sessions:
        title = " ".join(view.words.split())[:60]
        since = age(now_ms - view.active_ms)
        table.add_row(view.key, title, view.state, str(view.visible_total), since)
    console = Console()
    console.print(table, markup=False) if found.sessions else console.print("no such session")
    totals = found.totals
    console.print(
        f"{len(found.sessions)} shown of {totals.active} sessions and {totals.archived} archived; "
        f"{totals.working} working",
        highlight=False,
    )


def show_one(found: Described, as_json: bool) -> None:
    """Print one session."""
    if as_json:
        typer.echo(json.dumps(asdict(found), ensure_ascii=False, default=str))
        return
    console = Console(highlight=False)
    table = Table(show_header=False, box=None)
    for name, value in (found.facts | found.settled | {"seed": found.seed}).items():
        own = " (its own)" if found.own.get(name) and name != "seed" else ""
        table.add_row(name, f"{_plain(name, value)}{own}")
    console.print(table, markup=False)
    for entry in found.entries:
        name = f"{entry.kind.value} {entry.tool}".strip()
        text = entry.arguments if entry.kind.value == "tool_call" else entry.text
        console.print(f"\n{name} {_time(entry.created_ms)}", style="bold", markup=False)
        console.print(head_and_tail(text, SHOWN_CHARS), markup=False)


def _plain(name: str, value: object) -> str:
    if name.endswith("_ms") and isinstance(value, int):
        return _time(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    return "-" if value in (None, "") else str(value)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
