"""What happens in the sessions, read once and told to every open page.

One look at the store serves all pages. A page's queue is bounded: one that does not keep up loses
it and is told to start again from the transcript, so it costs a fixed amount of memory and nobody
waits for it.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from clawbot.errors import StoreUnavailable
from clawbot.ports import Clock, Store, Transaction
from clawbot.store import events, views
from clawbot.store.topics import EVENTS
from clawbot.web.markdown import Renderer
from clawbot.web.shown import Json, running_json, session_json

log = structlog.get_logger(__name__)

LOOK_AGAIN_S = 1.0
LEAST_INTERVAL_S = 0.1
QUEUED_CHANGES = 256
EVENTS_PER_LOOK = 200

Mark: TypeAlias = "tuple[str, int, int]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happened in one session. has_gap: more than is told; read the transcript again."""

    session: views.SessionView
    events: tuple[events.Event, ...]
    head: int
    has_gap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One snapshot: what changed since a cursor, and the open turns of the watched sessions.

    is_foreign: the cursor came from another database (it stands behind a session's newest event).
    """

    changes: tuple[Change, ...]
    cursor: dict[str, int]
    running: Mapping[str, views.RunningView]
    is_foreign: bool = False


def look(tx: Transaction, cursor: Mapping[str, int], watched: Iterable[str]) -> Look:
    """The unit that reads on from a cursor."""
    heads = events.heads(tx)
    strange = {key for key, seq in cursor.items() if seq > heads.get(key, 0)}
    known = {key: seq for key, seq in cursor.items() if key not in strange}
    page = events.since(tx, known, limit=EVENTS_PER_LOOK)
    happened: dict[str, list[events.Event]] = {}
    for event in page.events:
        happened.setdefault(event.session_key, []).append(event)
    shown = views.session_views(tx, keys=happened) if happened else []
    changes = tuple(
        Change(
            session=view,
            events=tuple(happened[view.key]),
            head=page.cursor[view.key],
            has_gap=view.key in page.has_gap,
        )
        for view in shown
    )
    return Look(
        changes=changes,
        cursor=page.cursor,
        running=views.running(tx, list(watched)),
        is_foreign=bool(strange),
    )


class Subscription:
    """One open page: what it must still be told."""

    def __init__(self, watched: str | None, cursor: Mapping[str, int]) -> None:
        self.watched = watched
        self.wake = asyncio.Event()
        self.is_closing = False
        self._cursor = dict(cursor)
        self._changes: deque[str] = deque()
        self._has_lost = False
        self._running: Mark | None = None
        self._draft: str | None = None

    def tell(self, seen: Look, drafts: Mapping[str, Json]) -> None:
        """Queue what is new to this page; never blocks."""
        if seen.is_foreign:
            self._cursor = dict(seen.cursor)
            self._has_lost = True
        for change in seen.changes:
            self._tell_change(change)
        current = seen.running.get(self.watched or "")
        mark = None if current is None else _mark(current)
        if mark != self._running:
            # A draft that was not sent yet is replaced, and dropped when its turn has ended.
            self._running = mark
            draft = None if current is None else drafts[self.watched or ""]
            self._draft = _message("draft", {"session": self.watched, "running": draft})
        if self._changes or self._has_lost or self._draft:
            self.wake.set()

    def _tell_change(self, change: Change) -> None:
        key = change.session.key
        known = self._cursor.get(key, 0)
        fresh = [event for event in change.events if event.seq > known]
        if not fresh and not change.has_gap:
            return
        self._cursor[key] = change.head
        if self._has_lost:
            return
        if len(self._changes) >= QUEUED_CHANGES:
            self._changes.clear()
            self._has_lost = True
            return
        body: Json = {
            "session": session_json(change.session),
            "events": [{"seq": one.seq, "kind": one.kind} for one in fresh],
            "head": change.head,
            "has_gap": change.has_gap,
        }
        self._changes.append(_message("change", body))

    def close(self) -> None:
        """Let the page go; it connects again when the server is back."""
        self.is_closing = True
        self.wake.set()

    def take(self) -> list[str]:
        """The messages to send now, as server-sent events; a draft after what led to it."""
        self.wake.clear()
        taken = [_message("resync", {})] if self._has_lost else list(self._changes)
        if self._draft is not None:
            taken.append(self._draft)
        self._changes.clear()
        self._has_lost, self._draft = False, None
        return taken


def _mark(view: views.RunningView) -> Mark:
    """What differs when a turn has something new to show."""
    return view.turn, view.rev, view.last_seq


def _message(kind: str, body: Json) -> str:
    return f"event: {kind}\ndata: {json.dumps(body, ensure_ascii=False)}\n\n"


class Feed:
    """Reads on, and tells the open pages."""

    def __init__(self, store: Store, clock: Clock, renderer: Renderer) -> None:
        self._store = store
        self._clock = clock
        self._renderer = renderer
        self._subscriptions: set[Subscription] = set()
        self._lock = asyncio.Lock()
        self._cursor: dict[str, int] | None = None  # none while nobody listens
        self._rendered: dict[str, tuple[Mark, Json]] = {}

    @property
    def count(self) -> int:
        """How many pages are open."""
        return len(self._subscriptions)

    async def run(self) -> None:
        """Tell until cancelled. Rings that come close together are one look."""
        ear = self._store.listen([EVENTS])
        is_down = False
        try:
            while True:
                await ear.wait(LOOK_AGAIN_S)
                try:
                    async with self._lock:
                        await self._look()
                except StoreUnavailable as error:
                    if not is_down:
                        log.warning("feed_without_store", error=str(error))
                    is_down = True
                else:
                    if is_down:
                        log.info("feed_has_store_again")
                    is_down = False
                await self._clock.sleep(LEAST_INTERVAL_S)
        finally:
            ear.close()

    async def subscribe(
        self, watched: str | None, cursor: Mapping[str, int] | None
    ) -> Subscription:
        """Tell what happens after `cursor` (None = from now on), without gap or double.

        The lock keeps looks out until the page has caught up with the feed.
        """
        async with self._lock:
            heads = await self._store.read(events.heads)
            if self._cursor is None:
                self._cursor = heads
            begin = heads if cursor is None else dict(cursor)
            subscription = Subscription(watched, begin)
            seen = await self._store.read(lambda tx: look(tx, begin, [watched] if watched else []))
            subscription.tell(seen, await self._drafts(seen.running))
            self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Tell this page nothing more."""
        self._subscriptions.discard(subscription)

    def close(self) -> None:
        """Let all pages go."""
        for subscription in self._subscriptions:
            subscription.close()

    async def _look(self) -> None:
        if not self._subscriptions:
            self._cursor = None
            return
        cursor = self._cursor or {}
        watched = {one.watched for one in self._subscriptions if one.watched is not None}
        seen = await self._store.read(lambda tx: look(tx, cursor, watched))
        drafts = await self._drafts(seen.running)
        self._cursor = seen.cursor
        for subscription in self._subscriptions:
            subscription.tell(seen, drafts)

    async def _drafts(self, running: Mapping[str, views.RunningView]) -> dict[str, Json]:
        """The open turns as JSON; one that shows nothing new is not rendered again."""
        rendered = self._rendered

        def render() -> dict[str, tuple[Mark, Json]]:
            made = {}
            for key, view in running.items():
                mark = _mark(view)
                known = rendered.get(key)
                if known is None or known[0] != mark:
                    known = mark, running_json(view, self._renderer)
                made[key] = known
            return made

        self._rendered = await asyncio.to_thread(render) if running else {}
        return {key: json for key, (_, json) in self._rendered.items()}
