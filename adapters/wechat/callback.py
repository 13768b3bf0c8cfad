"""Answers WeChat's requests: verify, read, commit, then wait for what the response can carry.

Needs no server, so that recorded requests can be pushed through it. The first two attempts at a
message are held until the platform hangs up, the third is answered in any case; where the account
may send by itself, the first attempt is closed in time and the answer follows on its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from adapters.payload import Json, number_of
from adapters.wechat.config import WechatConfig
from adapters.wechat.crypto import BadEnvelope, Envelope, is_fresh, is_signed
from adapters.wechat.exchanges import ATTEMPT_S, ATTEMPTS, Attempt, Body, Exchanges
from adapters.wechat.fields import UnreadableBody, clean, read_body, text_field
from adapters.wechat.http import HttpAnswer
from adapters.wechat.inbound import event_name, parse_message
from adapters.wechat.outbound import passive_xml, still_working
from clawbot.errors import StoreUnavailable
from clawbot.messages import Ignored, InboundMessage
from clawbot.ports import Accept, Clock

log = structlog.get_logger(__name__)

_XML = "application/xml"
_MARGIN_S = 0.05


class Refused(Exception):
    """The request is not from WeChat, or not for this account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What a request holds once it is opened."""

    fields: Json
    raw: str
    is_sealed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnstile:
    """What the callback asks the adapter while it handles a message.

    may_send: whether the account can send by itself, so that a request need not be held to the
    end. on_message: told of every attempt at what a person did, True = an event; says whether this
    chat may have been told to ask for more. It raises StoreUnavailable.
    """

    may_send: Callable[[], bool]
    on_message: Callable[[InboundMessage, bool], Awaitable[bool]]


def envelope_of(config: WechatConfig) -> Envelope | None:
    """What opens and seals; None in plain mode."""
    key = config.encoding_aes_key
    if key is None:
        return None
    return Envelope(
        token=config.token.get_secret_value(),
        aes_key=key.get_secret_value(),
        receive_ids=[config.app_id],
    )


class Callback:
    """The door of one account, for one `accept`."""

    def __init__(
        self,
        channel: str,
        config: WechatConfig,
        clock: Clock,
        accept: Accept,
        exchanges: Exchanges,
        turnstile: Turnstile,
    ) -> None:
        self._channel = channel
        self._config = config
        self._clock = clock
        self._accept = accept
        self._exchanges = exchanges
        self._turnstile = turnstile
        self._token = config.token.get_secret_value()
        self._envelope = envelope_of(config)

    async def handle_http(
        self, method: str, headers: Mapping[str, str], query: Mapping[str, str], raw_body: bytes
    ) -> HttpAnswer:
        """Answer one request. The empty answer tells WeChat that nothing will come this way."""
        del headers
        if method not in {"GET", "POST"}:
            return HttpAnswer(status=405, body="GET or POST only")
        if len(raw_body) > self._config.max_body_bytes:
            return HttpAnswer(status=413, body="too large")
        try:
            if method == "GET":
                self._verify(query)
                return HttpAnswer(body=query.get("echostr", ""))
            letter = self._open(query, raw_body.decode("utf-8", "replace"))
        except Refused as error:
            log.warning("request_refused", channel=self._channel, reason=str(error))
            return HttpAnswer(status=403, body="refused")
        except UnreadableBody as error:
            log.warning("request_unreadable", channel=self._channel, reason=str(error))
            return HttpAnswer()
        return await self._handle(letter, query)

    # -- reading -----------------------------------------------------------------------------------

    def _verify(self, query: Mapping[str, str]) -> None:
        stamp, nonce = query.get("timestamp", ""), query.get("nonce", "")
        if not is_signed(query.get("signature", ""), self._token, stamp, nonce):
            raise Refused("bad_signature")
        if not is_fresh(query, self._clock.now_ms() / 1000):
            raise Refused("stale")

    def _open(self, query: Mapping[str, str], body: str) -> Letter:
        """Verify and, in safe and compatible mode, decrypt."""
        if self._envelope is None:
            self._verify(query)
            fields = read_body(body)
            if not text_field(fields, "MsgType") and text_field(fields, "Encrypt"):
                raise Refused("encrypted, but encoding_aes_key is not set")
            return Letter(fields=fields, raw=clean(body), is_sealed=False)
        try:
            encrypted = text_field(read_body(body), "Encrypt").strip()
        except UnreadableBody:
            self._verify(query)  # only then it is WeChat's own mistake
            raise
        if not encrypted:
            raise Refused("not encrypted, but encoding_aes_key is set")
        if not self._envelope.is_signed(query, encrypted):
            raise Refused("bad_signature")
        if not is_fresh(query, self._clock.now_ms() / 1000):
            raise Refused("stale")
        try:
            inner = self._envelope.open(encrypted)
        except BadEnvelope as error:
            raise Refused(str(error)) from error
        return Letter(fields=read_body(inner), raw=clean(inner), is_sealed=True)

    # -- answering ---------------------------------------------------------------------------------

    async def _handle(self, letter: Letter, query: Mapping[str, str]) -> HttpAnswer:
        fields = letter.fields
        event = event_name(fields)
        message = parse_message(
            fields, channel=self._channel, raw=letter.raw, menu=self._config.menu
        )
        if isinstance(message, Ignored):
            log.info("message_ignored", channel=self._channel, reason=message.reason)
            if event == "subscribe" and self._config.welcome:
                return self._passive(letter, self._config.welcome)
            return HttpAnswer()
        attempt = self._exchanges.begin(
            message.identity, message.chat_id, at_least=_attempt_by_time(fields, query)
        )
        try:
            return await self._answer(attempt, message, letter)
        finally:
            self._exchanges.end(attempt)

    async def _answer(
        self, attempt: Attempt, message: InboundMessage, letter: Letter
    ) -> HttpAnswer:
        hold_s, began = self._config.hold_s, self._clock.monotonic()
        until_ms = self._clock.now_ms() + round(hold_s * 1000)
        try:
            # Before the message is stored: its answer may be on its way as soon as it is.
            was_told = await self._turnstile.on_message(message, bool(event_name(letter.fields)))
            # A word that asks for more does so only where somebody may have been told of it.
            message = replace(message, asks_for_more=message.asks_for_more and was_told)
            if message.asks_for_more:
                self._exchanges.confirm(message.chat_id)
            accepted = await self._accept(
                replace(message, reply_token=message.identity, inline_until_ms=until_ms)
            )
        except StoreUnavailable as error:
            log.warning("message_not_stored", channel=self._channel, error=str(error))
            return HttpAnswer(status=503, body="not stored, send it again")
        attempt.session = accepted.session_key
        attempt.is_command = accepted.decision == "command"
        # A further attempt at such a message is only known as one that is done.
        attempt.is_for_more = message.asks_for_more and accepted.decision in {"more", "done"}
        if not accepted.may_be_answered:
            return HttpAnswer()
        body = await attempt.answer(max(hold_s - (self._clock.monotonic() - began), _MARGIN_S))
        if body is not None:
            return self._passive(letter, body.text, body)
        if attempt.is_answered_elsewhere or self._turnstile.may_send():
            return HttpAnswer()
        if attempt.number >= ATTEMPTS:
            return self._passive(letter, still_working(message.text))
        # An answer now would end the attempts; WeChat hangs up soon and asks again.
        await asyncio.sleep(hold_s)
        return HttpAnswer(status=500, body="not ready, ask again")

    def _passive(self, letter: Letter, text: str, body: Body | None = None) -> HttpAnswer:
        fields, now_s = letter.fields, self._clock.now_ms() // 1000
        xml = passive_xml(
            to_user=text_field(fields, "FromUserName"),
            from_user=text_field(fields, "ToUserName"),
            text=text,
            at_s=now_s,
        )
        if letter.is_sealed and self._envelope is not None:
            xml = self._envelope.seal(xml, now_s=now_s).as_xml()
        on_written = None if body is None else body.report
        return HttpAnswer(body=xml, content_type=_XML, on_written=on_written)


def _attempt_by_time(fields: Json, query: Mapping[str, str]) -> int:
    """Which attempt this is by the platform's own times: when it was written and when it is asked.

    Another process may have seen the earlier ones.
    """
    asked, written = number_of(query.get("timestamp")), number_of(text_field(fields, "CreateTime"))
    if asked is None or written is None:
        return 1
    return 1 + min(max(asked - written, 0) // ATTEMPT_S, ATTEMPTS - 1)
