"""The event stream of an open page: server-sent events in the answer to POST /api/events.

    change   {session, events: [{seq, kind}], head, has_gap}   something happened in a session;
             `session` as in the list; `head` is its new place in the reader's cursor;
             has_gap: more happened than is told, read its transcript again
    draft    {session, running}   the open turn of the shown session grew, or ended (null); a `seq`
             greater than the transcript's says that there is more to read there first
    resync   {}   the reader was too slow or its cursor is not ours: read everything again
    : (a comment every HEARTBEAT_S)   the connection lives

The reader keeps its own cursor (session key -> head), begins with the one of GET /api/sessions, and
sends it when it connects again. It is a POST, so that the browser names the page that asks, and a
cursor of any length fits.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web

from clawbot.web.bodies import Listening, read_body, read_session
from clawbot.web.feed import Feed, Subscription
from clawbot.web.problems import Problem

HEARTBEAT_S = 15.0
LOOK_FOR_END_S = 1.0
WRITE_TIMEOUT_S = 20.0
MOST_STREAMS = 200


class Stream:
    """Serves the feed to open pages."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def routes(self) -> list[web.RouteDef]:
        """What is served where."""
        return [web.post("/api/events", self.events)]

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Serve one page until it goes away or the server stops."""
        body = await read_body(request, Listening)
        watched = None if body.session is None else str(read_session(body.session))
        if self._feed.count >= MOST_STREAMS:
            raise Problem(
                503,
                "too_many_pages",
                f"{MOST_STREAMS} pages are open already. Close some of them.",
                {"Retry-After": "10"},
            )
        subscription = await self._feed.subscribe(watched, body.cursor)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )
        try:
            with suppress(ConnectionResetError):
                await response.prepare(request)
                await self._serve(request, response, subscription)
        except TimeoutError:
            # It reads nothing; an orderly end would wait for it as well.
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._feed.unsubscribe(subscription)
        return response

    async def _serve(
        self, request: web.Request, response: web.StreamResponse, subscription: Subscription
    ) -> None:
        await _write(response, ": connected\n\n")
        silent_s = 0.0
        while not subscription.is_closing and request.transport is not None:
            try:
                async with asyncio.timeout(LOOK_FOR_END_S):
                    await subscription.wake.wait()
            except TimeoutError:
                silent_s += LOOK_FOR_END_S
                if silent_s < HEARTBEAT_S:
                    continue
                await _write(response, ":\n\n")
            else:
                await _write(response, "".join(subscription.take()))
            silent_s = 0.0


async def _write(response: web.StreamResponse, text: str) -> None:
    async with asyncio.timeout(WRITE_TIMEOUT_S):
        await response.write(text.encode())
