"""Answers WeCom's requests to an app: verify, decrypt, read, commit, acknowledge at once.

Needs no server, so that recorded requests can be pushed through it. Answers are sent by the API.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from adapters.payload import Json
from adapters.wechat.crypto import BadEnvelope, Envelope, is_fresh
from adapters.wechat.fields import UnreadableBody, clean, read_body, text_field
from adapters.wechat.http import HttpAnswer
from adapters.wechat.inbound import event_name
from adapters.wechat.outbound import passive_xml
from adapters.wecom.config import WecomConfig
from adapters.wecom.inbound import parse_message
from clawbot.errors import StoreUnavailable
from clawbot.messages import Ignored
from clawbot.ports import Accept, Clock

log = structlog.get_logger(__name__)


class Refused(Exception):
    """The request is not from WeCom, or not for this app."""


def open_sealed(envelope: Envelope, query: Mapping[str, str], encrypted: str, now_s: float) -> str:
    """Verify and decrypt. Raise Refused."""
    if not encrypted or not envelope.is_signed(query, encrypted):
        raise Refused("bad_signature")
    if not is_fresh(query, now_s):
        raise Refused("stale")
    try:
        return envelope.open(encrypted)
    except BadEnvelope as error:
        raise Refused(str(error)) from error


def envelope_of(config: WecomConfig) -> Envelope:
    """What opens and seals."""
    return Envelope(
        token=config.token.get_secret_value(),
        aes_key=config.encoding_aes_key.get_secret_value(),
        receive_ids=[config.corp_id, *config.receive_ids],
    )


class Callback:
    """The door of one app, for one `accept`."""

    def __init__(self, channel: str, config: WecomConfig, clock: Clock, accept: Accept) -> None:
        self._channel = channel
        self._config = config
        self._clock = clock
        self._accept = accept
        self._envelope = envelope_of(config)

    async def handle_http(
        self, method: str, headers: Mapping[str, str], query: Mapping[str, str], raw_body: bytes
    ) -> HttpAnswer:
        """Answer one request."""
        del headers
        if method not in {"GET", "POST"}:
            return HttpAnswer(status=405, body="GET or POST only")
        if len(raw_body) > self._config.max_body_bytes:
            return HttpAnswer(status=413, body="too large")
        now_s = self._clock.now_ms() / 1000
        try:
            if method == "GET":
                echo = query.get("echostr", "")
                return HttpAnswer(body=open_sealed(self._envelope, query, echo, now_s))
            fields = read_body(raw_body.decode("utf-8", "replace"))
            encrypted = text_field(fields, "Encrypt").strip()
            raw = open_sealed(self._envelope, query, encrypted, now_s)
        except Refused as error:
            log.warning("request_refused", channel=self._channel, reason=str(error))
            return HttpAnswer(status=403, body="refused")
        except UnreadableBody as error:
            log.warning("request_unreadable", channel=self._channel, reason=str(error))
            return HttpAnswer(status=400, body="unreadable")
        return await self._handle(raw)

    async def _handle(self, raw: str) -> HttpAnswer:
        try:
            fields = read_body(raw)
        except UnreadableBody as error:
            log.warning("request_unreadable", channel=self._channel, reason=str(error))
            return HttpAnswer()
        message = parse_message(
            fields,
            channel=self._channel,
            raw=clean(raw),
            menu=self._config.menu,
            agent_id=self._config.agent_id,
        )
        if isinstance(message, Ignored):
            log.info("message_ignored", channel=self._channel, reason=message.reason)
            if event_name(fields) == "enter_agent" and self._config.welcome:
                return self._welcome(fields)
            return HttpAnswer()
        try:
            await self._accept(message)
        except StoreUnavailable as error:
            log.warning("message_not_stored", channel=self._channel, error=str(error))
            return HttpAnswer(status=503, body="not stored, send it again")
        return HttpAnswer()

    def _welcome(self, fields: Json) -> HttpAnswer:
        now_s = self._clock.now_ms() // 1000
        xml = passive_xml(
            to_user=text_field(fields, "FromUserName"),
            from_user=text_field(fields, "ToUserName"),
            text=self._config.welcome,
            at_s=now_s,
        )
        sealed = self._envelope.seal(xml, now_s=now_s)
        return HttpAnswer(body=sealed.as_xml(), content_type="application/xml")
