"""clawbot's commands, each killed at one point of a message's path.

    python -m tests.process.kill_points POINT HIT [FOLDER] -- adapter slack --config PATH

The process ends itself by SIGKILL when it comes to POINT for the HIT-th time. With a FOLDER it
waits with its command until the folder holds a file `start`, and counts from when there is a file
`armed`. The program itself knows nothing of it: the functions that a point names are wrapped here.

A point `name.before` is before the function is called, `name.after` when it has returned. Of a unit
of the store, after means within the transaction: what it did is not committed yet. A claim that
found nothing does not count.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from clawbot import cli

START, ARMED = "start", "armed"
POLL_S = 0.02

Role = Literal["adapter", "worker"]
Asks = Literal["tool", "grow", "long"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """A place in a message's path. `asks`: what kind of message comes there."""

    name: str
    role: Role
    target: str
    is_before: bool
    asks: Asks
    hit: int = 1
    is_recovery: bool = False


def _points(
    role: Role, name: str, target: str, *moments: str, asks: Asks = "tool", **more: Any
) -> Iterator[KillPoint]:
    for moment in moments:
        yield KillPoint(
            name=f"{name}.{moment}",
            role=role,
            target=target,
            is_before=moment == "before",
            asks=asks,
            **more,
        )


_SLACK = "adapters.slack.adapter:SlackAdapter"
_LINK = "adapters.slack.socket:_Link.send_message"
_RECORD = "clawbot.journal:StoreJournal.record"

POINTS: tuple[KillPoint, ...] = (
    # From the event to its acknowledgement.
    *_points("adapter", "accept", "clawbot.intake:Intake.accept", "before", "after"),
    *_points("adapter", "persist", "clawbot.store.inbox:put", "after"),
    *_points("adapter", "ack", _LINK, "before", "after"),
    # Names, cards, files.
    *_points("adapter", "take-unenriched", "clawbot.store.inbox:take_unenriched", "after"),
    *_points("adapter", "enrich", f"{_SLACK}.enrich", "before", "after"),
    *_points("adapter", "enriched", "clawbot.store.inbox:complete", "after"),
    # From the claim to the end of a turn.
    *_points("worker", "claim", "clawbot.store.claims:claim", "after"),
    *_points("worker", "turn", "clawbot.turn_run:TurnRun.run", "before", "after"),
    *_points("worker", "model", "clawbot.agent.calling:Caller.call", "before", "after"),
    *_points("worker", "step", _RECORD, "before", "after"),
    *_points("worker", "step-unit", "clawbot.store.turns:record", "after"),
    *_points("worker", "tool", "clawbot.tools.registry:BoundTools.call", "before", "after"),
    *_points("worker", "result", _RECORD, "before", "after", hit=2),
    *_points("worker", "draft", "clawbot.store.turns:write_draft", "after", asks="grow"),
    *_points("worker", "draft-3", "clawbot.store.turns:write_draft", "after", asks="grow", hit=3),
    *_points("worker", "finish", "clawbot.turn_run:TurnRun._finish", "before", "after"),
    *_points("worker", "finish-unit", "clawbot.store.turns:finish", "after"),
    *_points("worker", "grown", "clawbot.turn_run:TurnRun._finish", "before", "after", asks="grow"),
    # The way back.
    *_points("adapter", "claim-reply", "clawbot.store.lanes:claim", "after"),
    *_points("adapter", "deliver", "clawbot.delivery:Delivery._deliver", "before", "after"),
    *_points("adapter", "send", f"{_SLACK}.send", "before", "after"),
    *_points("adapter", "sent", "clawbot.reply:ReplySender._record_sent", "after"),
    *_points("adapter", "send-2", f"{_SLACK}.send", "before", "after", asks="long", hit=2),
    *_points("adapter", "sent-2", "clawbot.store.outbox:part_sent", "after", asks="long", hit=2),
    *_points("adapter", "grow-send", f"{_SLACK}.send", "before", "after", asks="grow"),
    *_points("adapter", "grow-edit", f"{_SLACK}.edit", "before", "after", asks="grow"),
    *_points("adapter", "settle", "clawbot.store.outbox:settle", "after"),
    # While another kill is recovered from.
    *_points("adapter", "lookup", f"{_SLACK}.lookup", "before", "after", is_recovery=True),
    *_points("worker", "reclaim", "clawbot.store.claims:claim", "after", is_recovery=True),
    *_points("worker", "resume", "clawbot.turn_run:TurnRun.run", "before", is_recovery=True),
)


class Killer:
    """Counts how often the process comes to its point."""

    def __init__(self, hit: int, folder: Path | None) -> None:
        self._left = hit
        self._folder = folder
        self._is_armed = folder is None

    def arrive(self) -> None:
        """The process is at the point."""
        if not self._is_armed:
            self._is_armed = self._folder is not None and (self._folder / ARMED).exists()
        if not self._is_armed:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # No thread goes on until the signal has ended them all.


def install(point: KillPoint, killer: Killer) -> None:
    """Wrap the function that the point names."""
    module_name, _, path = point.target.partition(":")
    owner: Any = import_module(module_name)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    setattr(owner, name, _wrapped(getattr(owner, name), point, killer))


def _wrapped(original: Callable[..., Any], point: KillPoint, killer: Killer) -> Callable[..., Any]:
    def left(result: object) -> None:
        if not point.is_before and result != []:
            killer.arrive()

    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def waiting(*args: Any, **keywords: Any) -> Any:
            if point.is_before:
                killer.arrive()
            result = await original(*args, **keywords)
            left(result)
            return result

        return waiting

    @functools.wraps(original)
    def plain(*args: Any, **keywords: Any) -> Any:
        if point.is_before:
            killer.arrive()
        result = original(*args, **keywords)
        left(result)
        return result

    return plain


def main(arguments: list[str]) -> None:
    """Wrap, then run the command."""
    own, command = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    point = next(point for point in POINTS if point.name == own[0])
    folder = Path(own[2]) if len(own) > 2 else None
    import_module("adapters.slack.adapter" if point.role == "adapter" else "clawbot.parts.worker")
    import_module("clawbot.daemon")
    install(point, Killer(int(own[1]), folder))
    while folder is not None and not (folder / START).exists():
        time.sleep(POLL_S)
    sys.argv = ["clawbot", *command]
    cli.main()


if __name__ == "__main__":
    main(sys.argv[1:])
