"""`clawbot sessions …`: list, look at and change sessions. Works beside a running daemon."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console

from clawbot.cli import session_views
from clawbot.cli.options import DEFAULT_CONFIG, ConfigPath
from clawbot.cli.store_access import existing_state, with_store
from clawbot.clock import SystemClock
from clawbot.config import Config
from clawbot.errors import InvalidSettings, RequestRefused
from clawbot.ports import Store, Transaction
from clawbot.session_key import SessionKey
from clawbot.state_dir import transcript_dir

if TYPE_CHECKING:
    from clawbot.session_file import Damage

T = TypeVar("T")

app = typer.Typer(help="List, look at and change sessions.", no_args_is_help=True)

Key = Annotated[
    str, typer.Argument(help="The session key, as `list` shows it; a bare task:ID is of global.")
]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


@app.callback()
def group() -> None:
    """List, look at and change sessions."""


@app.command("list")
def list_(
    text: Annotated[str, typer.Argument(help="A part of the key or title.")] = "",
    channel: Annotated[str | None, typer.Option(help="Sessions of this channel.")] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="The archived ones instead.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="How many; 0 = all.")] = 50,
    config: ConfigPath = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """List sessions, the most recently active first."""
    from clawbot.store.session_list import SessionFilter

    wanted = SessionFilter(text=text, channel=channel, archived=archived, limit=limit or None)
    session_views.show_list(with_store(config, partial(session_views.listed, wanted)), as_json)


def _write(path: Path, change: Callable[[Transaction, int], T]) -> T:
    """Commit a change that is given the time."""

    async def job(_config: Config, store: Store) -> T:
        now_ms = SystemClock().now_ms()
        return await store.write(lambda tx: change(tx, now_ms))

    return with_store(path, job)


@app.command()
def show(
    key: Key,
    messages: Annotated[int, typer.Option(min=0, help="How many of the newest entries.")] = 10,
    config: ConfigPath = DEFAULT_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Show what a session has of its own, and the end of its history."""
    job = partial(session_views.described, SessionKey.parse(key), messages)
    session_views.show_one(with_store(config, job), as_json)


@app.command()
def rename(
    key: Key,
    title: Annotated[str, typer.Argument(help='The title; "" takes it away.')],
    config: ConfigPath = DEFAULT_CONFIG,
) -> None:
    """Give a session a title."""
    from clawbot.store import session_admin

    _write(config, lambda tx, now: session_admin.rename(tx, SessionKey.parse(key), title, now))


@app.command()
def archive(key: Key, config: ConfigPath = DEFAULT_CONFIG) -> None:
    """Take a session out of the lists; a new message brings it back."""
    _archive(config, key, archived=True)


@app.command()
def unarchive(key: Key, config: ConfigPath = DEFAULT_CONFIG) -> None:
    """Bring an archived session back."""
    _archive(config, key, archived=False)


def _archive(config: Path, key: str, *, archived: bool) -> None:
    from clawbot.store.session_admin import set_archived

    parsed = SessionKey.parse(key)
    _write(config, lambda tx, now: set_archived(tx, parsed, now, archived=archived))


@app.command()
def delete(
    key: Key,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigPath = DEFAULT_CONFIG,
) -> None:
    """Stop a session and remove all that was said in it. There is no way back but an export."""
    from clawbot.agent.saved import saved_dir
    from clawbot.store.deletion import delete_session
    from clawbot.transcript_files import remove

    parsed = SessionKey.parse(key)
    if not yes:
        typer.confirm(f"Delete session {parsed} and all that was said in it?", abort=True)
    state_dir = existing_state(config).state_dir
    done = _write(config, lambda tx, now: delete_session(tx, parsed, now))
    # A running daemon does so too, some seconds later.
    remove(transcript_dir(state_dir, parsed), saved_dir(state_dir, parsed))
    stopped = "; its turn was stopped" if done.had_turn else ""
    typer.echo(f"{parsed}: deleted, {done.messages} entries{stopped}")


@app.command()
def reset(key: Key, config: ConfigPath = DEFAULT_CONFIG) -> None:
    """Begin a new conversation under the same key, as /new does; the old one stays readable."""
    from clawbot.store import session_admin

    parsed = SessionKey.parse(key)
    done = _write(config, lambda tx, now: session_admin.reset(tx, parsed, now))
    typer.echo(f"{parsed}: epoch {done.epoch} begins")


@app.command()
def fork(
    source: Key,
    target: Annotated[str, typer.Argument(help="The new key, or task:ID beside the source.")],
    epoch: Annotated[int | None, typer.Option(help="An earlier epoch instead.")] = None,
    config: ConfigPath = DEFAULT_CONFIG,
) -> None:
    """Begin a session with the history of another one."""
    from clawbot.store import copies

    origin = SessionKey.parse(source)
    fresh = SessionKey.parse(target)
    if target.startswith("task:"):
        fresh = origin.with_task(fresh.task)
    done = _write(config, lambda tx, now: copies.fork(tx, origin, fresh, now, epoch=epoch))
    typer.echo(f"{done.key}: {done.entries} entries of {origin}")


@app.command()
def export(
    key: Key,
    output: Annotated[
        Path, typer.Option("--output", "-o", dir_okay=False, allow_dash=True, help="- = stdout.")
    ] = Path("-"),
    epoch: Annotated[int | None, typer.Option(help="This epoch alone.")] = None,
    config: ConfigPath = DEFAULT_CONFIG,
) -> None:
    """Write a session as JSONL: one header line, then one line an entry."""
    with_store(config, partial(_export, SessionKey.parse(key), output, epoch))


async def _export(
    key: SessionKey, output: Path, epoch: int | None, _config: Config, store: Store
) -> None:
    from clawbot.session_transfer import export_session

    lines = export_session(store, key, epoch=epoch)
    first = await anext(lines)  # a key that names no session makes no file
    with open(1 if str(output) == "-" else output, "wb", closefd=str(output) != "-") as file:  # noqa: ASYNC230 nothing else runs here
        file.write(first)
        async for line in lines:
            file.write(line)


@app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, allow_dash=True, help="- = stdin.")
    ],
    key: Annotated[
        str | None, typer.Option(help="Under this key instead of the one in the file.")
    ] = None,
    config: ConfigPath = DEFAULT_CONFIG,
) -> None:
    """Make a session of an exported file or a transcript; damaged lines are left out."""
    target = None if key is None else SessionKey.parse(key)
    with_store(config, partial(_import, file, target))


async def _import(file: Path, key: SessionKey | None, _config: Config, store: Store) -> None:
    from clawbot.session_transfer import import_session

    source = sys.stdin.buffer if str(file) == "-" else file.open("rb")
    with source:
        done = await import_session(store, SystemClock(), source, key)
    typer.echo(f"{done.key}: {done.entries} entries{_told(done.damage)}")


def _told(damage: Damage) -> str:
    if not damage.skipped:
        return ""
    reasons = ", ".join(f"{count} {reason}" for reason, count in damage.reasons.items())
    where = f", first in line {damage.first_line}" if damage.first_line else ""
    return f"; {damage.skipped} damaged piece(s) left out ({reasons}{where})"


@app.command("set")
def set_(
    key: Key,
    pairs: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE...", help="model, temperature, max_steps, …"),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option(help="Inherit this one again.", metavar="NAME")
    ] = None,
    dirs: Annotated[
        list[Path] | None,
        typer.Option("--dir", help="Work here; several times for several directories."),
    ] = None,
    usual_dir: Annotated[
        bool, typer.Option("--usual-dir", help="Work in the usual directory again.")
    ] = False,
    pool: Annotated[
        str | None, typer.Option(help="Let this pool of workers run it; move its files yourself.")
    ] = None,
    config: ConfigPath = DEFAULT_CONFIG,
) -> None:
    """Give a session a model, bounds or directories of its own, from its next turn on."""
    if not (pairs or unset or dirs or usual_dir or pool):
        raise InvalidSettings(
            "nothing to set: give NAME=VALUE, --unset NAME, --dir, --usual-dir or --pool"
        )
    job = partial(_set, SessionKey.parse(key), pairs or [], unset or [], pool)
    bound = (dirs or []) if dirs or usual_dir else None
    with_store(config, partial(job, bound))


async def _set(
    key: SessionKey,
    pairs: list[str],
    unset: list[str],
    pool: str | None,
    dirs: list[Path] | None,
    config: Config,
    store: Store,
) -> None:
    from clawbot.store import session_admin
    from clawbot.work_dirs import checked_dirs

    values = session_admin.parsed_settings(pairs)
    model = values.get("model")
    if isinstance(model, str) and (problem := config.model_problem(model, ("model",))):
        raise RequestRefused(
            f"model {model}: {problem[1]} (config {'.'.join(map(str, problem[0]))})"
        )
    bound = None
    if dirs is not None:
        bound = await asyncio.to_thread(checked_dirs, config.state_dir, dirs)
    now_ms = SystemClock().now_ms()

    def change(tx: Transaction) -> None:
        session_admin.change_settings(tx, key, values, now_ms, unset=unset)
        if bound is not None:
            session_admin.bind_dirs(tx, key, bound, now_ms, rebind=True)
        if pool:
            session_admin.set_pool(tx, key, pool, now_ms)

    await store.write(change)
    described = await session_views.described(key, 0, config, store)
    Console().print_json(json.dumps(described.own))
