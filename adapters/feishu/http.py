"""Requests from Feishu: verified on their raw bytes, decrypted, then dispatched.

With an encrypt key every event must be encrypted and signed; without one it must carry the
verification token. Only the handshake is not signed, by Feishu's own design.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog
from aiohttp import web

from adapters.feishu.buttons import old_press
from adapters.feishu.config import FeishuConfig
from adapters.feishu.dispatch import Dispatcher
from adapters.feishu.seal import BadCiphertext, decrypt, is_same, is_signed, is_signed_callback
from adapters.payload import Json, object_of, parse, text_of
from clawbot.errors import StartupError
from clawbot.ports import Clock

log = structlog.get_logger(__name__)

_SHUTDOWN_S = 2.0
_SIGNATURE = "x-lark-signature"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What a request is answered with."""

    status: int
    body: str = "{}"


class _Refused(Exception):
    """A request that is not answered; `status` says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class SealedRequests:
    """Answers requests; needs no server, so that recorded ones can be pushed through it."""

    def __init__(
        self, channel: str, config: FeishuConfig, clock: Clock, dispatcher: Dispatcher
    ) -> None:
        self._channel = channel
        self._max_body_bytes = config.max_body_bytes
        self._max_age_s = config.max_request_age_s
        self._key = _plain(config.encrypt_key)
        self._token = _plain(config.verification_token)
        self._clock = clock
        self._dispatcher = dispatcher

    async def answer(self, method: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Verify, parse, commit; 200 tells Feishu that it need not send this again."""
        lower = {name.lower(): value for name, value in headers.items()}
        try:
            payload = self._open(method, lower, body)
        except _Refused as refusal:
            log.warning("feishu_request_refused", channel=self._channel, reason=str(refusal))
            return HttpAnswer(status=refusal.status, body=json.dumps({"msg": str(refusal)}))
        if payload is None:
            return HttpAnswer(status=200)
        if payload.get("type") == "url_verification":
            challenge = json.dumps({"challenge": text_of(payload.get("challenge"))})
            return HttpAnswer(status=200, body=challenge)
        acknowledged = await self._dispatcher.dispatch(payload)
        if acknowledged is None:
            return HttpAnswer(status=500, body='{"msg": "not stored, send it again"}')
        return HttpAnswer(status=200, body=json.dumps(acknowledged))

    def _open(self, method: str, headers: Mapping[str, str], body: bytes) -> Json | None:
        """The payload in a request that Feishu surely sent, None if nothing is to be done for it.
        Raise _Refused.
        """
        if method != "POST":
            raise _Refused(405, "POST only")
        if len(body) > self._max_body_bytes:
            raise _Refused(413, "too large")
        outer = parse(body)
        if outer is None:
            raise _Refused(400, "unreadable body")
        if _is_old_callback(outer):
            return self._old_callback(outer, headers, body)
        payload = self._plain(outer) if self._key or "encrypt" in outer else outer
        if self._key and payload.get("type") != "url_verification":
            self._check_signature(headers, body)
        self._check_token(payload)
        return payload

    def _plain(self, outer: Json) -> Json:
        """What is in the encrypted body."""
        if not self._key:
            raise _Refused(400, "encrypted, but encrypt_key is not set")
        if not text_of(outer.get("encrypt")):
            raise _Refused(401, "not encrypted, though encrypt_key is set")
        try:
            payload = parse(decrypt(text_of(outer.get("encrypt")), self._key))
        except BadCiphertext as error:
            raise _Refused(400, f"cannot be decrypted: {error}; compare encrypt_key") from error
        if payload is None:
            raise _Refused(400, "unreadable body")
        return payload

    def _check_signature(self, headers: Mapping[str, str], body: bytes) -> None:
        if not is_signed(headers, body, self._key):
            raise _Refused(401, "bad signature" if _SIGNATURE in headers else "no signature")
        if not self._is_fresh(headers):
            raise _Refused(401, "too old or too new; compare this machine's clock")

    def _is_fresh(self, headers: Mapping[str, str]) -> bool:
        stamp = headers.get("x-lark-request-timestamp", "")
        sent_s = int(stamp[:12]) if stamp.isascii() and stamp.isdigit() else 0
        return abs(self._clock.now_ms() / 1000 - sent_s) <= self._max_age_s

    def _check_token(self, payload: Json) -> None:
        """Events of 2.0 carry it in their header, those of 1.0 and the handshake on top."""
        header = object_of(payload.get("header"))
        given = text_of(header.get("token")) or text_of(payload.get("token"))
        if self._token and not is_same(given, self._token):
            raise _Refused(401, "wrong verification token")

    def _old_callback(self, outer: Json, headers: Mapping[str, str], body: bytes) -> Json | None:
        """A card callback of the old kind has its own signature, with the verification token. One
        that cannot be verified, or is old, is answered, and does nothing.
        """
        if self._token and not is_signed_callback(headers, body, self._token):
            raise _Refused(401, "bad signature")
        if not self._token or not self._is_fresh(headers):
            log.info("feishu_ignored", channel=self._channel, reason="old_card_action")
            return None
        return old_press(outer)


def _is_old_callback(outer: Json) -> bool:
    return "open_message_id" in outer and "action" in outer and "event" not in outer


def _plain(secret: object) -> str:
    reveal = getattr(secret, "get_secret_value", None)
    return str(reveal()) if reveal is not None else ""


HandleHttp = Callable[[str, Mapping[str, str], Mapping[str, str], bytes], Awaitable[HttpAnswer]]
"""Answers a request: method, headers, query, raw body."""


class HttpReceiver:
    """Listens for Feishu's requests until cancelled."""

    def __init__(self, channel: str, config: FeishuConfig, handle: HandleHttp) -> None:
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
            on_listening(f"http://{host}:{runner.addresses[0][1]}{self._config.path}")
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        body = await request.read()  # aiohttp answers 413 itself above client_max_size
        answer = await self._handle(request.method, request.headers, request.query, body)
        return web.Response(status=answer.status, text=answer.body, content_type="application/json")
