"""`clawbot trace`: what turns did, from the files that `tracing.files` keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from clawbot.cli.options import DEFAULT_CONFIG, ConfigPath
from clawbot.cli.store_access import existing_state
from clawbot.errors import RequestRefused
from clawbot.text import head_and_tail

if TYPE_CHECKING:
    from clawbot.tracing.files import SpanRecord, TraceRecord

LAST = "last"
CONTENT_CHARS = 300
_CONTENT = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(trace)


def trace(
    turn: Annotated[
        str, typer.Argument(help="The id of a turn, or how it begins, or last.", show_default=False)
    ] = "",
    session: Annotated[str, typer.Option(help="List those of this session alone.")] = "",
    count: Annotated[int, typer.Option(min=1, help="How many are listed.")] = 20,
    config: ConfigPath = DEFAULT_CONFIG,
    as_json: Annotated[  # noqa: FBT002 a command line flag
        bool, typer.Option("--json", help="For programs.")
    ] = False,
) -> None:
    """Show what a turn did, as a tree; without a turn, list the newest ones."""
    from clawbot.tracing import files  # noqa: PLC0415 a quick command is quick

    loaded = existing_state(config)
    found = (record for record in files.newest(loaded.state_dir, 100_000))
    wanted = (record for record in found if session in {"", record.session})
    if not turn:
        listed = _first(wanted, count)
        if as_json:
            typer.echo(json.dumps([_summary(record) for record in listed]))
        else:
            _show_list(listed, is_kept=loaded.tracing.files)
        return
    if turn == LAST:
        turn = next((record.turn for record in wanted), LAST)
    attempts = files.of_turn(loaded.state_dir, turn)
    turns = {record.turn for record in attempts}
    if len(turns) > 1:
        raise RequestRefused(f"trace {turn}: {len(turns)} turns begin so; write more of the id")
    if not attempts:
        why = "" if loaded.tracing.files else "; set tracing.files: true, it is off"
        raise RequestRefused(f"trace {turn}: there is none; clawbot trace lists them{why}")
    if as_json:
        typer.echo(json.dumps([record.model_dump() for record in attempts], ensure_ascii=False))
        return
    Console(highlight=False, soft_wrap=True).print(tree_of(attempts))


def _first(records: Iterator[TraceRecord], count: int) -> list[TraceRecord]:
    return [record for _, record in zip(range(count), records, strict=False)]


# -- the list --------------------------------------------------------------------------------------


def _summary(record: TraceRecord) -> dict[str, object]:
    spans = record.spans
    return {
        "turn": record.turn,
        "session": record.session,
        "started_ms": record.started_ms,
        "outcome": record.outcome or "unfinished",
        "ms": _ms(_attempt(record)),
        "model_calls": sum(one.name.startswith("chat ") for one in spans),
        "tool_calls": sum(one.name.startswith("execute_tool ") for one in spans),
        "failed": sum(bool(one.error) for one in spans),
    }


def _show_list(records: Sequence[TraceRecord], *, is_kept: bool) -> None:
    console = Console(highlight=False)
    if not records:
        console.print(
            "no traces yet" if is_kept else "no traces; set tracing.files: true to keep them"
        )
        return
    table = Table("time", "turn", "session", "outcome")
    for name in ("took", "models", "tools", "failed"):
        table.add_column(name, justify="right")
    for record in records:
        summary = _summary(record)
        at = datetime.fromtimestamp(record.started_ms / 1000, UTC).astimezone()
        counts = [str(summary[name]) for name in ("model_calls", "tool_calls", "failed")]
        table.add_row(
            f"{at:%m-%d %H:%M:%S}",
            record.turn[:8],
            Text(record.session),
            str(summary["outcome"]),
            _duration(_attempt(record)),
            *counts,
        )
    console.print(table)


# -- the tree --------------------------------------------------------------------------------------


Children = Mapping[str, Sequence["SpanRecord"]]
"""The spans of all attempts at a turn, by the ids of their parents."""


def tree_of(attempts: Sequence[TraceRecord]) -> Tree:
    """All attempts at one turn."""
    spans = [span for record in attempts for span in record.spans]
    roots = [span for span in spans if not span.parent_id]
    children: dict[str, list[SpanRecord]] = {}
    for span in sorted(spans, key=lambda one: one.started_ns):
        children.setdefault(span.parent_id, []).append(span)
    newest = attempts[-1]
    head = Text(f"turn {newest.turn} in {newest.session}: ", style="bold")
    head.append(newest.outcome or "unfinished: it runs, or was killed", style=_style(newest))
    if roots:
        head.append(f"  {_duration(roots[0])}{_spent(roots[0])}", style="dim")
    if error_id := newest_attribute(attempts, "clawbot.error_id"):
        head.append(f"  error {error_id}", style="red")
    tree = Tree(head)
    for record in attempts:
        attempt = _attempt(record)
        if attempt is None:
            continue
        branch = tree
        if len(attempts) > 1:
            at = datetime.fromtimestamp(record.started_ms / 1000, UTC).astimezone()
            label = Text(f"attempt at {at:%H:%M:%S}: {record.outcome or 'cut off'}")
            label.append(f"  {_duration(attempt)}", style="dim")
            branch = tree.add(label)
        _grow(branch, attempt, children)
        if record.dropped:
            branch.add(Text(f"and {record.dropped} more spans, which were not kept", style="dim"))
    return tree


def newest_attribute(attempts: Sequence[TraceRecord], name: str) -> object:
    """An attribute of the newest attempt."""
    attempt = _attempt(attempts[-1])
    return None if attempt is None else attempt.attributes.get(name)


def _grow(branch: Tree, parent: SpanRecord, children: Children) -> None:
    for span in children.get(parent.span_id, []):
        twig = branch.add(_label(span))
        for name in _CONTENT:
            if name in span.attributes:
                told = head_and_tail(str(span.attributes[name]), CONTENT_CHARS)
                twig.add(Text(f"{name.removeprefix('gen_ai.')}: {told}", style="dim"))
        _grow(twig, span, children)


def _label(span: SpanRecord) -> Text:
    label = Text(span.name.replace("execute_tool ", "tool ").replace("invoke_agent ", "agent "))
    label.append(f"  {_duration(span)}", style="dim")
    if span.ended_ns is None:
        label.append(" not ended", style="yellow")
    label.append(_spent(span), style="dim")
    if span.attributes.get("clawbot.outcome") == "parked":
        label.append(" waits for people", style="yellow")
    if span.error:
        label.append(f" {span.error}", style="red")
    return label


def _spent(span: SpanRecord) -> str:
    """Tokens and price."""
    given = span.attributes
    read, written = (given.get(f"gen_ai.usage.{name}_tokens") for name in ("input", "output"))
    if not read and not written:
        return ""
    cost = given.get("clawbot.cost_usd")
    price = f", ${float(cost):.4f}" if isinstance(cost, int | float) else ""
    return f"  {read} in, {written} out{price}"


def _attempt(record: TraceRecord) -> SpanRecord | None:
    """The span of the attempt itself: it begins first."""
    return record.spans[0] if record.spans else None


def _ms(span: SpanRecord | None) -> int | None:
    if span is None or span.ended_ns is None:
        return None
    return (span.ended_ns - span.started_ns) // 1_000_000


def _duration(span: SpanRecord | None) -> str:
    ms = _ms(span)
    if ms is None:
        return "…"
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _style(record: TraceRecord) -> str:
    return {"done": "green", "failed": "red"}.get(record.outcome, "yellow")
