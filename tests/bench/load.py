"""The chat platform of a measurement: sends events, takes posts, and reads the clock.

It speaks as much of Slack's signed Events API and Web API as a message needs and keeps nothing, so
that little of the measured time is its own. The simulator in `tests.simulators` is for correctness.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import aiohttp
from aiohttp import web

SIGNING_SECRET = "bench-signing-secret"
BOT_TOKEN = "xoxb-bench"
# As many posts as a channel takes at once; more would measure the pace that the platform asks for.
TURNS_PER_CHAT = 4
ANSWER_TIMEOUT_S = 60.0
_BOT = {"user_id": "U0BENCHBOT", "bot_id": "B0BENCH", "team_id": "T0BENCH", "user": "clawbot"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much to send: people who each write their next message when the last one is answered."""

    people: int
    messages: int


@dataclass(slots=True, kw_only=True)
class Measured:
    """Seconds of each message: until it was acknowledged, and until its answer was posted."""

    wall_s: float = 0.0
    acked_s: list[float] = field(default_factory=list)
    answered_s: list[float] = field(default_factory=list)


class Platform:
    """Both sides of the platform: the Web API that is called, and the people who write."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._awaited: dict[str, asyncio.Future[tuple[float, str]]] = {}
        self._numbers = itertools.count(1)
        self.url = ""

    # -- what is called ----------------------------------------------------------------------------

    async def serve(self, request: web.Request) -> web.Response:
        """Answer a Web API call; a post ends the wait of the chat that it goes to."""
        method = request.match_info["method"]
        text = await request.text()
        is_json = text.startswith("{")
        given: dict[str, Any] = dict(request.query)
        given |= json.loads(text) if is_json else dict(parse_qsl(text))
        answer: dict[str, Any] = {"ok": True}
        if method == "chat.postMessage":
            number = next(self._numbers)
            answer |= {"channel": given["channel"], "ts": f"1700000000.{number:06}"}
            waiting = self._awaited.get(given["channel"])
            if waiting is not None and not waiting.done():
                waiting.set_result((time.perf_counter(), given["text"]))
        elif method == "auth.test":
            answer |= _BOT
        elif method == "users.info":
            answer["user"] = {"id": given["user"], "name": f"user-{given['user']}", "profile": {}}
        else:
            answer = {"ok": False, "error": "unknown_method"}
        return web.json_response(answer)

    # -- who writes --------------------------------------------------------------------------------

    async def measure(self, target: str, load: Load) -> Measured:
        """Let people write to `target` until all messages are answered."""
        measured = Measured()
        shares = [load.messages // load.people] * load.people
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for person, share in enumerate(shares):
                group.create_task(self._person(target, f"U{person:04}", share, measured))
        measured.wall_s = time.perf_counter() - started
        return measured

    async def _person(self, target: str, user: str, messages: int, measured: Measured) -> None:
        chat = ""
        for number in range(messages):
            if number % TURNS_PER_CHAT == 0:
                chat = f"D{next(self._numbers):09}"
            await self._exchange(target, user, chat, measured)

    async def _exchange(self, target: str, user: str, chat: str, measured: Measured) -> None:
        """One message and its answer, which must be its echo."""
        number = next(self._numbers)
        words = f"message {number} of {user}"
        body = json.dumps(_event(user, chat, number, words)).encode()
        answered = self._awaited[chat] = asyncio.get_running_loop().create_future()
        started = time.perf_counter()
        async with self._session.post(target, data=body, headers=_headers(body)) as response:
            if response.status != 200:
                raise RuntimeError(f"{target}: an event was answered {response.status}")
        measured.acked_s.append(time.perf_counter() - started)
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            at, text = await answered
        if text != f"echo: {words}":
            raise RuntimeError(f"{target}: wrong answer {text!r} to {words!r}")
        measured.answered_s.append(at - started)


def _event(user: str, chat: str, number: int, words: str) -> dict[str, Any]:
    ts = f"{int(time.time())}.{number:06}"
    return {
        "type": "event_callback",
        "team_id": _BOT["team_id"],
        "event_id": f"Ev{number:010}",
        "event_time": int(time.time()),
        "event": {
            "type": "message",
            "channel_type": "im",
            "channel": chat,
            "user": user,
            "text": words,
            "ts": ts,
            "event_ts": ts,
            "client_msg_id": f"{number:032x}",
        },
    }


def _headers(body: bytes) -> dict[str, str]:
    stamp = str(int(time.time()))
    base = b"v0:" + stamp.encode() + b":" + body
    digest = hmac.new(SIGNING_SECRET.encode(), base, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "X-Slack-Request-Timestamp": stamp,
        "X-Slack-Signature": f"v0={digest}",
    }


@asynccontextmanager
async def open_platform() -> AsyncIterator[Platform]:
    """Serve the Web API on a free port until the end of the block."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        platform = Platform(session)
        app = web.Application()
        app.router.add_post("/api/{method}", platform.serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
            platform.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield platform
        finally:
            await runner.cleanup()
