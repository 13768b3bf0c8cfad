"""`clawbot run`, and its parts alone: `adapter`, `worker`, `web`.

The daemon's modules are imported when a command needs them, so that a quick command is quick.
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
import typer
import uvloop

from clawbot.cli.options import DEFAULT_CONFIG, ConfigPath
from clawbot.config import Config, load_config
from clawbot.errors import ConfigError, StoreAway
from clawbot.logs import configure_logs, name_process
from clawbot.state_dir import hold_state_dir, prepare_state_dir

if TYPE_CHECKING:
    from clawbot.daemon import RunnablePart

AWAY_PAUSE_S = 5.0


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (run, adapter, worker, web):
        app.command()(command)


def run(
    config: ConfigPath = DEFAULT_CONFIG,
    single: Annotated[  # noqa: FBT002 a command line flag
        bool, typer.Option("--single", help="Host all parts in this one process.")
    ] = False,
) -> None:
    """Run the daemon: an adapter for each channel, the workers and the web page."""
    from clawbot.daemon import run_daemon  # noqa: PLC0415 see the module's docstring

    loaded = _begin(config, "supervisor")
    with hold_state_dir(loaded.state_dir):
        code = uvloop.run(
            run_daemon(
                loaded,
                None if single else config,
                os.environ,
                lambda url: typer.echo(f"clawbot is ready: {url}"),
            )
        )
    raise typer.Exit(code)


def adapter(
    name: Annotated[str, typer.Argument(help="The channel, as the config names it.")],
    config: ConfigPath = DEFAULT_CONFIG,
) -> None:
    """Serve one channel."""
    from clawbot import daemon  # noqa: PLC0415 see the module's docstring

    loaded = _begin(config, f"adapter-{name}")
    if name not in loaded.channels:
        known = ", ".join(loaded.channels) or "none"
        raise ConfigError(f"config channels.{name}: missing; channels in the file: {known}")
    _run_alone(loaded, daemon.adapter(loaded, name))


def worker(
    config: ConfigPath = DEFAULT_CONFIG,
    pool: Annotated[
        list[str] | None,
        typer.Option("--pool", help="Run the turns of this pool, or of several.", metavar="NAME"),
    ] = None,
) -> None:
    """Run turns."""
    from clawbot import daemon  # noqa: PLC0415 see the module's docstring

    loaded = _begin(config, "worker")
    if pool:
        loaded = loaded.model_copy(update={"pools": tuple(pool)})
    _run_alone(loaded, daemon.worker(loaded))


def web(config: ConfigPath = DEFAULT_CONFIG) -> None:
    """Serve the web page."""
    from clawbot import daemon  # noqa: PLC0415 see the module's docstring

    loaded = _begin(config, "web")
    _run_alone(loaded, daemon.web(loaded))


def _begin(path: Path, role: str) -> Config:
    """What every process does first: config, logs, state directory."""
    config = load_config(path)
    configure_logs(config.log, config.secrets())
    name_process(role)
    _prepare_patiently(config.state_dir)
    return config


def _prepare_patiently(state_dir: Path) -> None:
    """Prepare it, as soon as its disk has room; what else is wrong with it is told at once."""
    has_waited = False
    while True:
        try:
            return prepare_state_dir(state_dir)
        except StoreAway as error:
            if getattr(error.__cause__, "errno", None) == errno.EROFS:
                raise
            if not has_waited:
                structlog.get_logger(__name__).warning("store_away", error=error)
            has_waited = True
            time.sleep(AWAY_PAUSE_S)


def _run_alone(config: Config, part: RunnablePart) -> None:
    from clawbot.daemon import run_alone  # noqa: PLC0415 see the module's docstring

    raise typer.Exit(uvloop.run(run_alone(config, part, os.environ)))
