"""Commands that look at the daemon from outside: `status`, `explain`, `version`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from clawbot.cli.options import DEFAULT_CONFIG, ConfigPath
from clawbot.config import Config, load_config
from clawbot.errors import StartupError
from clawbot.logs import configure_logs
from clawbot.state_dir import holder_of

Rows = Mapping[str, list[dict[str, Any]]]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (status, explain, version):
        app.command()(command)


def version() -> None:
    """Print the version."""
    typer.echo(version_of("clawbot"))


def status(
    config: ConfigPath = DEFAULT_CONFIG,
    as_json: Annotated[  # noqa: FBT002 a command line flag
        bool, typer.Option("--json", help="For programs.")
    ] = False,
) -> None:
    """Show which processes live and how the channels are."""
    loaded = load_config(config)
    if not loaded.state_dir.is_dir():
        raise StartupError(f"state_dir {loaded.state_dir}: does not exist; clawbot never ran here")
    rows = asyncio.run(_status_rows(loaded))
    running = holder_of(loaded.state_dir)
    if as_json:
        typer.echo(json.dumps({"supervisor_pid": running, **rows}, default=str))
        return
    console = Console()
    console.print(f"clawbot run: {'not running here' if running is None else f'pid {running}'}")
    for title, entries in rows.items():
        console.print(_table(title, entries))


def explain(
    channel: Annotated[str, typer.Argument(help="The channel, as the config names it.")],
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            allow_dash=True,
            help="One payload as the platform sent it: the body, or headers, an empty line and "
            "the body; - = stdin.",
        ),
    ],
    config: ConfigPath = DEFAULT_CONFIG,
    with_store: Annotated[  # noqa: FBT002 a command line flag
        bool,
        typer.Option(
            "--with-store",
            help="Let the daemon's threads and earlier messages count; its store is only read.",
        ),
    ] = False,
) -> None:
    """Say what would become of one payload: the decision, its reason, the session, the text."""
    from clawbot.explain import explain as explain_payload  # noqa: PLC0415 loads an adapter
    from clawbot.parts import STORE_FILE  # noqa: PLC0415 loads the database's libraries

    loaded = load_config(config)
    configure_logs(loaded.log.model_copy(update={"level": "error"}), loaded.secrets())
    payload = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    real_store = loaded.state_dir / STORE_FILE if with_store else None
    typer.echo(asyncio.run(explain_payload(loaded, channel, payload, real_store=real_store)))


async def _status_rows(config: Config) -> Rows:
    from clawbot.parts import open_store  # noqa: PLC0415 loads the database's libraries
    from clawbot.store.processes import status_rows  # noqa: PLC0415 the same

    store = await open_store(config)
    try:
        return await store.read(status_rows)
    finally:
        await store.close()


def _table(title: str, entries: list[dict[str, Any]]) -> Table | str:
    if not entries:
        return f"{title}: none"
    table = Table(title=title, title_justify="left")
    for column in entries[0]:
        table.add_column(column)
    for entry in entries:
        table.add_row(*("" if value is None else str(value) for value in entry.values()))
    return table
