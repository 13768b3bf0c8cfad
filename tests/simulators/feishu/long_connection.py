"""The long connection: addresses, web sockets, frames, fragments, acknowledgements.

Serves `/ws`; the endpoint call (in the Open API) asks here for an address.
"""

import asyncio
import base64
import binascii
import json
import random
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import WSMsgType, web

from .bell import Bell
from .feed import Delivery, Outcome
from .frames import CONTROL, DATA, BadFrame, Frame
from .tenant import Json

MAX_CONNECTIONS = 50
TOO_MANY = 1000040350
FragmentOrder = Literal["same", "reversed", "lost"]


@dataclass(slots=True, kw_only=True, eq=False)
class Connection:
    """One open web socket."""

    number: int
    socket: web.WebSocketResponse
    request: web.Request
    pings: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True, kw_only=True)
class Refusal:
    """A handshake that is refused."""

    status: int
    message: str
    detail: int = 0
    times: int = 1


class LongConnection:
    """The socket side of Feishu; a `Transport`."""

    def __init__(
        self, bell: Bell, *, ack_timeout_s: float, connection_wait_s: float, seed: int
    ) -> None:
        self._bell = bell
        self._ack_timeout_s = ack_timeout_s
        self._connection_wait_s = connection_wait_s
        self._random = random.Random(seed)  # noqa: S311  # the choice must repeat
        self._tickets: set[str] = set()
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._opened = 0
        self.connections: list[Connection] = []
        self.client_config: Json = {
            "ReconnectCount": -1,
            "ReconnectInterval": 120,
            "ReconnectNonce": 30,
            "PingInterval": 120,
        }
        self.pong_payload: bytes | None = None
        self.answers_pings = True
        self.fragment_bytes = 0
        self.fragment_order: FragmentOrder = "same"
        self.refusals: list[Refusal] = []
        self.junk: list[bytes] = []
        self.biz_rts: list[int] = []

    @property
    def opened(self) -> int:
        """How many connections there have been."""
        return self._opened

    def new_url(self, base_ws_url: str) -> str:
        """An address with a fresh ticket."""
        ticket = uuid.uuid4().hex
        self._tickets.add(ticket)
        return f"{base_ws_url}/ws?device_id={len(self._tickets)}&service_id=7&ticket={ticket}"

    def expire_tickets(self) -> None:
        """Make every unused ticket stale."""
        self._tickets.clear()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """`GET /ws`: refuse, or speak frames until it closes."""
        if (refused := self._refused(request)) is not None:
            self._bell.ring()
            return refused
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        self._opened += 1
        connection = Connection(number=self._opened, socket=socket, request=request)
        self.connections.append(connection)
        self._bell.ring()
        try:
            async for message in socket:
                if message.type is WSMsgType.BINARY:
                    await self._received(connection, message.data)
        finally:
            self.connections.remove(connection)
            connection.closed.set()
            self._bell.ring()
        return socket

    async def attempt(self, delivery: Delivery) -> Outcome:
        """Send one event to a connection by chance and wait for the frame that comes back."""
        try:
            connection = await self._bell.until(
                self._some_connection,
                timeout_s=self._connection_wait_s,
                what=lambda: "a long connection",
            )
        except TimeoutError:
            return Outcome(acked=False, reason="no_connection")
        message_id = uuid.uuid4().hex
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[message_id] = answered
        delivery.attempts += 1
        self._bell.ring()
        payload = delivery.raw or json.dumps(delivery.payload).encode()
        closing: asyncio.Future[Any] = asyncio.create_task(connection.closed.wait())
        try:
            await self._send(connection, message_id, payload)
            await asyncio.wait(
                (answered, closing),
                timeout=self._ack_timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        except ConnectionError:
            return Outcome(acked=False, reason="connection_failed")
        finally:
            closing.cancel()
            del self._waiting[message_id]
        if not answered.done():
            return Outcome(
                acked=False, reason="closed" if connection.closed.is_set() else "timeout"
            )
        answer = answered.result()
        if answer.get("code") == 200:
            return Outcome(acked=True, answer=_data(answer))
        return Outcome(acked=False, reason=f"code {answer.get('code')}")

    async def send_raw(self, data: bytes) -> None:
        """Send any binary message, a frame or not, on every connection."""
        for connection in list(self.connections):
            with suppress(ConnectionError):  # the client was quicker and has left
                await connection.socket.send_bytes(data)

    async def send_pong(self, payload: bytes) -> None:
        """Send a pong that nobody asked for, with this payload, on every connection."""
        frame = Frame(method=CONTROL, headers={"type": "pong"}, payload=payload)
        await self.send_raw(frame.encode())

    async def close_connections(self, code: int = 1000) -> None:
        """Close with a close frame."""
        for connection in list(self.connections):
            await connection.socket.close(code=code)

    def drop_connections(self) -> None:
        """Cut every connection without a close frame."""
        for connection in list(self.connections):
            if connection.request.transport is not None:
                connection.request.transport.abort()

    def _refused(self, request: web.Request) -> web.Response | None:
        refusal = next(iter(self.refusals), None)
        if refusal is not None:
            refusal.times -= 1
            if refusal.times == 0:
                self.refusals.remove(refusal)
        elif len(self.connections) >= MAX_CONNECTIONS:
            refusal = Refusal(status=514, message="too many connections", detail=TOO_MANY)
        elif request.query.get("ticket", "") not in self._tickets:
            refusal = Refusal(status=514, message="bad ticket", detail=1000040345)
        else:
            self._tickets.discard(request.query["ticket"])
            return None
        headers = {"Handshake-Status": str(refusal.status), "Handshake-Msg": refusal.message}
        if refusal.detail:
            headers["Handshake-Autherrcode"] = str(refusal.detail)
        return web.Response(status=400, headers=headers)

    def _some_connection(self) -> Connection | None:
        return self._random.choice(self.connections) if self.connections else None

    async def _send(self, connection: Connection, message_id: str, payload: bytes) -> None:
        size = self.fragment_bytes or len(payload) or 1
        parts = [payload[place : place + size] for place in range(0, len(payload), size)] or [b""]
        numbered = list(enumerate(parts))
        if self.fragment_order == "reversed":
            numbered.reverse()
        elif self.fragment_order == "lost":
            self.fragment_order = "same"
            numbered = numbered[1:]
        for number, part in numbered:
            headers = {
                "type": "event",
                "message_id": message_id,
                "trace_id": f"trace-{message_id}",
                "sum": str(len(parts)),
                "seq": str(number),
            }
            frame = Frame(method=DATA, service=7, headers=headers, payload=part, log_id=1)
            await connection.socket.send_bytes(frame.encode())

    async def _received(self, connection: Connection, data: bytes) -> None:
        try:
            frame = Frame.decode(data)
        except BadFrame:
            self.junk.append(data)
            return
        if frame.method == CONTROL and frame.headers.get("type") == "ping":
            connection.pings += 1
            self._bell.ring()
            if self.answers_pings:
                payload = self.pong_payload
                if payload is None:
                    payload = json.dumps(self.client_config).encode()
                pong = Frame(method=CONTROL, headers={"type": "pong"}, payload=payload)
                await connection.socket.send_bytes(pong.encode())
            return
        self._acknowledged(frame, data)

    def _acknowledged(self, frame: Frame, data: bytes) -> None:
        waiting = self._waiting.get(frame.headers.get("message_id", ""))
        try:
            answer = json.loads(frame.payload)
            self.biz_rts.append(int(frame.headers["biz_rt"]))
        except (ValueError, KeyError):
            self.junk.append(data)
            return
        if waiting is None or not isinstance(answer, dict):
            self.junk.append(data)
        elif not waiting.done():
            waiting.set_result(answer)
        self._bell.ring()


def _data(answer: Json) -> object:
    """The body of a callback's answer."""
    try:
        return json.loads(base64.b64decode(answer.get("data") or ""))
    except (ValueError, binascii.Error):
        return None
