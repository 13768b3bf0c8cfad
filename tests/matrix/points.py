"""The numbered points of a message's path, and how a process meets its end at one of them.

A point `name.before` is before the function is called, `name.after` when it has returned. Of a unit
of the store, after means within the transaction: what it did is not committed yet; `commit.during`
is some moment while the database commits. A claim that found nothing does not count. The program
itself knows nothing of it: `install` wraps the functions that the points name.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from tests.matrix.talk import Asks

ORDER = "order.json"
LONGEST_COMMIT_S = 0.003

Role = Literal["adapter", "worker"]
Act = Literal["die", "die_soon", "freeze"]
"""What a process does at its point: it is gone at once, in a moment, or waits while others go."""

FUNCTIONS = {
    "slack": "adapters.slack.adapter:SlackAdapter",
    "feishu": "adapters.feishu.adapter:FeishuAdapter",
    "feishu-webhook": "adapters.feishu.adapter:FeishuAdapter",
    "wecom": "adapters.wecom.adapter:WecomAdapter",
    "wechat": "adapters.wechat.adapter:WechatAdapter",
}
"""The adapter of each platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """A place in a message's path. `asks`: what kind of message comes there; `hit`: how often it
    comes there before it counts; `after`: the point whose kill it helps to recover from.
    """

    name: str
    role: Role
    target: str
    is_before: bool
    asks: Asks = "tool"
    hit: int = 1
    after: str = ""

    @property
    def is_loose(self) -> bool:
        """Whether it is some moment within the call, and not a place in the program."""
        return self.name.endswith(".during")


def _points(role: Role, name: str, target: str, *moments: str, **more: Any) -> Iterator[KillPoint]:
    for moment in moments:
        is_before = moment != "after"
        yield KillPoint(
            name=f"{name}.{moment}", role=role, target=target, is_before=is_before, **more
        )


BOTH = ("before", "after")
_RECORD = "clawbot.journal:StoreJournal.record"
_COMMITS = {
    "sqlite": "clawbot.store.engine:SqliteDatabase.commit",
    "postgres": "clawbot.store.postgres:PostgresDatabase.commit",
}

WORKER: tuple[KillPoint, ...] = (
    # From the claim to the end of a turn.
    *_points("worker", "claim", "clawbot.store.claims:claim", "after"),
    *_points("worker", "turn", "clawbot.turn_run:TurnRun.run", *BOTH),
    *_points("worker", "model", "clawbot.agent.calling:Caller.call", *BOTH),
    *_points("worker", "step", _RECORD, *BOTH),
    *_points("worker", "step-unit", "clawbot.store.turns:record", "after"),
    *_points("worker", "tool", "clawbot.tools.registry:BoundTools.call", *BOTH),
    *_points("worker", "result", _RECORD, *BOTH, hit=2),
    *_points("worker", "draft", "clawbot.store.turns:write_draft", "after", asks="grow"),
    *_points("worker", "draft-3", "clawbot.store.turns:write_draft", "after", asks="grow", hit=3),
    *_points("worker", "finish", "clawbot.turn_run:TurnRun._finish", *BOTH),
    *_points("worker", "finish-unit", "clawbot.store.turns:finish", "after"),
    *_points("worker", "grown", "clawbot.turn_run:TurnRun._finish", *BOTH, asks="grow"),
    # While another kill is recovered from.
    *_points("worker", "reclaim", "clawbot.store.claims:claim", "after", after="tool.before"),
    *_points("worker", "resume", "clawbot.turn_run:TurnRun.run", "before", after="step.after"),
)


def _adapter(adapter: str) -> Iterator[KillPoint]:
    """What every platform's adapter passes."""
    yield from _points("adapter", "accept", "clawbot.intake:Intake.accept", *BOTH)
    yield from _points("adapter", "persist", "clawbot.store.inbox:put", "after")
    yield from _points("adapter", "claim-reply", "clawbot.store.lanes:claim", "after")
    yield from _points("adapter", "deliver", "clawbot.delivery:Delivery._deliver", *BOTH)
    yield from _points("adapter", "send", f"{adapter}.send", *BOTH)
    yield from _points("adapter", "send-2", f"{adapter}.send", *BOTH, asks="long", hit=2)
    yield from _points("adapter", "sent", "clawbot.reply:ReplySender._record_sent", "after")
    sent = "clawbot.store.outbox:part_sent"
    yield from _points("adapter", "sent-2", sent, "after", asks="long", hit=2)
    yield from _points("adapter", "settle", "clawbot.store.outbox:settle", "after")


def _enriching(adapter: str) -> Iterator[KillPoint]:
    """Names, cards, files."""
    taking = "clawbot.store.inbox:take_unenriched"
    yield from _points("adapter", "take-unenriched", taking, "after")
    yield from _points("adapter", "enrich", f"{adapter}.enrich", *BOTH)
    yield from _points("adapter", "enriched", "clawbot.store.inbox:complete", "after")


def _growing(adapter: str) -> Iterator[KillPoint]:
    """Replies that grow in the chat."""
    yield from _points("adapter", "grow-send", f"{adapter}.send", *BOTH, asks="grow")
    yield from _points("adapter", "grow-edit", f"{adapter}.edit", *BOTH, asks="grow")


def _own(platform: str, adapter: str) -> Iterator[KillPoint]:
    """What only this platform's adapter passes."""
    response = "aiohttp.web_response:Response.write_eof"
    again = f"{adapter}.send"
    match platform:
        case "slack":
            yield from _points("adapter", "ack", "adapters.slack.socket:_Link.send_message", *BOTH)
            lookup = f"{adapter}.lookup"
            yield from _points("adapter", "lookup", lookup, *BOTH, after="send.after")
        case "feishu" | "feishu-webhook":
            if platform == "feishu":
                link = "adapters.feishu.long_connection:_Connection._answer"
                yield from _points("adapter", "ack", "adapters.feishu.frames:acknowledge", "before")
                yield from _points("adapter", "ack", link, "after")
            else:
                yield from _points("adapter", "ack", response, *BOTH)
            api = "adapters.feishu.api:FeishuApi"
            yield from _points("adapter", "card", f"{api}.create_card", "after", asks="grow")
            yield from _points("adapter", "close-card", f"{api}.set_card", *BOTH, asks="grow")
            yield from _points("adapter", "resend", again, *BOTH, after="send.after")
        case "wecom":
            yield from _points("adapter", "ack", response, *BOTH)
            said = "adapters.wecom.repeats:Repeats.is_checked"
            yield from _points("adapter", "said", said, "after")
            yield from _points("adapter", "resend", again, *BOTH, after="send.after")
        case "wechat":
            yield from _points("adapter", "ack", response, *BOTH)
            carry = "adapters.wechat.exchanges:Exchanges.carry"
            yield from _points("adapter", "carry", carry, "after")
            late = "adapters.wechat.service:CustomerService.send_text"
            yield from _points("adapter", "late", late, *BOTH, asks="late")
            budget = "adapters.wechat.budget:Budget.take"
            yield from _points("adapter", "budget", budget, "after", asks="late")


def points_of(platform: str, store: str) -> tuple[KillPoint, ...]:
    """Every point of a message's path on this platform and store, in the order of the path."""
    adapter = FUNCTIONS[platform]
    extra = platform in {"slack", "feishu", "feishu-webhook"}
    commit = _COMMITS[store]
    return (
        *_adapter(adapter),
        *(_enriching(adapter) if extra else ()),
        *(_growing(adapter) if extra else ()),
        *_own(platform, adapter),
        *_points("adapter", "commit", commit, "before", "during", "after"),
        *_points("worker", "work-commit", commit, "before", "during", "after"),
        *WORKER,
    )


def all_points() -> list[KillPoint]:
    """The points of all platforms and stores; one that several share is there once."""
    found = (points_of(platform, store) for platform in FUNCTIONS for store in _COMMITS)
    return list({(each.name, each.target): each for points in found for each in points}.values())


# -- within the process that is to die -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a process is told: at which arrival at which point to do what. The number is new each
    time.
    """

    number: int
    point: str
    hit: int
    act: Act

    def write(self, folder: Path) -> None:
        """Give it to the process that looks into the folder."""
        new = folder / f"{ORDER}.new"
        new.write_text(json.dumps(asdict(self)))
        new.rename(folder / ORDER)


class Executioner:
    """Counts how often its process comes to the ordered point, and then does what it is told."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self._order: Order | None = None
        self._left = 0

    def arrive(self, point: str) -> None:
        """The process is at a point."""
        if self.folder is None or (order := self._read(self.folder)) is None:
            return
        if order.point != point:
            return
        self._left -= 1
        if self._left:
            return
        match order.act:
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)  # No thread goes on until the signal has ended them all.
            case "die_soon":
                wait_s = random.uniform(0, LONGEST_COMMIT_S)  # noqa: S311 - no secret
                threading.Timer(wait_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
            case "freeze":
                os.kill(os.getpid(), signal.SIGSTOP)

    def _read(self, folder: Path) -> Order | None:
        try:
            found = Order(**json.loads((folder / ORDER).read_text()))
        except FileNotFoundError:
            return None
        if self._order != found:
            self._order, self._left = found, found.hit
        return found


def install(points: Sequence[KillPoint], executioner: Executioner) -> None:
    """Wrap the functions that the points name."""
    for point in points:
        module_name, _, path = point.target.partition(":")
        owner: Any = import_module(module_name)
        *parents, name = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        setattr(owner, name, _wrapped(getattr(owner, name), point, executioner.arrive))


def _wrapped(
    original: Callable[..., Any], point: KillPoint, arrive: Callable[[str], None]
) -> Callable[..., Any]:
    def entered() -> None:
        if point.is_before:
            arrive(point.name)

    def left(result: object) -> None:
        if not point.is_before and result != []:
            arrive(point.name)

    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def waiting(*args: Any, **keywords: Any) -> Any:
            entered()
            result = await original(*args, **keywords)
            left(result)
            return result

        return waiting

    @functools.wraps(original)
    def plain(*args: Any, **keywords: Any) -> Any:
        entered()
        result = original(*args, **keywords)
        left(result)
        return result

    return plain
