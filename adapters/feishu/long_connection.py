"""The long connection: one web socket after the other, each made anew.

Only the frames are the SDK's. Its client runs handlers on its own loop and blocks them, asks for
the address without a time-out, and has two states in which it lives on and receives nothing: after
a refusal while it reconnects, and after a client configuration with missing keys (lark-oapi 1.7.5).
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import structlog

from adapters.feishu import frames
from adapters.feishu.api import FeishuApi
from adapters.feishu.failures import AUTH_CODES
from adapters.feishu.fragments import Fragments
from adapters.health import Health
from adapters.payload import Json, number_of, parse
from clawbot.errors import ChannelBroken, NotSent, Rejected, SendError

log = structlog.get_logger(__name__)

HandleEvent = Callable[[bytes], Awaitable[Json]]
"""Takes an event's payload, in order of arrival; returns the payload of the frame to send back."""

_RETRIED_CODES = frozenset({"1", "1000040350", "514"})
"""Busy, too many connections, and a failed check of the ticket: it may go better next time."""

_FATAL_STATUS = "403"
_TOO_MANY = "1000040350"
_MAX_IN_FLIGHT = 1000
_MAX_FRAME_BYTES = 16 * 1024 * 1024
_PING_BOUNDS_S = (5.0, 300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How patient the connection is, in seconds.

    ping_s: how often we ping until Feishu says otherwise. silence_s: beyond the ping interval, how
    long nothing may come before the connection counts as dead. steady_s: a connection that lived
    this long ends the series of failures that spaces out attempts, from backoff_s to max_backoff_s.
    least_ping_s: no interval below is taken from Feishu.
    """

    connect_s: float = 10.0
    ping_s: float = 120.0
    least_ping_s: float = _PING_BOUNDS_S[0]
    socket_ping_s: float = 20.0
    silence_s: float = 60.0
    drain_s: float = 2.0
    steady_s: float = 10.0
    backoff_s: float = 0.5
    max_backoff_s: float = 60.0


class LongConnection:
    """Keeps one connection until cancelled."""

    def __init__(
        self, api: FeishuApi, health: Health, handle: HandleEvent, timings: Timings
    ) -> None:
        self._api = api
        self._health = health
        self._handle = handle
        self._timings = timings

    async def run(self) -> None:
        """Connect again and again; raises ChannelBroken when Feishu refuses for good."""
        failures = 0
        while True:
            began = asyncio.get_running_loop().time()
            reason, pause_s = await self._connect_once()
            lived_s = asyncio.get_running_loop().time() - began
            failures = 0 if lived_s >= self._timings.steady_s else failures + 1
            self._health.lost(reason)
            await asyncio.sleep(max(pause_s, self._backoff_s(failures)))

    def _backoff_s(self, failures: int) -> float:
        """After a connection that lived a random moment, for all clients lose theirs at once."""
        doubled = self._timings.backoff_s * 2.0 ** min(max(failures, 1), 16)
        full_s = min(doubled, self._timings.max_backoff_s)
        return full_s * random.uniform(0.2, 1.0)  # noqa: S311  # spreads load, no secret

    async def _connect_once(self) -> tuple[str, float]:
        """One connection from address to end: why it ended, and how long to stay away."""
        try:
            endpoint = await self._api.open_connection()
        except Rejected as error:
            if error.code not in _RETRIED_CODES:
                raise ChannelBroken(_refusal(error.code, str(error))) from error
            return str(error), 0.0
        except NotSent as error:
            return str(error), error.retry_after_s or 0.0
        except SendError as error:
            return str(error), 0.0
        connection = _Connection(self._api, self._health, self._handle, self._timings)
        connection.configure(endpoint.config)
        return await connection.run(endpoint.url)


class _Connection:
    """One web socket and the events under way on it."""

    def __init__(
        self, api: FeishuApi, health: Health, handle: HandleEvent, timings: Timings
    ) -> None:
        self._api = api
        self._health = health
        self._handle = handle
        self._timings = timings
        self._ping_s = timings.ping_s
        self._fragments = Fragments()
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_frame_at = 0.0

    def configure(self, config: Json) -> None:
        """Take over how often to ping, if Feishu says something sensible; all else is ours."""
        wanted = number_of(config.get("PingInterval"))
        if wanted is not None and wanted > 0:
            self._ping_s = min(max(float(wanted), self._timings.least_ping_s), _PING_BOUNDS_S[1])

    async def run(self, url: str) -> tuple[str, float]:
        """Serve until the connection ends: why, and how long to stay away."""
        service_id = number_of(next(iter(parse_qs(urlsplit(url).query).get("service_id", [])), ""))
        try:
            async with asyncio.timeout(self._timings.connect_s):
                socket = await self._api.session.ws_connect(
                    url, heartbeat=self._timings.socket_ping_s, max_msg_size=_MAX_FRAME_BYTES
                )
        except aiohttp.WSServerHandshakeError as error:
            return self._handshake_refused(error)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            return f"no connection: {type(error).__name__}", 0.0
        async with socket:
            self._health.learn(service_id=str(service_id or 0))
            self._health.up()
            return await self._serve(socket, service_id or 0), 0.0

    def _handshake_refused(self, error: aiohttp.WSServerHandshakeError) -> tuple[str, float]:
        """Feishu says why in headers: 403 for good; 514, with the reason in a third header."""
        headers: Mapping[str, str] = error.headers or {}
        status = headers.get("Handshake-Status", str(error.status))
        detail = headers.get("Handshake-Autherrcode", "")
        told = f"handshake refused: {status} {detail} {headers.get('Handshake-Msg', '')}".strip()
        if status == _FATAL_STATUS:
            raise ChannelBroken(_refusal(status, told)) from error
        return told, self._timings.max_backoff_s / 2 if detail == _TOO_MANY else 0.0

    async def _serve(self, socket: aiohttp.ClientWebSocketResponse, service_id: int) -> str:
        self._last_frame_at = asyncio.get_running_loop().time()
        pinging = asyncio.create_task(self._ping(socket, service_id), name="feishu ping")
        try:
            async for message in socket:
                self._last_frame_at = asyncio.get_running_loop().time()
                if message.type is aiohttp.WSMsgType.BINARY:
                    self._on_frame(socket, message.data)
            return (
                "no sign of life" if pinging.done() else f"closed by Feishu ({socket.close_code})"
            )
        finally:
            pinging.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._timings.drain_s)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(pinging, *self._tasks, return_exceptions=True)

    async def _ping(self, socket: aiohttp.ClientWebSocketResponse, service_id: int) -> None:
        """Ping as often as Feishu wants; close a connection on which nothing comes back."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await socket.send_bytes(frames.ping(service_id))
            except (aiohttp.ClientError, ConnectionError):
                return  # the reader sees it too
            await asyncio.sleep(self._ping_s)
            if loop.time() - self._last_frame_at > self._ping_s + self._timings.silence_s:
                log.warning("feishu_silent", silent_s=loop.time() - self._last_frame_at)
                break
        await socket.close()

    def _on_frame(self, socket: aiohttp.ClientWebSocketResponse, data: bytes) -> None:
        """Called for each frame, in order: must not wait."""
        frame = frames.decode(data)
        if frame is None:
            log.warning("feishu_frame_unreadable", size=len(data))
            return
        headers = frames.headers_of(frame)
        if frame.method == frames.CONTROL:
            if headers.get("type") == "pong":
                self.configure(parse(bytes(frame.payload)) or {})
            return
        payload = self._whole(headers, bytes(frame.payload))
        # Not acknowledged above that number: Feishu sends it again.
        if payload is None or len(self._tasks) >= _MAX_IN_FLIGHT:
            return
        task = asyncio.create_task(self._answer(socket, frame, payload), name="feishu event")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _whole(self, headers: dict[str, str], payload: bytes) -> bytes | None:
        total, number = number_of(headers.get("sum")) or 1, number_of(headers.get("seq")) or 0
        if total <= 1:
            return payload
        now = asyncio.get_running_loop().time()
        return self._fragments.add(headers.get("message_id", ""), total, number, payload, now)

    async def _answer(
        self, socket: aiohttp.ClientWebSocketResponse, frame: Any, payload: bytes
    ) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await self._handle(payload)
        took_ms = round((loop.time() - began) * 1000)
        data = frames.acknowledge(frame, json.dumps(answer).encode(), took_ms)
        try:
            await socket.send_bytes(data)
        except (aiohttp.ClientError, ConnectionError) as error:
            log.info("feishu_ack_lost", error=repr(error))  # it comes again and is known by then


def _refusal(code: str, told: str) -> str:
    """What an admin must do about a refusal."""
    if code in AUTH_CODES or code == "1000040344":
        return f"Feishu refuses app_id or app_secret ({told}); copy both from the developer console"
    return (
        f"Feishu refuses a long connection ({told}); it is for custom apps only: publish the app, "
        "choose long connection under Events & Callbacks, or set mode: webhook"
    )
