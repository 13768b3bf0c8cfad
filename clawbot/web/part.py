"""The web part: listens, tells the page's address, serves until it is told to stop.

It claims nothing and owns nothing: the page reads the store and writes inbox rows, like any other
channel, so several of them may run beside each other.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import suppress
from pathlib import Path

import structlog
from aiohttp import web

from clawbot.config import Config
from clawbot.errors import StartupError, startup_error_of
from clawbot.lease import Heartbeat
from clawbot.ports import Clock, Part, Store
from clawbot.web.access_token import page_token, write_private
from clawbot.web.api import Api
from clawbot.web.bodies import BODY_BYTES
from clawbot.web.feed import Feed
from clawbot.web.guard import Guard, add_headers, guarding
from clawbot.web.markdown import Renderer
from clawbot.web.page import Page, load_assets
from clawbot.web.problems import problems_as_json
from clawbot.web.stream import Stream

log = structlog.get_logger(__name__)

URL_FILE = "web.url"
BACKLOG = 128
CLOSE_TIMEOUT_S = 2.0
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 only compared


class WebPart:
    """The page's server; a `ports.Part`.

    `open` may be called before `run`, so that the address is known (and a taken port is told)
    before the part counts as ready.
    """

    def __init__(self, *, config: Config, store: Store, clock: Clock, heartbeat: Heartbeat) -> None:
        self._config = config
        self._store = store
        self._clock = clock
        self._heartbeat = heartbeat
        self._renderer = Renderer()
        self._feed = Feed(store, clock, self._renderer)
        self._runner: web.AppRunner | None = None
        self._has_begun = asyncio.Event()
        self.url = ""

    @property
    def open_streams(self) -> int:
        """How many pages listen now."""
        return self._feed.count

    async def open(self) -> None:
        """Listen and write the address; nothing happens when it is open. Raise StartupError."""
        if self._runner is not None:
            return
        settings = self._config.web
        token = await asyncio.to_thread(page_token, self._config.state_dir, settings.token)
        assets = await asyncio.to_thread(load_assets)
        listener = await _listen(settings.host, settings.port)
        port: int = listener.getsockname()[1]
        guard = Guard(
            token=token, host=settings.host, port=port, allowed_hosts=settings.allowed_hosts
        )
        self._runner = web.AppRunner(
            self._application(guard, Page(guard, assets)),
            access_log=None,  # it would hold the token of the first request
            shutdown_timeout=CLOSE_TIMEOUT_S,
        )
        try:
            await self._runner.setup()
            await web.SockSite(self._runner, listener, backlog=BACKLOG).start()
            self.url = f"{address(settings.host, port)}/?token={token}"
            await asyncio.to_thread(self._write_url)
        except BaseException:
            await self.close()
            listener.close()  # after the server on it, which must find it as it was
            raise
        log.info("page_served", address=address(settings.host, port))

    async def ready(self) -> None:
        """See `ports.Readiness`: the page can be used."""
        await self._has_begun.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`. Raise StartupError, or LeaseLost when the store is out of reach."""
        await self.open()
        try:
            await self._heartbeat.begin()
            self._has_begun.set()
            async with asyncio.TaskGroup() as group:
                side_tasks = [
                    group.create_task(self._heartbeat.run(), name="heartbeat"),
                    group.create_task(self._feed.run(), name="feed"),
                ]
                await stop.wait()
                for task in side_tasks:
                    task.cancel()
        finally:
            await self.close()
        await self._heartbeat.end()

    async def close(self) -> None:
        """End the event streams, then the server; may be called twice."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        self._feed.close()
        await runner.cleanup()
        await asyncio.to_thread(self._remove_url)

    def _application(self, guard: Guard, page: Page) -> web.Application:
        application = web.Application(
            middlewares=[problems_as_json, guarding(guard)], client_max_size=BODY_BYTES
        )
        application.on_response_prepare.append(add_headers)
        application.add_routes(page.routes())
        application.add_routes(Api(self._config, self._store, self._clock, self._renderer).routes())
        application.add_routes(Stream(self._feed).routes())
        return application

    @property
    def _url_file(self) -> Path:
        return self._config.state_dir / URL_FILE

    def _write_url(self) -> None:
        """The file appears whole: whoever finds it can use it."""
        draft = self._url_file.with_name(f"{URL_FILE}.{os.getpid()}")
        try:
            write_private(draft, self.url)
            draft.replace(self._url_file)
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            raise startup_error_of(error)(
                f"{self._url_file}: cannot be written: {error.strerror}; give the directory to "
                "clawbot's user or set another state_dir"
            ) from error

    def _remove_url(self) -> None:
        """Take the address away, unless another page's stands there by now."""
        try:
            if self._url_file.read_text(encoding="utf-8").strip() == self.url:
                self._url_file.unlink()
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("page_address_not_removed", error=error.strerror)


def address(host: str, port: int) -> str:
    """Where a browser on this machine finds the page."""
    name = _ANY_ADDRESS.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


async def _listen(host: str, port: int) -> socket.socket:
    """Bind the first address of `host`; the port is known before anything is served."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, bound = found[0]
        return socket.create_server(bound[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartupError(
                f"web.port: {host}:{port} is in use; stop what listens there, or set another "
                "web.port (0 = any free one)"
            ) from error
        raise StartupError(
            f"web.host, web.port: cannot listen on {host}:{port}: {error.strerror}; set web.host "
            "to an address of this machine and web.port to a port that clawbot's user may take"
        ) from error


_: type[Part] = WebPart
