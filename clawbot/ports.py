"""Every Protocol of clawbot on one page: the seams at which parts can be replaced.

Required protocols have at most five methods; what only some platforms can do is an optional
one-method protocol that is found by `isinstance`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel
from sqlalchemy import Connection, Executable, Result, Table
from sqlalchemy.dialects.postgresql import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert

from clawbot.history import ModelReply, ModelRequest, ToolCall
from clawbot.messages import (
    Accepted,
    Amendment,
    Attachment,
    ChannelHealth,
    Ignored,
    InboundMessage,
    Limits,
    MessageRef,
    OutboundPart,
    ReplyRoute,
)
from clawbot.session_key import SessionKey

T = TypeVar("T")


# -- time ------------------------------------------------------------------------------------------


class Clock(Protocol):
    """The only source of time for logic. It does not decide leases; the store does."""

    def now_ms(self) -> int:
        """Wall clock, Unix milliseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; a test's clock returns when the test moves time on."""
        ...


# -- the store -------------------------------------------------------------------------------------

Parameters = Mapping[str, Any]
Rows = Result[*tuple[Any, ...]]
InsertOf = Callable[[Table], Any]  # makes an INSERT of a database's dialect


class Transaction(Protocol):
    """What a unit of work is given. It is valid only while the unit runs."""

    conn: Connection

    def ring(self, topic: str) -> None:
        """Wake whoever waits for `topic`, in any process, after the commit."""
        ...

    def insert(self, table: Table) -> SqliteInsert | PostgresInsert:
        """An INSERT of this database's dialect, with `on_conflict_do_update` and `_nothing`."""
        ...

    def run(self, statement: Executable, of: Parameters | Sequence[Parameters]) -> Rows:
        """Run a statement that lives as long as its module; `conn.execute` is for all others."""
        ...

    def prepared(self, build: Callable[[InsertOf], T]) -> T:
        """The statement that `build`, a plain function, makes of this database's `insert`, once."""
        ...

    def lease_ms(self) -> int:
        """The time by which leases are judged: the database's where it has a clock."""
        ...


Unit = Callable[[Transaction], T]
"""A unit of work: a plain function of a transaction that may be run again after a rollback."""


class Wakeup(Protocol):
    """One listener's ear. A ring can be lost: callers look again at the latest after a second."""

    async def wait(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` for a ring since the last wait; False = none came."""
        ...

    def close(self) -> None:
        """Hear no more."""
        ...


class Store(Protocol):
    """Durable state, shared by all processes. Units run in a thread, never on the event loop."""

    async def write(self, unit: Unit[T]) -> T:
        """Run a unit; return when its commit is durable. Raise what the unit raises (then nothing
        of it is kept), or StoreUnavailable. If the caller is cancelled it may still commit.
        """
        ...

    async def read(self, unit: Unit[T]) -> T:
        """Run a unit that only reads, on one consistent snapshot. Raises as `write`."""
        ...

    def listen(self, topics: Sequence[str]) -> Wakeup:
        """Hear the rings of `topics` from now on; the caller closes it."""
        ...

    async def close(self) -> None:
        """Commit what waits, then close. Later calls raise StoreUnavailable."""
        ...


# -- channels --------------------------------------------------------------------------------------

Accept = Callable[[InboundMessage], Awaitable[Accepted]]
"""Gate, route and commit one inbound message: it is durable then and may be acknowledged. Raises
StoreUnavailable when it is not; then it must not be, so that the platform delivers again.
"""

ChangeNote = Callable[[str, Callable[[str | None], str | None], float], Awaitable[str | None]]
"""Give a note another text, which a plain function makes of the one before (None = none; it may
run again), and so many seconds to last; returns the text before. All processes of a channel share
its notes, and only one at a time changes a note. Raises StoreUnavailable.
"""

Amend = Callable[[Amendment], Awaitable[bool]]
"""Change or withdraw a message that no turn has taken up; False when there is none such. It may be
called twice. Raises StoreUnavailable as `Accept` does.
"""


class ChannelAdapter(Protocol):
    """One account of one platform."""

    limits: Limits

    async def check(self) -> ChannelHealth:
        """Prove the credentials and learn who we are. Raise ChannelBroken if an admin must act."""
        ...

    async def receive(self, accept: Accept) -> None:
        """Receive until cancelled, reconnecting as needed. Raise ChannelBroken to give up."""
        ...

    async def send(self, part: OutboundPart) -> MessageRef:
        """Send one part. Raise NotSent, Rejected, OutcomeUnknown or WindowClosed; never retry."""
        ...

    def measure(self, text: str) -> int:
        """The size of `text` as a part of a reply, in the unit of `limits.max_size`."""
        ...

    async def close(self) -> None:
        """Close connections and servers; may be called twice."""
        ...


@runtime_checkable
class Editor(Protocol):
    """Can change a sent part."""

    async def edit(self, ref: MessageRef, part: OutboundPart) -> None:
        """Replace the whole text; idempotent. Raises as `send`."""
        ...


@runtime_checkable
class Uploader(Protocol):
    """Can send files; `limits.max_file_bytes` says how large."""

    async def upload(self, part: OutboundPart, data: bytes) -> MessageRef:
        """Send `part.file`, whose bytes are `data`, as a message of its own. Raises as `send`; for
        a Rejected one people are told so in its place.
        """
        ...


@runtime_checkable
class Lookup(Protocol):
    """Can find out whether a part was taken by the platform."""

    async def lookup(self, part: OutboundPart) -> MessageRef | None:
        """Find the message with this part's key; None = surely not there. Raise NotSent when the
        question itself failed and may be asked again, Rejected when it has no answer.
        """
        ...


@runtime_checkable
class Enricher(Protocol):
    """Completes messages that were accepted with `is_incomplete`."""

    async def enrich(self, raw: str) -> InboundMessage:
        """Load what is missing and parse again. May be called twice; falls back to placeholders."""
        ...


@runtime_checkable
class Downloader(Protocol):
    """Can load the files of messages."""

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """All of a file. Raise NotLoaded if it is larger, or cannot be had."""
        ...


Overview = Callable[[str, str], Awaitable[str | None]]
"""What a person sees of a direct chat at a glance, as Markdown: of (chat id, person id); None when
they may not talk to us. Raises StoreUnavailable.
"""


@runtime_checkable
class OverviewShower(Protocol):
    """Has a page of its own for every person."""

    def overview_with(self, overview: Overview) -> None:
        """Be told, before `receive`, who knows what to show there."""
        ...


@runtime_checkable
class AmendmentSource(Protocol):
    """Hears of messages that people change or delete after sending them."""

    def amend_with(self, amend: Amend) -> None:
        """Be told, before `receive`, where to report them; a report raises as `Accept` does."""
        ...


@runtime_checkable
class Sharer(Protocol):
    """Knows that several processes may serve its channel; the platform counts them as one."""

    def share_with(self, change: ChangeNote, processes: Callable[[], int]) -> None:
        """Be told, before `check`, how to change a note and how many processes there are now."""
        ...


@runtime_checkable
class ThreadReader(Protocol):
    """Can read what stood in a thread before somebody called us into it."""

    async def earlier(self, raw: str, limit: int) -> Sequence[InboundMessage]:
        """The newest `limit` messages before this one in its thread, oldest first, as far as they
        can be read; only a failure of our own is raised.
        """
        ...


@runtime_checkable
class PayloadReader(Protocol):
    """Reads recorded payloads, for `explain`."""

    def read_payload(self, headers: Mapping[str, str], body: bytes) -> InboundMessage | Ignored:
        """What the adapter makes of a payload; a signature in the headers is checked, if there are
        any, but not how old it is. No network; never raises for what it reads.
        """
        ...


@runtime_checkable
class Typing(Protocol):
    """Can show that an answer is being prepared."""

    async def typing(self, route: ReplyRoute, *, active: bool, mark: str = "") -> str | None:
        """Begin or end the sign; never raises. One that lasts returns a mark, given at its end."""
        ...


@runtime_checkable
class HealthReporter(Protocol):
    """Tells how its connection is."""

    def health(self) -> ChannelHealth:
        """The state now; judged by the transport, never by how much people write."""
        ...


# -- the agent -------------------------------------------------------------------------------------


class Model(Protocol):
    """A language model."""

    name: str

    async def reply(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelReply:
        """Make one call; `on_text` is given each piece of visible text as it arrives, and "" when
        anything else does (thinking, a tool call), so that the caller knows it has begun. Raise
        ModelError. Nothing is retried here.
        """
        ...


class Reporter(Protocol):
    """Told how a turn goes, for people who watch. It must neither block nor raise."""

    def text(self, draft: str) -> None:
        """The reply so far, whole."""
        ...

    def progress(self, line: str) -> None:
        """What the agent is doing now, one line; "" = nothing."""
        ...


class ToolContext(Protocol):
    """What a tool is told of the turn and the call it runs in. Nothing of it outlives the call.

    work_dirs: where relative paths begin is the first. readable_dirs: those, and what else may be
    read. session_dir: what tools keep of the session. is_owner: whether only owners asked.
    """

    session: SessionKey
    work_dirs: Sequence[Path]
    readable_dirs: Sequence[Path]
    session_dir: Path
    is_owner: bool
    channel: str
    deadline: float
    reporter: Reporter
    stopping: asyncio.Event
    store: Store

    async def ask(self, question: str) -> None:
        """Ask the people of this chat whether the call may be made; return when they allowed it.

        `question` says what it will do, in one line; they are shown the arguments as well. Ask
        before the call has any effect: while nobody has decided this raises TurnParked, which must
        pass through, and the call is made again afterwards, from its beginning. Raise ToolError
        when they refused or did not answer in time.
        """
        ...

    async def send_file(self, name: str, mime: str, data: bytes) -> None:
        """Send a file to this chat, with the record of the call. Raise ToolError if none can be."""
        ...

    def effects(self) -> tuple[Unit[None], ...]:
        """What is to be committed with the call's result."""
        ...

    def for_call(self, call: ToolCall) -> ToolContext:
        """The context of one call of the turn."""
        ...


class Tool(Protocol):
    """Something that the model can do. One instance serves all sessions and keeps nothing."""

    name: ClassVar[str]
    description: ClassVar[str]
    Args: ClassVar[type[BaseModel]]

    async def run(self, args: Any, context: ToolContext) -> str:
        """Do it; the text is the model's observation. Raise ToolError with what went wrong."""
        ...


@runtime_checkable
class Writer(Protocol):
    """A tool that may change something: of one step's calls, it runs alone and in its turn."""

    @property
    def writes(self) -> bool:
        """Whether it does."""
        ...


class Part(Protocol):
    """A piece of the daemon that runs until it is told to stop."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then finish or release what is open and return."""
        ...


@runtime_checkable
class Readiness(Protocol):
    """A part that takes a moment until it works."""

    async def ready(self) -> None:
        """Wait, while `run` runs, until the part does what it is for (it listens, it receives)."""
        ...
