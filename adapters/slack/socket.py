"""Socket Mode: one connection after the other, each made anew.

The SDK's client speaks the protocol; how connections follow each other is decided here, because the
client's own reconnecting loops for ever on a stale ticket, trips over a refusal that is no JSON,
and treats every disconnect reason alike (slack_sdk 3.48).
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp
import structlog
from slack_sdk.socket_mode.aiohttp import SocketModeClient

from adapters.health import Health
from adapters.payload import Json, text_of
from adapters.slack.api import SlackApi, quiet_logger
from adapters.slack.failures import AUTH_CODES
from clawbot.errors import ChannelBroken, NotSent, OutcomeUnknown, Rejected, StartupError

log = structlog.get_logger(__name__)

_NEEDS_ADMIN = AUTH_CODES | {"missing_scope", "access_denied", "not_allowed"}
_MAX_IN_FLIGHT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How patient the connection is, in seconds.

    watch_s: how often a connection is looked at. steady_s: a connection that lived this long ends
    the series of failures that spaces out attempts, from backoff_s to max_backoff_s. deaf_s: after
    so long without a connection the process is given up for a fresh one.
    """

    connect_s: float = 10.0
    ping_s: float = 10.0
    watch_s: float = 0.5
    drain_s: float = 2.0
    steady_s: float = 10.0
    backoff_s: float = 0.5
    max_backoff_s: float = 30.0
    deaf_s: float = 900.0


class _Link(SocketModeClient):
    """The SDK's client for the time of one connection: frames go to us as they arrive, and it
    never reconnects by itself.
    """

    def __init__(self, on_frame: Callable[[str], None], api: SlackApi, ping_s: float) -> None:
        super().__init__(
            app_token="",  # the ticket in the URL is all that a connection needs
            web_client=api.client,
            auto_reconnect_enabled=False,
            ping_interval=ping_s,
            logger=quiet_logger(),
        )
        self.proxy = api.client.proxy
        self._on_frame = on_frame

    async def enqueue_message(self, message: str) -> None:
        self._on_frame(message)

    async def connect_to_new_endpoint(self, force: bool = False) -> None:  # noqa: FBT001, FBT002
        """Not here: the next connection is a link of its own."""


class SocketReceiver:
    """Keeps one connection until cancelled.

    handle: takes an envelope (called in order of arrival) and returns the frame to acknowledge
    with, or None for no ack.
    """

    def __init__(
        self,
        channel: str,
        api: SlackApi,
        health: Health,
        handle: Callable[[Json], Awaitable[Json | None]],
        timings: Timings,
    ) -> None:
        self._channel = channel
        self._api = api
        self._health = health
        self._handle = handle
        self._timings = timings

    async def run(self) -> None:
        """Connect again and again. Raises ChannelBroken when Slack refuses for good, StartupError
        when nothing could be heard for so long that only a new process may help.
        """
        loop = asyncio.get_running_loop()
        failures, heard_at = 0, loop.time()
        while True:
            began = loop.time()
            reason, pause_s, was_greeted = await self._connect_once()
            lived_s = loop.time() - began
            heard_at = loop.time() if was_greeted else heard_at
            if loop.time() - heard_at > self._timings.deaf_s:
                raise StartupError(
                    f"channel {self._channel}: no connection to Slack for "
                    f"{self._timings.deaf_s:g} s ({reason}); starting anew"
                )
            failures = 0 if lived_s >= self._timings.steady_s else failures + 1
            if reason not in {"warning", "refresh_requested"}:
                self._health.lost(reason)
            await asyncio.sleep(max(pause_s, self._backoff_s(failures)))

    def _backoff_s(self, failures: int) -> float:
        if failures <= 1:
            return 0.0
        doubled = 2.0 ** min(failures, 16)
        full_s = min(self._timings.backoff_s * doubled, self._timings.max_backoff_s)
        return full_s * random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, no secret

    async def _connect_once(self) -> tuple[str, float, bool]:
        """One connection from ticket to end: why it ended, how long Slack wants us to wait, and
        whether Slack had greeted us.
        """
        try:
            url = await self._api.open_socket()
        except Rejected as error:
            if error.code in _NEEDS_ADMIN:
                raise ChannelBroken(
                    f"channel {self._channel}: app_token refused: {error.code}; make an app-level "
                    "token with the scope connections:write and switch Socket Mode on"
                ) from error
            return str(error), 0.0, False
        except NotSent as error:
            return str(error), error.retry_after_s or 0.0, False
        except OutcomeUnknown as error:
            return str(error), 0.0, False
        connection = _Connection(self._api, self._health, self._handle, self._timings)
        reason = await connection.run(url)
        if reason == "link_disabled":
            raise ChannelBroken(
                f"channel {self._channel}: Socket Mode is switched off for this app; "
                "switch it on again"
            )
        # Slack has counted connections that it does not know to be gone yet.
        pause_s = self._timings.backoff_s if reason == "too_many_websockets" else 0.0
        return reason, pause_s, connection.was_greeted


class _Connection:
    """One web socket and the envelopes under way on it."""

    def __init__(
        self,
        api: SlackApi,
        health: Health,
        handle: Callable[[Json], Awaitable[Json | None]],
        timings: Timings,
    ) -> None:
        self._health = health
        self._handle = handle
        self._timings = timings
        self._ended = asyncio.Event()
        self.was_greeted = False
        self._reason = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._link = _Link(self._on_frame, api, timings.ping_s)

    async def run(self, url: str) -> str:
        """Serve until the connection ends; returns why."""
        try:
            self._link.wss_uri = url
            try:
                # connect() repeats a refused ticket for ever; only the time limit ends it.
                async with asyncio.timeout(self._timings.connect_s):
                    await self._link.connect()  # type: ignore[no-untyped-call]
            except TimeoutError:
                return f"no connection within {self._timings.connect_s:g} s"
            reason = await self._until_ended()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._timings.drain_s)
            return reason
        finally:
            await self._close()

    async def _until_ended(self) -> str:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timings.connect_s
        while not self._ended.is_set():
            if not await self._link.is_connected():
                return "connection lost"
            if not self.was_greeted and loop.time() > deadline:
                return "no hello from Slack"
            try:
                async with asyncio.timeout(self._timings.watch_s):
                    await self._ended.wait()
            except TimeoutError:
                continue
        return self._reason

    def _on_frame(self, text: str) -> None:
        """Called for each text frame, in order, from the receiving task: must not wait."""
        try:
            frame = json.loads(text)
        except (ValueError, RecursionError):
            frame = None
        if not isinstance(frame, dict):
            log.warning("slack_frame_unreadable", size=len(text))
            return
        kind = text_of(frame.get("type"))
        if kind == "hello":
            self._greet(frame)
        elif kind == "disconnect":
            self._reason = text_of(frame.get("reason")) or "disconnect without a reason"
            log.info("slack_disconnect", reason=self._reason)
            self._ended.set()
        elif frame.get("envelope_id") and len(self._tasks) < _MAX_IN_FLIGHT:
            # Not acked above that number: Slack sends it again.
            task = asyncio.create_task(self._serve(frame), name="slack envelope")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _greet(self, frame: Json) -> None:
        self.was_greeted = True
        self._health.learn(connections=str(frame.get("num_connections", "")))
        self._health.up()

    async def _serve(self, frame: Json) -> None:
        ack = await self._handle(frame)
        if ack is None:
            return
        try:
            await self._link.send_message(json.dumps(ack))
        except (aiohttp.ClientError, ConnectionError, AttributeError, RuntimeError) as error:
            log.info("slack_ack_lost", error=repr(error))  # it comes again and is known by then

    async def _close(self) -> None:
        """Close the socket now: Slack counts open ones, ten at most."""
        link = self._link
        parts = (link.message_processor, link.current_session_monitor, link.message_receiver)
        tasks = [*self._tasks, *(part for part in parts if part is not None)]
        try:
            async with asyncio.timeout(self._timings.drain_s):
                await link.close()  # type: ignore[no-untyped-call]
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            log.debug("slack_link_not_closed", error=repr(error))  # the peer is gone
        finally:
            for task in tasks:
                task.cancel()
            await link.aiohttp_client_session.close()
            await asyncio.gather(*tasks, return_exceptions=True)
