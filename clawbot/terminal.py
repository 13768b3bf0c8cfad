"""A conversation in the terminal: what is sent into one session, and what is shown of it.

It has no adapter and no outbox: it writes inbox rows and reads events and drafts, like the web
page. How it looks is the caller's (`Screen`); a worker runs the turns, here or elsewhere.
"""

from __future__ import annotations

import asyncio
import getpass
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from sqlalchemy import select

from clawbot.config import Models
from clawbot.history import Entry
from clawbot.intake import admit_for_session
from clawbot.messages import ChatType, InboundMessage, Sender
from clawbot.ports import Clock, Part, Store, Transaction
from clawbot.session_key import SessionKey
from clawbot.store import events, history, processes, sessions
from clawbot.store.events import Event
from clawbot.store.schema import inbox, turns
from clawbot.store.topics import EVENTS
from clawbot.text import clean

CHANNEL = "terminal"
LOOK_AGAIN_S = 1.0
LEAST_INTERVAL_S = 0.05

OpenWorker = Callable[[str], AbstractAsyncContextManager[Part]]
"""Opens a worker for a process id."""


class Screen(Protocol):
    """What shows an answer. Calls come from the event loop and must not block for long."""

    def text(self, piece: str) -> None:
        """The next piece of the answer."""
        ...

    def progress(self, line: str) -> None:
        """What the agent does now; "" = nothing that is worth a line."""
        ...

    def notice(self, text: str) -> None:
        """Something that is no part of the answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One snapshot of the session. is_open: whether the message that was sent waits or runs."""

    events: list[Event]
    is_open: bool
    is_parked: bool
    draft: str
    progress: str
    has_worker: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One session as a terminal sees it."""

    store: Store
    clock: Clock
    key: SessionKey
    models: Models
    model: str
    lease_s: float
    zone: str = "UTC"

    async def recent(self, count: int) -> list[Entry]:
        """The newest entries, oldest first."""

        def load(tx: Transaction) -> list[Entry]:
            row = sessions.find(tx, self.key)
            epoch = 0 if row is None else row["epoch"]
            return history.load(tx, self.key, epoch, newest=count)

        return await self.store.read(load)

    async def send(self, text: str) -> int:
        """Take a message or command in; return its inbox id."""
        message = InboundMessage(
            channel=CHANNEL,
            identity=uuid.uuid4().hex,
            chat_id=str(self.key),
            chat_type=ChatType.DM,
            sender=Sender(id=_user_name()),
            text=clean(text),
            raw="",
            command_text=clean(text),
        )
        now_ms = self.clock.now_ms()
        accepted = await self.store.write(
            lambda tx: admit_for_session(tx, message, self.key, self.models, now_ms, self.zone)
        )
        assert accepted.inbox_id is not None  # noqa: S101 - what is admitted here has a row
        return accepted.inbox_id

    async def say(self, text: str, screen: Screen, host: WorkerHost) -> bool:
        """Send a message and show what comes of it until it is answered; False if that failed.

        A turn that waits for people ends it too: the answer is shown when they have decided.
        """
        ear = self.store.listen([EVENTS])
        try:
            cursor = await self.store.read(partial(_head, key=self.key))
            inbox_id = await self.send(text)
            shown = _Shown(screen)
            while True:
                seen = await self.store.read(partial(self._look, cursor=cursor, inbox_id=inbox_id))
                for event in seen.events:
                    shown.event(event)
                    cursor = event.seq
                if not seen.is_open or seen.is_parked:
                    return not shown.has_failed
                shown.draft(seen.draft, seen.progress)
                if not seen.has_worker:
                    await host.start()
                await ear.wait(LOOK_AGAIN_S)
                await self.clock.sleep(LEAST_INTERVAL_S)
        finally:
            ear.close()

    def _look(self, tx: Transaction, cursor: int, inbox_id: int) -> Look:
        row = tx.conn.execute(
            select(inbox.c.settled_ms, turns.c.state, turns.c.draft_text, turns.c.draft_progress)
            .outerjoin(turns, turns.c.id == inbox.c.turn_id)
            .where(inbox.c.id == inbox_id)
        ).one()
        oldest = self.lease_s * 1000
        return Look(
            events=events.of_session(tx, self.key, cursor),
            is_open=row[0] is None,
            is_parked=row[1] == "parked",
            draft=row[2] or "",
            progress=row[3] or "",
            has_worker=any(
                one.role.startswith("worker") and one.age_ms < oldest for one in processes.live(tx)
            ),
        )


class WorkerHost:
    """Runs a worker in this process, from the first time that none is alive elsewhere."""

    def __init__(self, open_worker: OpenWorker) -> None:
        self._open_worker = open_worker
        self._stack = AsyncExitStack()
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def start(self) -> None:
        """Make sure that a worker runs here."""
        if self._task is not None and not self._task.done():
            return
        part = await self._stack.enter_async_context(self._open_worker(f"chat-{uuid.uuid4().hex}"))
        self._task = asyncio.create_task(part.run(self._stop), name="worker")

    async def close(self) -> None:
        """Let the worker finish or give back what it runs."""
        self._stop.set()
        try:
            if self._task is not None:
                await self._task
        finally:
            await self._stack.aclose()


class _Shown:
    """How much of the answer is on the screen; what is there is never written again."""

    def __init__(self, screen: Screen) -> None:
        self.has_failed = False
        self._screen = screen
        self._text = ""

    def draft(self, text: str, progress: str) -> None:
        self._grow(text)
        self._screen.progress(progress)

    def event(self, event: Event) -> None:
        data = event.data
        if event.kind == "reply":
            self._screen.progress("")
            self._grow(data["text"])
            self._text = ""
        elif event.kind in {"notice", "approval_asked"}:
            self._screen.notice(data["text"])
        elif event.kind == "turn_ended":
            self.has_failed = self.has_failed or data["state"] == "failed"
            if data["state"] == "stopped":
                self._screen.notice("(stopped)")

    def _grow(self, text: str) -> None:
        if text.startswith(self._text):
            self._screen.text(text[len(self._text) :])
        else:
            self._screen.text(f"\n{text}")
        self._text = text


def _head(tx: Transaction, key: SessionKey) -> int:
    row = sessions.find(tx, key)
    return 0 if row is None else int(row["last_seq"])


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "me"
