"""Signed requests from Slack: verified on their raw bytes before anything is parsed."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

import structlog
from aiohttp import web

from adapters.payload import Json, text_of
from adapters.slack.config import SlackConfig
from adapters.slack.dispatch import Dispatcher
from clawbot.errors import StartupError
from clawbot.ports import Clock

log = structlog.get_logger(__name__)

_WINDOW_S = 300
_FORM = "application/x-www-form-urlencoded"
_SHUTDOWN_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What a request is answered with."""

    status: int
    body: str = ""
    content_type: str = "text/plain"


def is_signed(headers: Mapping[str, str], body: bytes, secret: str, now_s: float) -> bool:
    """Whether Slack signed these bytes within the last five minutes. `headers` in lower case.

    HMAC-SHA256 over `v0:timestamp:body`; docs.slack.dev, "Verifying requests from Slack".
    """
    timestamp = headers.get("x-slack-request-timestamp", "")
    if not timestamp.isascii() or not timestamp.isdigit():
        return False
    if abs(now_s - int(timestamp[:20])) > _WINDOW_S:
        return False
    base = b"v0:" + timestamp.encode() + b":" + body
    expected = "v0=" + hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()
    given = headers.get("x-slack-signature", "")
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogateescape"))


class SignedRequests:
    """Answers requests; needs no server, so that recorded ones can be pushed through it."""

    def __init__(self, config: SlackConfig, clock: Clock, dispatcher: Dispatcher) -> None:
        secret = config.signing_secret
        self._secret = secret.get_secret_value() if secret is not None else ""
        self._max_body_bytes = config.max_body_bytes
        self._clock = clock
        self._dispatcher = dispatcher

    async def answer(self, method: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Verify, parse, commit; any 2xx tells Slack that it need not send this again."""
        lower = {name.lower(): value for name, value in headers.items()}
        if refusal := self._refusal(method, lower, body):
            return refusal
        try:
            payload = parse_body(lower.get("content-type", ""), body)
        except (ValueError, RecursionError):
            return HttpAnswer(status=400, body="unreadable body")
        if handshake := _handshake(payload):
            return handshake
        acknowledged = await self._dispatcher.dispatch(payload)
        if acknowledged is None:
            return HttpAnswer(status=503, body="not stored, send it again")
        kind = acknowledged.headers.get("content-type", ["text/plain"])[0]
        return HttpAnswer(
            status=200, body=acknowledged.body or "", content_type=kind.partition(";")[0]
        )

    def _refusal(self, method: str, lower: Mapping[str, str], body: bytes) -> HttpAnswer | None:
        if method != "POST":
            return HttpAnswer(status=405, body="POST only")
        if len(body) > self._max_body_bytes:
            return HttpAnswer(status=413, body="too large")
        now_s = self._clock.now_ms() / 1000
        if not self._secret or not is_signed(lower, body, self._secret, now_s):
            log.warning("slack_bad_signature", has_one="x-slack-signature" in lower)
            return HttpAnswer(status=401, body="bad signature")
        return None


def _handshake(payload: Json) -> HttpAnswer | None:
    """The answer to what only checks or warns the endpoint."""
    if payload.get("ssl_check"):
        return HttpAnswer(status=200)
    if payload.get("type") == "app_rate_limited":
        log.warning("slack_events_rate_limited", minute=payload.get("minute_rate_limited"))
        return HttpAnswer(status=200)
    if payload.get("type") == "url_verification":
        challenge = json.dumps({"challenge": text_of(payload.get("challenge"))})
        return HttpAnswer(status=200, body=challenge, content_type="application/json")
    return None


def parse_body(content_type: str, body: bytes) -> Json:
    """An event's JSON, a command's form, or the JSON in an interaction's form. Raise ValueError."""
    text = body.decode("utf-8")
    if content_type.partition(";")[0].strip().lower() == _FORM:
        form = dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=200))
        if "payload" not in form:
            return form
        text = form["payload"]
    payload = json.loads(text)
    if not isinstance(payload, dict):
        raise ValueError("not an object")  # noqa: TRY004  # the peer's fault, as bad JSON is
    return payload


HandleHttp = Callable[[str, Mapping[str, str], Mapping[str, str], bytes], Awaitable[HttpAnswer]]
"""Answers a request: method, headers, query, raw body."""


class HttpReceiver:
    """Listens for Slack's requests until cancelled."""

    def __init__(self, channel: str, config: SlackConfig, handle: HandleHttp) -> None:
        self._channel = channel
        self._config = config
        self._handle = handle

    async def run(self, on_listening: Callable[[str], None]) -> None:
        """Serve until cancelled; `on_listening` is given the URL. Raises StartupError when the
        port cannot be had.
        """
        app = web.Application(client_max_size=self._config.max_body_bytes)
        app.router.add_post(self._config.path, self._serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
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

    async def _serve(self, request: web.Request) -> web.Response:
        body = await request.read()  # aiohttp answers 413 itself above client_max_size
        answer = await self._handle(request.method, request.headers, request.query, body)
        return web.Response(
            status=answer.status, text=answer.body, content_type=answer.content_type
        )
