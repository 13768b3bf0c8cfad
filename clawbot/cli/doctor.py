"""`clawbot doctor`: looks at what a daemon needs here, and says what to do about what is missing.

It needs no daemon that runs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer

from clawbot.cli.options import DEFAULT_CONFIG, ConfigPath
from clawbot.config import Config, load_config
from clawbot.errors import ClawbotError
from clawbot.state_dir import holder_of

Mark = Literal["good", "note", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at, and how it is."""

    mark: Mark
    what: str
    text: str


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(config: ConfigPath = DEFAULT_CONFIG) -> None:
    """Look at config, state directory, database and sandbox; exit with 1 if something is bad."""
    loaded = load_config(config)  # its problems are shown as `config check` shows them
    found = [
        Finding(mark="good", what="config", text=str(config)),
        *_state(loaded.state_dir),
        asyncio.run(_store(loaded)),
        *asyncio.run(_sandbox(loaded)),
    ]
    for one in found:
        typer.echo(f"{one.mark:5} {one.what}: {one.text}")
    if any(one.mark == "bad" for one in found):
        raise typer.Exit(1)


def _state(path: Path) -> Iterator[Finding]:
    if not path.exists():
        parent = next(one for one in path.parents if one.exists())
        if os.access(parent, os.W_OK | os.X_OK):
            yield Finding(mark="note", what="state", text=f"{path} is made at the first start")
        else:
            yield Finding(
                mark="bad",
                what="state",
                text=f"{path} does not exist and cannot be made in {parent}; make it, for the user "
                "that clawbot runs as",
            )
        return
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            mark="bad",
            what="state",
            text=f"{path} cannot be written by this user; give it to the one clawbot runs as",
        )
        return
    if path.stat().st_mode & 0o077:
        yield Finding(
            mark="bad",
            what="state",
            text=f"{path} can be read by others, and holds what people wrote; chmod 700 {path}",
        )
    else:
        yield Finding(mark="good", what="state", text=str(path))
    pid = holder_of(path)
    running = (
        "no clawbot run is active on it" if pid is None else f"clawbot run is active, pid {pid}"
    )
    yield Finding(mark="good", what="daemon", text=running)


async def _store(config: Config) -> Finding:
    from clawbot.parts import STORE_FILE, open_store  # noqa: PLC0415  loads the database's libraries

    if config.database is None and not (config.state_dir / STORE_FILE).exists():
        return Finding(mark="note", what="database", text="is made at the first start")
    try:
        store = await open_store(config)
        try:
            await store.read(lambda _tx: None)
        finally:
            await store.close()
    except ClawbotError as error:
        return Finding(mark="bad", what="database", text=str(error))
    return Finding(mark="good", what="database", text="opens, and can be read")


async def _sandbox(config: Config) -> list[Finding]:
    from clawbot.tools.offer import open_sandbox  # noqa: PLC0415  loads the tools

    sandbox = await open_sandbox(config)
    if isinstance(sandbox, str):
        text = f"bash is not offered: {sandbox}"
        return [Finding(mark="bad", what="sandbox", text=text)]
    if not sandbox.is_confined:
        text = "none: shell commands run as this user and can read all secrets; owners only"
        return [Finding(mark="bad", what="sandbox", text=text)]
    network = "with network" if sandbox.rules.network else "without network"
    found = [Finding(mark="good", what="sandbox", text=f"bubblewrap works; commands run {network}")]
    if os.geteuid() == 0:
        text = "clawbot runs as root, for whom the number of a command's processes has no bound"
        found.append(Finding(mark="note", what="sandbox", text=f"{text}; run it as another user"))
    return found
