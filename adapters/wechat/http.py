"""Serving the platform's callbacks, for WeChat and WeCom."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from clawbot.errors import StartupError

_SHUTDOWN_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What a request is answered with.

    on_written: told whether the whole answer went to the peer while it still listened.
    """

    status: int = 200
    body: str = ""
    content_type: str = "text/plain"
    on_written: Callable[[bool], None] | None = None


HandleHttp = Callable[[str, Mapping[str, str], Mapping[str, str], bytes], Awaitable[HttpAnswer]]
"""Answers a request: method, headers, query, raw body."""


class Listening(Protocol):
    """The config keys of a server."""

    @property
    def listen_host(self) -> str:
        """Address."""
        ...

    @property
    def listen_port(self) -> int:
        """Port; 0 = any."""
        ...

    @property
    def path(self) -> str:
        """Path of the callback URL."""
        ...

    @property
    def max_body_bytes(self) -> int:
        """A larger request is refused."""
        ...


class HttpReceiver:
    """Listens for the platform's requests until cancelled."""

    def __init__(self, channel: str, config: Listening, handle: HandleHttp) -> None:
        self._channel = channel
        self._config = config
        self._handle = handle

    async def run(self, on_listening: Callable[[str], None]) -> None:
        """Serve until cancelled; `on_listening` is given the URL. Raises StartupError when the
        port cannot be had.
        """
        app = web.Application(client_max_size=self._config.max_body_bytes)
        app.router.add_route("*", self._config.path, self._serve)
        # A peer that hangs up ends the handler: a held request is of no use any more.
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=_SHUTDOWN_S, handler_cancellation=True
        )
        await runner.setup()
        try:
            host, port = self._config.listen_host, self._config.listen_port
            try:
                await web.TCPSite(runner, host, port).start()
            except OSError as error:
                raise StartupError(
                    f"channel {self._channel}: cannot listen on {host}:{port} "
                    f"({error.strerror or error}); free the port or set another listen_port"
                ) from error
            bound = runner.addresses[0]
            on_listening(f"http://{host}:{bound[1]}{self._config.path}")
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()  # aiohttp answers 413 itself above client_max_size
        answer = await self._handle(request.method, request.headers, request.query, body)
        response = web.Response(
            status=answer.status, text=answer.body, content_type=answer.content_type
        )
        if answer.on_written is None:
            return response
        is_written = False
        try:
            await response.prepare(request)
            await response.write_eof()
            is_written = request.transport is not None and not request.transport.is_closing()
        finally:
            answer.on_written(is_written)
        return response
