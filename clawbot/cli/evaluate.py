"""`clawbot eval`: lets the agent do tasks whose outcome a script can tell, and reports.

Nothing of the daemon is touched: each run has a store and directories of its own, which are removed
at its end.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from clawbot.cli.options import DEFAULT_CONFIG, ConfigPath
from clawbot.config import Config, load_config
from clawbot.config_sections import WebConfig
from clawbot.errors import RequestRefused
from clawbot.logs import configure_logs
from clawbot.money import dollars

if TYPE_CHECKING:
    from clawbot.eval_cases import Case
    from clawbot.eval_run import Evaluation, Result

STYLES = {"passed": "green", "failed": "red", "error": "red"}
INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("eval")(evaluate)


def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The cases, or one of them.")],
    case: Annotated[
        list[str] | None, typer.Option("--case", help="Run this one alone, or several.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="PROVIDER:NAME, in place of the config's.")
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, max=64, help="How many run side by side.")] = 2,
    approve: Annotated[
        bool, typer.Option("--approve", help="Allow what asks people; else it is refused.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the directories, and say where.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    config: ConfigPath = DEFAULT_CONFIG,
) -> None:
    """Let the agent do tasks, check what came of them; exit with 1 if one is not done."""
    from clawbot.eval_cases import load_cases

    loaded = load_config(config)
    configure_logs(loaded.log.model_copy(update={"level": "error"}), loaded.secrets())
    if model is not None:
        if problem := loaded.model_problem(model, ("model",)):
            raise RequestRefused(f"model {model}: {problem[1]}")
        loaded = loaded.model_copy(update={"model": model})
    cases = load_cases(folder, loaded, case or ())
    root = Path(tempfile.mkdtemp(prefix="clawbot-eval-")).resolve()
    started = time.monotonic()
    told = Console(stderr=True, highlight=False)

    def ended(result: Result) -> None:
        told.print(Text(f"{result.verdict:12} {result.case}  {result.seconds:.1f} s"))

    try:
        results = asyncio.run(_run(loaded, root, cases, ended, at_once=at_once, approves=approve))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise typer.Exit(INTERRUPTED) from None
    finally:
        if keep:
            told.print(f"kept: {root}", markup=False)
        else:
            _remove(root)
    if as_json:
        typer.echo(json.dumps(_as_data(results), ensure_ascii=False))
    else:
        _show(results, time.monotonic() - started)
    if any(result.verdict != "passed" for result in results):
        raise typer.Exit(1)


def alone(config: Config, root: Path) -> Config:
    """The config of an evaluation: models, tools and rules as they are, all else its own."""
    return config.model_copy(
        update={
            "state_dir": root / "state",
            "database": None,
            "channels": {},
            "owners": (),
            "pools": (),
            "schedules": {},
            "transcripts": False,
            "web": WebConfig(enabled=False),
        }
    )


async def _run(
    config: Config,
    root: Path,
    cases: Sequence[Case],
    ended: Callable[[Result], None],
    *,
    at_once: int,
    approves: bool,
) -> list[Result]:
    from clawbot.process.stopping import on_signals

    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine of a task

    def cancel(_number: int) -> None:
        task.cancel()

    with on_signals(cancel):
        async with _opened(alone(config, root), root, at_once, approves) as evaluation:
            return await evaluation.run(cases, ended)


@asynccontextmanager
async def _opened(
    config: Config, root: Path, at_once: int, approves: bool
) -> AsyncIterator[Evaluation]:
    """What runs cases, with a worker beside it."""
    from clawbot.clock import SystemClock
    from clawbot.eval_run import Evaluation
    from clawbot.parts import open_store, worker_part
    from clawbot.tools.offer import open_sandbox

    sandbox = await open_sandbox(config)
    if isinstance(sandbox, str):
        raise RequestRefused(f"eval runs scripts in the sandbox: {sandbox}")
    store = await open_store(config)
    try:
        async with worker_part(config, store, "eval") as worker:
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run(stop), name="worker")
                try:
                    yield Evaluation(
                        config=config,
                        store=store,
                        clock=SystemClock(),
                        sandbox=sandbox,
                        root=root,
                        at_once=at_once,
                        approves=approves,
                    )
                finally:
                    stop.set()
    finally:
        await store.close()


def _remove(root: Path) -> None:
    """Remove a directory, also where the agent has taken the right to write away."""
    from clawbot.store.doorbell import bell_folder

    def again(function: Callable[[str], Any], path: str, _error: object) -> None:
        for one in (Path(path).parent, Path(path)):
            if not one.is_symlink() and one.is_relative_to(root) and one.exists():
                one.chmod(one.stat().st_mode | stat.S_IRWXU)
        function(path)

    shutil.rmtree(bell_folder(root / "state"), ignore_errors=True)  # may be elsewhere
    shutil.rmtree(root, onerror=again)


def _as_data(results: Sequence[Result]) -> dict[str, object]:
    passed = sum(result.verdict == "passed" for result in results)
    return {
        "passed": passed,
        "failed": len(results) - passed,
        "usd": _usd(results),
        "cases": [
            {**asdict(result), "usd": _usd([result]), "seconds": round(result.seconds, 3)}
            for result in results
        ],
    }


def _usd(results: Sequence[Result]) -> float | None:
    """The price of all; None when a part of it is unknown."""
    if any(result.spent.unpriced for result in results):
        return None
    return sum(result.spent.cost_nanos for result in results) / 1_000_000_000


def _show(results: Sequence[Result], seconds: float) -> None:
    console = Console(highlight=False)
    table = Table("case", "result")
    for name in ("time", "cost", "calls", "in", "out", "asked"):
        table.add_column(name, justify="right")
    for result in results:
        spent = result.spent
        counts = (spent.calls, spent.input_tokens, spent.output_tokens, result.asked)
        table.add_row(
            Text(result.case),
            Text(result.verdict, style=STYLES.get(result.verdict, "yellow")),
            f"{result.seconds:.1f} s",
            _price([result]),
            *(f"{count:,}" for count in counts),
        )
    console.print(table)
    for result in results:
        if result.note:
            console.print(f"\n{result.case}: {result.verdict}", style="bold", markup=False)
            console.print(result.note, markup=False, soft_wrap=True)
    passed = sum(result.verdict == "passed" for result in results)
    console.print(
        f"\n{passed} of {len(results)} passed, {_price(results)}, {seconds:.0f} s", markup=False
    )


def _price(results: Sequence[Result]) -> str:
    nanos = sum(result.spent.cost_nanos for result in results)
    is_known = not any(result.spent.unpriced for result in results)
    if is_known:
        return dollars(nanos)
    return f"at least {dollars(nanos)}" if nanos else "unknown"
