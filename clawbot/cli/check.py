"""`clawbot config …`: look at the configuration without running anything."""

from __future__ import annotations

import typer

from clawbot.cli.options import DEFAULT_CONFIG, ConfigPath
from clawbot.config import load_config

app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Look at the configuration."""


@app.command()
def check(config: ConfigPath = DEFAULT_CONFIG) -> None:
    """Read the file and name every problem; exit with 78 if there are any."""
    loaded = load_config(config)
    enabled = [name for name, channel in loaded.channels.items() if channel.enabled]
    typer.echo(
        f"{config}: good; model {loaded.model}, channels: {', '.join(enabled) or 'none'}, "
        f"state in {loaded.state_dir}"
    )
