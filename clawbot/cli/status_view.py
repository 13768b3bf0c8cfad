"""What `clawbot status` prints: the parts that live, the channels, and what waits or went wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from clawbot.cli.ages import age
from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.ports import Store, Transaction
from clawbot.process.children_file import in_words, read_children

Rows = list[dict[str, Any]]

# In the order in which they are shown; what has ended well is not.
_MESSAGES = {
    "received": "being completed",
    "queued": "waiting",
    "claimed": "being answered",
    "dead": "failed",
}
_REPLIES = {
    "streaming": "growing",
    "pending": "waiting",
    "sending": "being sent",
    "held": "held",
    "unknown": "perhaps sent",
    "dead": "not sent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """All that is shown. messages, replies: how many are in each state. lease_ms: after how long a
    silent part counts as dead. sandbox: what the config says of shell commands. children: what this
    host's supervisor, if one runs, tells of its parts.
    """

    processes: Rows
    channels: Rows
    messages: Mapping[str, int]
    replies: Mapping[str, int]
    lease_ms: int
    sandbox: str
    children: Rows


async def status_of(config: Config, store: Store) -> Status:
    """Read it on one snapshot."""
    from clawbot.store import inbox, outbox, processes  # noqa: PLC0415 a quick command is quick

    def look(tx: Transaction) -> Status:
        rows = processes.status_rows(tx)
        return Status(
            processes=rows["processes"],
            channels=rows["channels"],
            messages=inbox.count_by_state(tx),
            replies=outbox.count_by_state(tx),
            lease_ms=round(config.limits.lease_s * 1000),
            sandbox=config.tools.sandbox,
            children=read_children(config.state_dir),
        )

    return await store.read(look)


def show_json(status: Status, supervisor_pid: int | None) -> None:
    """Print it for programs."""
    data = {
        "supervisor_pid": supervisor_pid,
        "processes": status.processes,
        "channels": status.channels,
        "messages": dict(status.messages),
        "replies": dict(status.replies),
        "sandbox": status.sandbox,
        "children": status.children if supervisor_pid is not None else [],
    }
    typer.echo(json.dumps(data, default=str))


def show(status: Status, supervisor_pid: int | None) -> None:
    """Print it for people."""
    now_ms = SystemClock().now_ms()
    console = Console(highlight=False)
    running = "not running here" if supervisor_pid is None else f"pid {supervisor_pid}"
    console.print(f"clawbot run: {running}")
    for row in status.children if supervisor_pid is not None else ():
        if told := in_words(row, age(now_ms - row["since_ms"])):
            console.print(told, style="bold", markup=False)
    parts = Table("part", "pid", "host", "up for", "last heartbeat", title="Parts")
    for row in status.processes:
        parts.add_row(
            row["role"],
            str(row["pid"]),
            row["host"],
            age(now_ms - row["started_ms"]),
            age(row["age_ms"]),
        )
    _print(console, parts, "no part runs")
    if status.processes and all(row["role"] != "worker" for row in status.processes):
        console.print("No worker runs: messages are taken in and wait.", style="bold")
    if status.processes and all(row["age_ms"] > status.lease_ms for row in status.processes):
        console.print(
            "No part has written to the database for so long: its disk may be full or read-only, "
            "or nothing runs. Nothing is acknowledged meanwhile; it goes on by itself.",
            style="bold",
        )
    for row in status.processes:
        for name, told in row["facts"].items():
            console.print(f"{row['role']} (pid {row['pid']}): {name} {told}", markup=False)
    channels = Table("channel", "state", "last in", "last out", "what", title="Channels")
    live = {row["id"] for row in status.processes}
    for row in status.channels:
        channels.add_row(
            row["channel"],
            "stopped" if row["state"] == "up" and row["process_id"] not in live else row["state"],
            *(_since(row[name], now_ms) for name in ("last_in_ms", "last_out_ms")),
            row["detail"],
        )
    _print(console, channels, "no channel")
    console.print(f"Messages: {_counted(status.messages, _MESSAGES)}")
    if status.sandbox == "none":
        console.print(
            "Shell commands run WITHOUT A SANDBOX (tools.sandbox: none) and can read all secrets.",
            style="bold red",
        )
    console.print(f"Replies: {_counted(status.replies, _REPLIES)}")


def _print(console: Console, table: Table, otherwise: str) -> None:
    table.title_justify = "left"
    console.print(table if table.rows else f"{table.title}: {otherwise}", markup=False)


def _since(at_ms: int | None, now_ms: int) -> str:
    return "" if at_ms is None else age(now_ms - at_ms)


def _counted(counts: Mapping[str, int], names: Mapping[str, str]) -> str:
    shown = [f"{counts[state]} {name}" for state, name in names.items() if counts.get(state)]
    return ", ".join(shown) or "nothing waits"
