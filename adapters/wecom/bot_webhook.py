"""An AI bot by webhook: its callbacks, the questions for growing answers, and late messages.

Needs no server, so that recorded requests can be pushed through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

import structlog

from adapters.payload import Json, dump, object_of, parse, text_of
from adapters.wechat.calls import HttpCaller
from adapters.wechat.config import LOOPBACK_HOSTS
from adapters.wechat.crypto import Envelope
from adapters.wechat.failures import code_of, from_code
from adapters.wechat.http import HttpAnswer
from adapters.wecom.bot_inbound import BotFacts, BotRoute, parse_callback
from adapters.wecom.bot_streams import Stream, Streams
from adapters.wecom.callback import Refused, open_sealed
from adapters.wecom.config import WecomBotConfig
from clawbot.errors import Rejected, StoreUnavailable, WindowClosed
from clawbot.messages import Ignored, InboundMessage
from clawbot.ports import Accept, Clock

log = structlog.get_logger(__name__)

_MAX_URLS = 10_000


class LateMessages:
    """The addresses that each take one late message: those of a chat's newest messages."""

    def __init__(self) -> None:
        self._http = HttpCaller("")
        self._urls: dict[str, str] = {}
        self._used: dict[str, None] = {}

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._http.close()

    def learn(self, chat_id: str, url: str) -> None:
        """A message of this chat brought an address."""
        if is_safe_url(url):
            self._urls.pop(chat_id, None)
            self._urls[chat_id] = url
            _keep_newest(self._urls)

    async def send(self, chat_id: str, url: str, text: str) -> None:
        """Send one message. Raises WindowClosed when no address is left: one that WeCom refuses has
        been used, perhaps by another process, or is too old.
        """
        for candidate in (url, self._urls.get(chat_id, "")):
            if candidate and candidate not in self._used and is_safe_url(candidate):
                self._used[candidate] = None
                _keep_newest(self._used)
                body = {"msgtype": "markdown", "markdown": {"content": text}}
                answer = await self._http.request("POST", candidate, {}, body)
                if not code_of(answer):
                    return
                error = from_code("response_url", answer)
                if not isinstance(error, Rejected):
                    raise error
                log.info("late_address_refused", code=error.code)
        raise WindowClosed("no address for a late message is left in this chat")


def _keep_newest(table: dict[str, str] | dict[str, None]) -> None:
    while len(table) > _MAX_URLS:
        del table[next(iter(table))]


def is_safe_url(url: str) -> bool:
    """Only the platform's own kind of address is called, whatever a body says."""
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS
    return bool(parts.hostname) and (parts.scheme == "https" or is_local)


def envelope_of(config: WecomBotConfig) -> Envelope | None:
    """What opens and seals; None where only the long connection is configured."""
    token, key = config.token, config.encoding_aes_key
    if token is None or key is None:
        return None
    return Envelope(
        token=token.get_secret_value(), aes_key=key.get_secret_value(), receive_ids=[""]
    )


class BotCallback:
    """The door of one bot, for one `accept`."""

    def __init__(
        self,
        facts: BotFacts,
        config: WecomBotConfig,
        clock: Clock,
        accept: Accept,
        streams: Streams,
        late: LateMessages,
    ) -> None:
        self._facts = facts
        self._config = config
        self._clock = clock
        self._accept = accept
        self._streams = streams
        self._late = late
        envelope = envelope_of(config)
        if envelope is None:
            raise ValueError("mode: webhook needs token and encoding_aes_key")
        self._envelope = envelope

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
            outer = parse(raw_body.decode("utf-8", "replace")) or {}
            inner = open_sealed(self._envelope, query, text_of(outer.get("encrypt")), now_s)
        except Refused as error:
            log.warning("request_refused", channel=self._facts.channel, reason=str(error))
            return HttpAnswer(status=403, body="refused")
        body = parse(inner)
        return HttpAnswer() if body is None else await self._handle(body)

    async def _handle(self, body: Json) -> HttpAnswer:
        if body.get("msgtype") == "stream":
            return await self._poll(text_of(object_of(body.get("stream")).get("id")))
        message = parse_callback(body, self._facts)
        if isinstance(message, Ignored):
            log.info("message_ignored", channel=self._facts.channel, reason=message.reason)
            if message.reason == "enter_chat" and self._config.welcome:
                return self._sealed({"msgtype": "text", "text": {"content": self._config.welcome}})
            return HttpAnswer()
        try:
            return await self._take(message)
        except StoreUnavailable as error:
            log.warning("message_not_stored", channel=self._facts.channel, error=str(error))
            return HttpAnswer(status=503, body="not stored, send it again")

    async def _poll(self, stream_id: str) -> HttpAnswer:
        try:
            stream = await self._streams.poll(stream_id)
        except StoreUnavailable as error:
            log.warning("stream_not_read", channel=self._facts.channel, error=str(error))
            return HttpAnswer()  # it asks again
        return HttpAnswer() if stream is None else self._show(stream)

    async def _take(self, message: InboundMessage) -> HttpAnswer:
        route = BotRoute.decode(message.reply_token)
        self._late.learn(message.chat_id, route.url)
        # It cannot carry an answer itself, but it lets go what waited for the person's next word.
        accepted = await self._accept(replace(message, inline_until_ms=self._clock.now_ms()))
        if not accepted.may_be_answered:
            return HttpAnswer()
        stream = await self._streams.open(
            route.stream,
            session=accepted.session_key,
            sender=route.sender,
            is_command=accepted.decision == "command",
        )
        return self._show(stream)

    def _show(self, stream: Stream) -> HttpAnswer:
        shown = {"id": stream.id, "finish": stream.is_final, "content": stream.content}
        return self._sealed({"msgtype": "stream", "stream": shown})

    def _sealed(self, answer: Json) -> HttpAnswer:
        text = dump(answer)
        sealed = self._envelope.seal(text, now_s=self._clock.now_ms() // 1000)
        body = {
            "encrypt": sealed.encrypt,
            "msgsignature": sealed.signature,
            "timestamp": int(sealed.timestamp),
            "nonce": sealed.nonce,
        }
        return HttpAnswer(body=dump(body), content_type="application/json")
