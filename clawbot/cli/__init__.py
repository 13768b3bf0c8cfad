"""The `clawbot` command. One module a group of commands; this one only puts them together."""

from __future__ import annotations

import sys

import typer

from clawbot.cli import (
    chat,
    check,
    cost,
    daemon,
    database,
    doctor,
    evaluate,
    inspection,
    sessions,
    trace,
)
from clawbot.errors import (
    ConfigError,
    InvalidSessionKey,
    RequestRefused,
    StartupError,
    StoreUnavailable,
)
from clawbot.supervisor import EXIT_BAD_CONFIG

__all__ = ["app", "main"]

EXIT_FAILED = 1

app = typer.Typer(
    name="clawbot",
    help="An LLM agent with tools in your chats.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(check.app, name="config")
app.add_typer(sessions.app, name="sessions")
app.add_typer(database.app, name="db")
daemon.register(app)
inspection.register(app)
doctor.register(app)
chat.register(app)
cost.register(app)
trace.register(app)
evaluate.register(app)


def main() -> None:
    """Run the command line; say what an error means and end with its exit code."""
    try:
        app()
    except ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)  # noqa: T201 the output of a command
        sys.exit(EXIT_BAD_CONFIG)
    except (StartupError, StoreUnavailable, InvalidSessionKey, RequestRefused) as error:
        print(f"clawbot: {error}", file=sys.stderr)  # noqa: T201 the output of a command
        sys.exit(EXIT_FAILED)
