"""Sending one reply over HTTP: delta by delta, through its gate, into its fault."""

import asyncio
import socket
import struct

from aiohttp import web

from .answer import BreakOff, Delta, Refusal, deltas
from .script import Hold
from .wire import Turn, Wire

_REQUEST_ID = "req_simulated"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: close sends RST


class Transmission:
    """One answer on its way; used once."""

    def __init__(self, wire: Wire, turn: Turn, hold: Hold | None) -> None:
        self._wire = wire
        self._turn = turn
        self._hold = hold
        self._break_off = turn.reply.break_off
        self._deltas: list[Delta] = list(deltas(turn.reply, turn.call_ids))

    async def send(self, request: web.Request) -> web.StreamResponse:
        """Send the whole reply; returns when it is out or broken off."""
        early = self._break_off is not None and self._break_off.after is None
        if early and await self._is_silenced(request):
            return web.Response()  # the connection is gone: nobody reads it
        if not self._turn.request.streamed:
            return await self._send_whole(request)
        return await self._send_stream(request)

    async def _send_whole(self, request: web.Request) -> web.StreamResponse:
        if self._hold is not None and self._hold.after is not None:
            await self._hold.gate.pass_through()
        if self._break_off is not None:
            self._turn.request.outcome = "broken_off"
            await self._is_silenced(request)
            return web.Response(body=b"", content_type="application/json")
        if self._turn.reply.delay_s:
            await asyncio.sleep(self._turn.reply.delay_s)
        return web.json_response(self._wire.whole(self._turn))

    async def _send_stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                "x-request-id": self._turn.id,
                "request-id": self._turn.id,
            }
        )
        await response.prepare(request)
        stream = self._wire.stream(self._turn)
        waiting = stream.opening()  # leaves with the next frames, unless something stops between
        for position, delta in enumerate([*self._deltas, None]):
            if self._stops_at(position):
                await response.write(waiting)
                waiting = b""
                if await self._stop(position, request, response):
                    return response
            if delta is None:
                break
            if self._turn.reply.delay_s:
                await asyncio.sleep(self._turn.reply.delay_s)
            if position:
                await _write(response, waiting)
                waiting = b""
            waiting += stream.delta(delta)
        await _write(response, waiting + stream.closing())
        await response.write_eof()
        return response

    def _stops_at(self, position: int) -> bool:
        return self._at(self._hold, position) or self._at(self._break_off, position)

    def _at(self, stop: Hold | BreakOff | None, position: int) -> bool:
        """Whether a gate or fault stands here; one beyond the last delta stands before the end."""
        if stop is None:
            return False
        return min(stop.after or 0, len(self._deltas)) == position and (
            stop.after is not None or isinstance(stop, BreakOff)
        )

    async def _stop(
        self, position: int, request: web.Request, response: web.StreamResponse
    ) -> bool:
        """Pass the gate and meet the fault of this place; True when the reply ended here."""
        if self._hold is not None and self._at(self._hold, position):
            await self._hold.gate.pass_through()
        if self._break_off is None or not self._at(self._break_off, position):
            return False
        self._turn.request.outcome = "broken_off"
        if await self._is_silenced(request):
            return True
        if self._break_off.how == "error":
            body = self._wire.error(self._break_off.error_kind, "", self._turn.id)
            await response.write(self._wire.error_frame(body))
        await response.write_eof()
        return True

    async def _is_silenced(self, request: web.Request) -> bool:
        """Hang for good, or reset the connection, if that is the fault; True after a reset."""
        if self._break_off is None or self._break_off.how not in {"hang", "reset"}:
            return False
        if self._break_off.how == "hang":
            self._turn.request.outcome = "open"
            await asyncio.Event().wait()  # until the client goes away or the simulator stops
        self._turn.request.outcome = "broken_off"
        _reset(request)
        return True


def _reset(request: web.Request) -> None:
    if request.transport is not None:
        raw = request.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        request.transport.abort()


async def _write(response: web.StreamResponse, data: bytes) -> None:
    if data:
        await response.write(data)


def refusal_response(wire: Wire, refusal: Refusal) -> web.Response:
    """The HTTP response of a refusal, in the provider's shape unless it brings its own."""
    headers = {
        "x-request-id": "req_simulated",
        "request-id": "req_simulated",
        **refusal.headers,
    }
    if refusal.retry_after is not None:
        headers["Retry-After"] = f"{refusal.retry_after:g}"
    if isinstance(refusal.body, str):
        return web.Response(
            status=refusal.status, text=refusal.body, content_type="text/html", headers=headers
        )
    body = refusal.body
    if body is None:
        body = wire.error(refusal.error_kind, refusal.message, _REQUEST_ID)
    return web.json_response(body, status=refusal.status, headers=headers)
