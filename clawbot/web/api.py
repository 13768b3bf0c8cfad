"""The API of the page. Everything needs the token; errors are JSON (see `clawbot.web.problems`).

    GET  /api/sessions                        the list: {sessions, cursor, model, is_offline}
    GET  /api/transcript?session=KEY          the newest page: {session, items, older, waiting,
                                              running}; with &before=OLDER the page before it, with
                                              &after=SEQ what was recorded since (`older` set: that
                                              is more than a page, read the newest one), &limit=N
    POST /api/messages {session, text, client_msg_id}
                                              take a message in: {decision, session, is_duplicate}
    POST /api/stop {session}                  stop its turn, withdraw what waits: {had_turn,
                                              withdrawn}
    POST /api/events {cursor, session}        the event stream, see `clawbot.web.stream`

`session` is a session key. A new chat is a key `web:<random id>` of the page's own making; its
first message makes the session. A command (`!help`) is a message and is answered at once.
"""

from __future__ import annotations

import asyncio

import structlog
from aiohttp import web

from clawbot.config import Config
from clawbot.config_sections import OFFLINE_MODEL
from clawbot.intake import admit_for_session
from clawbot.messages import Accepted, ChatType, InboundMessage, Sender
from clawbot.ports import Clock, Store, Transaction
from clawbot.session_key import SessionKey
from clawbot.store import events, inbox, sessions, stops, views
from clawbot.store.stops import Stopped
from clawbot.store.transcript import transcript
from clawbot.text import clean
from clawbot.web.bodies import (
    MOST_ITEMS,
    TEXT_BYTES,
    NewMessage,
    SessionName,
    read_body,
    read_number,
    read_position,
    read_session,
)
from clawbot.web.markdown import Renderer
from clawbot.web.problems import Problem
from clawbot.web.shown import (
    IDENTITY_PREFIX,
    WEB_CHANNEL,
    Json,
    empty_transcript_json,
    session_json,
    transcript_json,
)

log = structlog.get_logger(__name__)

PAGE_ITEMS = 60
WEB_USER = Sender(id="web", name="Web")
"""Whoever knows the token: the page knows no persons."""


class Api:
    """The handlers. They keep nothing between two requests."""

    def __init__(self, config: Config, store: Store, clock: Clock, renderer: Renderer) -> None:
        self._config = config
        self._store = store
        self._clock = clock
        self._renderer = renderer

    def routes(self) -> list[web.RouteDef]:
        """What is served where."""
        return [
            web.get("/api/sessions", self.sessions, allow_head=False),
            web.get("/api/transcript", self.transcript, allow_head=False),
            web.post("/api/messages", self.post_message),
            web.post("/api/stop", self.stop),
        ]

    async def sessions(self, _request: web.Request) -> web.Response:
        """The list, and the cursor of its snapshot: the event stream goes on from there."""
        listed, cursor = await self._store.read(
            lambda tx: (views.session_views(tx), events.heads(tx))
        )
        model = self._config.model_of(WEB_CHANNEL)
        body: Json = {
            "sessions": [session_json(view) for view in listed],
            "cursor": cursor,
            "model": model,
            "is_offline": model == OFFLINE_MODEL,
        }
        return web.json_response(body)

    async def transcript(self, request: web.Request) -> web.Response:
        """A page of a session."""
        query = request.query
        key = read_session(query.get("session"))
        before = read_position(query.get("before"))
        after = read_number("after", query["after"]) if "after" in query else None
        limit = read_number("limit", query.get("limit", str(PAGE_ITEMS)))
        if not 1 <= limit <= MOST_ITEMS:
            raise Problem(400, "bad_query", f"limit: want 1 to {MOST_ITEMS}.")
        if before is not None and after is not None:
            raise Problem(400, "bad_query", "Give before or after, not both.")

        page = await self._store.read(
            lambda tx: transcript(tx, key, before=before, after=after, limit=limit)
        )
        if page is None:
            return web.json_response(empty_transcript_json(key))
        return web.json_response(await asyncio.to_thread(transcript_json, page, self._renderer))

    async def post_message(self, request: web.Request) -> web.Response:
        """Take a message in; when this is answered it is durable."""
        body = await read_body(request, NewMessage)
        key = read_session(body.session)
        text = clean(body.text)
        if not text.strip():
            raise Problem(400, "empty", "The message is empty. Write something.")
        if len(text.encode()) > TEXT_BYTES:
            raise Problem(
                413,
                "too_large",
                f"A message has {TEXT_BYTES // 1024} KiB at most. Send it in pieces, or put the "
                "text into a file of the work directory.",
            )
        now_ms = self._clock.now_ms()
        models, zone = self._config.models_of(WEB_CHANNEL), self._config.time_zone

        def admit(tx: Transaction) -> Accepted:
            message = _message(tx, key, text, body.client_msg_id, now_ms)
            return admit_for_session(tx, message, key, models, now_ms, zone)

        try:
            accepted = await self._store.write(admit)
        except inbox.StoredMeanwhile:
            accepted = await self._store.write(admit)
        log.info(
            "message_accepted",
            channel=WEB_CHANNEL,
            decision=accepted.decision,
            duplicate=accepted.is_duplicate,
            session=accepted.session_key,
            inbox_id=accepted.inbox_id,
        )
        answer: Json = {
            "decision": accepted.decision,
            "session": accepted.session_key,
            "is_duplicate": accepted.is_duplicate,
        }
        return web.json_response(answer)

    async def stop(self, request: web.Request) -> web.Response:
        """Stop a session's turn and withdraw what waits in it."""
        key = read_session((await read_body(request, SessionName)).session)
        now_ms = self._clock.now_ms()

        def stop(tx: Transaction) -> Stopped | None:
            return stops.stop(tx, key, now_ms) if sessions.find(tx, key) is not None else None

        stopped = await self._store.write(stop)
        if stopped is None:
            raise Problem(404, "no_session", "There is no such session yet; nothing to stop.")
        log.info("session_stopped", session=str(key), had_turn=stopped.had_turn)
        answer: Json = {"had_turn": stopped.had_turn, "withdrawn": stopped.withdrawn}
        return web.json_response(answer)


def _message(
    tx: Transaction, key: SessionKey, text: str, client_msg_id: str, now_ms: int
) -> InboundMessage:
    """The page's message. In a group's session it is one voice of several and bears its name."""
    session = sessions.find(tx, key)
    is_group = session is not None and session["chat_type"] == ChatType.GROUP.value
    return InboundMessage(
        channel=WEB_CHANNEL,
        identity=IDENTITY_PREFIX + client_msg_id,
        chat_id=str(key),
        chat_type=ChatType.GROUP if is_group else ChatType.DM,
        sender=WEB_USER,
        text=text,
        raw="",
        mentioned=True,
        command_text=text,
        sent_at_ms=now_ms,
    )
