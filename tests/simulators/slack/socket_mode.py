"""Socket Mode: tickets, the web sockets, envelopes, acks and disconnects.

Serves `/link`; apps.connections.open (in the Web API) asks here for a ticketed URL.
"""

import asyncio
import json
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import WSMessage, WSMsgType, web

from .feed import Delivery, Feed, Outcome
from .waiting import Bell
from .workspace import Json

MAX_CONNECTIONS = 10
Reason = Literal["warning", "refresh_requested", "link_disabled", "too_many_websockets"]


@dataclass(slots=True, kw_only=True, eq=False)
class Connection:
    """One open web socket."""

    number: int
    socket: web.WebSocketResponse
    request: web.Request
    draining: bool = False
    closed: asyncio.Event = field(default_factory=asyncio.Event)


class SocketMode:
    """The socket side of Slack; a `Transport`."""

    def __init__(
        self,
        feed: Feed,
        bell: Bell,
        *,
        app_id: str,
        ack_timeout_s: float,
        connection_wait_s: float,
        ping_interval_s: float = 10.0,
    ) -> None:
        self._feed = feed
        self._bell = bell
        self._app_id = app_id
        self._ack_timeout_s = ack_timeout_s
        self._connection_wait_s = connection_wait_s
        self._ping_interval_s = ping_interval_s
        self._tickets: set[str] = set()
        self._envelopes: dict[str, Delivery] = {}
        self._sending = asyncio.Lock()
        self._turn = 0
        self._opened = 0
        self.connections: list[Connection] = []
        self.answers_pings = True
        self.refused_tickets = 0
        self.junk: list[str] = []

    @property
    def opened(self) -> int:
        """How many connections there have been."""
        return self._opened

    def new_url(self, base_ws_url: str) -> str:
        """A URL with a fresh single-use ticket."""
        ticket = str(uuid.uuid4())
        self._tickets.add(ticket)
        return f"{base_ws_url}/link?ticket={ticket}&app_id={self._app_id}"

    def expire_tickets(self) -> None:
        """Make every unused ticket stale."""
        self._tickets.clear()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """`GET /link`: refuse a used or unknown ticket, else speak Socket Mode until it closes."""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            self.refused_tickets += 1
            self._bell.ring()
            return web.Response(status=403, text="stale ticket")
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse(autoping=False, max_msg_size=0)
        await socket.prepare(request)
        if len(self.connections) >= MAX_CONNECTIONS:
            await socket.send_json(self._disconnect_frame("too_many_websockets"))
            await socket.close()
            return socket
        self._opened += 1
        connection = Connection(number=self._opened, socket=socket, request=request)
        self.connections.append(connection)
        try:
            await socket.send_json(self._hello())
            self._bell.ring()
            self._feed.spawn(self._ping(connection))
            async for message in socket:
                await self._received(connection, message)
        finally:
            self.connections.remove(connection)
            connection.closed.set()
            self._bell.ring()
        return socket

    async def attempt(self, delivery: Delivery, number: int, reason: str) -> Outcome:
        """Send one envelope to the connection whose turn it is and wait for the ack."""
        envelope_id = str(uuid.uuid4())
        async with self._sending:
            try:
                connection = await self._bell.until(
                    self._next_connection,
                    timeout_s=self._connection_wait_s,
                    what=lambda: "a Socket Mode connection",
                )
            except TimeoutError:
                return Outcome(acked=False, reason="no_connection", retry=False)
            self._envelopes[envelope_id] = delivery
            delivery.attempts += 1
            delivery.first_sent.set()
            try:
                await connection.socket.send_json(
                    self._envelope(envelope_id, delivery, number, reason)
                )
            except ConnectionError:
                return Outcome(acked=False, reason="connection_failed")
        settled = asyncio.create_task(delivery.settled.wait())
        closed = asyncio.create_task(connection.closed.wait())
        try:
            await asyncio.wait(
                {settled, closed},
                timeout=self._ack_timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            settled.cancel()
            closed.cancel()
        return Outcome(acked=delivery.state == "acked", reason="timeout")

    async def send_raw(self, frame: str | bytes) -> None:
        """Send any text frame, valid or not, to every connection."""
        raw = frame.encode() if isinstance(frame, str) else frame
        for connection in list(self.connections):
            with suppress(ConnectionError):  # the client was quicker and has left
                await connection.socket.send_frame(raw, WSMsgType.TEXT)

    async def disconnect(self, reason: Reason, *, close: bool = False) -> None:
        """Send a disconnect frame to every connection; with `close` close them right after.

        No event goes to a connection that was told so.
        """
        for connection in list(self.connections):
            connection.draining = True
            with suppress(ConnectionError):
                await connection.socket.send_json(self._disconnect_frame(reason))
            if close:
                await connection.socket.close()

    async def close_connections(self, code: int = 1000) -> None:
        """Close with a close frame, but no disconnect frame before it."""
        for connection in list(self.connections):
            await connection.socket.close(code=code)

    def drop_connections(self) -> None:
        """Cut every connection without a close frame."""
        for connection in list(self.connections):
            connection.draining = True
            if connection.request.transport is not None:
                connection.request.transport.abort()

    def _next_connection(self) -> Connection | None:
        ready = [each for each in self.connections if not each.draining]
        if not ready:
            return None
        self._turn += 1
        return ready[self._turn % len(ready)]

    async def _received(self, connection: Connection, message: WSMessage) -> None:
        if message.type is WSMsgType.PING:
            if self.answers_pings:
                await connection.socket.pong(message.data)
            return
        if message.type is not WSMsgType.TEXT:
            return
        try:
            frame = json.loads(message.data)
            delivery = self._envelopes[frame["envelope_id"]]
        except (json.JSONDecodeError, KeyError, TypeError):
            self.junk.append(message.data)
            self._bell.ring()
            return
        self._feed.ack(delivery, frame.get("payload"))

    async def _ping(self, connection: Connection) -> None:
        while not connection.closed.is_set():
            await asyncio.sleep(self._ping_interval_s)
            if not connection.socket.closed:
                try:
                    await connection.socket.ping(b"Ping from applink-1")
                except ConnectionError:
                    return

    def _hello(self) -> Json:
        return {
            "type": "hello",
            "num_connections": len(self.connections),
            "debug_info": {
                "host": "applink-1",
                "build_number": 1,
                "approximate_connection_time": 18060,
            },
            "connection_info": {"app_id": self._app_id},
        }

    @staticmethod
    def _disconnect_frame(reason: Reason) -> Json:
        return {"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-1"}}

    @staticmethod
    def _envelope(envelope_id: str, delivery: Delivery, number: int, reason: str) -> Json:
        envelope: Json = {
            "envelope_id": envelope_id,
            "payload": delivery.payload,
            "type": delivery.kind,
            "accepts_response_payload": delivery.kind != "events_api",
        }
        if delivery.kind == "events_api":
            envelope |= {"retry_attempt": number, "retry_reason": reason}
        return envelope
