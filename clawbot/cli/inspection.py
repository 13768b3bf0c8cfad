"""Commands that look at the daemon from outside: `status`, `explain`, `version`."""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated

import typer

from clawbot.cli import status_view
from clawbot.cli.options import DEFAULT_CONFIG, ConfigPath
from clawbot.cli.store_access import existing_state, state_despite, with_state
from clawbot.config import load_config
from clawbot.errors import ConfigError
from clawbot.logs import configure_logs
from clawbot.state_dir import holder_of


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
    """Show which parts live, how the channels are, and what waits or went wrong."""
    problem = None
    try:
        loaded = existing_state(config)
    except ConfigError as error:
        problem, loaded = error, state_despite(config, error)
    found = with_state(loaded, status_view.status_of)
    show = status_view.show_json if as_json else status_view.show
    show(found, holder_of(loaded.state_dir))
    if problem is not None:
        typer.echo("The config file is bad now; what runs goes by what it read before:", err=True)
        raise problem


def explain(
    channel: Annotated[str, typer.Argument(help="The channel, as the config names it.")],
    file: Annotated[
        Path,
        typer.Argument(
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
    payload = _payload(file)
    real_store = loaded.state_dir / STORE_FILE if with_store else None
    typer.echo(asyncio.run(explain_payload(loaded, channel, payload, real_store=real_store)))


def _payload(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise typer.BadParameter(f"{file}: cannot be read: {error}", param_hint="FILE") from error
