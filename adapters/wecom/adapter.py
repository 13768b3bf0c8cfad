"""One WeCom app, as clawbot's channel: wires the parts and holds the life cycle.

    receive:  http  →  callback (verify, decrypt, parse, accept)
    send:     outbound  →  api

A member is known by the user id, which is the chat too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from adapters.health import Health
from adapters.payload import Json
from adapters.recent import Recent
from adapters.wechat.files import WECOM_KINDS, largest, upload_of
from adapters.wechat.http import HttpReceiver
from adapters.wechat.recorded import open_recorded
from adapters.wecom.api import CHECK_INTERVAL_S, WecomApi
from adapters.wecom.callback import Callback, envelope_of
from adapters.wecom.config import WecomConfig
from adapters.wecom.inbound import parse_message
from adapters.wecom.outbound import APP_LIMIT_BYTES, measure_app, render_app
from adapters.wecom.repeats import Repeats
from clawbot.errors import ChannelBroken, ClawbotError, NotSent, Rejected, SendError
from clawbot.messages import (
    Attachment,
    ChannelHealth,
    Ignored,
    InboundMessage,
    Limits,
    MessageRef,
    OutboundPart,
)
from clawbot.ports import Accept, Clock

_MAX_UPLOADED = 1_000
_ACCOUNT_HINT = "check corp_id, secret and the trusted IPs of the app"


def open_adapter(name: str, config: WecomConfig, clock: Clock) -> WecomAdapter:
    """The adapter of the channel `name`. Nothing is connected until `check` or `receive`."""
    return WecomAdapter(name, config, clock)


class WecomAdapter:
    """A `ChannelAdapter` that can also send files, tell its health and explain payloads.

    Its sends may be repeated.
    """

    limits = Limits(
        max_size=APP_LIMIT_BYTES, has_idempotency_keys=True, max_file_bytes=largest(WECOM_KINDS)
    )

    def __init__(self, name: str, config: WecomConfig, clock: Clock) -> None:
        self._name = name
        self._config = config
        self._clock = clock
        self._api = WecomApi(config, clock)
        self._repeats = Repeats(clock, CHECK_INTERVAL_S)
        self._uploaded: Recent[str] = Recent(clock, kept_s=CHECK_INTERVAL_S, at_most=_MAX_UPLOADED)
        self._health = Health(name)

    async def check(self) -> ChannelHealth:
        """Fetch a token. Raises ChannelBroken if WeCom refuses the app; an unreachable WeCom is
        `degraded`.
        """
        self._health.learn(corp_id=self._config.corp_id, agent_id=str(self._config.agent_id))
        try:
            await self._api.prove()
        except Rejected as error:
            self._health.broken(f"WeCom refuses this app ({error}); {_ACCOUNT_HINT}")
            raise ChannelBroken(f"channel {self._name}: {self.health().detail}") from error
        except SendError as error:
            self._health.lost(str(error))
        return self._health.snapshot()

    async def receive(self, accept: Accept) -> None:
        """Serve until cancelled. Raises StartupError when the port to listen on is taken."""
        receiver = HttpReceiver(self._name, self._config, self.callback(accept).handle_http)
        await receiver.run(self._listening)

    def callback(self, accept: Accept) -> Callback:
        """The door for requests, without a server."""
        return Callback(self._name, self._config, self._clock, accept)

    async def send(self, part: OutboundPart) -> MessageRef:
        """message/send. A repeated attempt at a part is dropped by WeCom's duplicate check."""
        text = render_app(part.text, self._config.format)
        is_checked = self._repeats.is_checked(part.route.chat_id, text, part.key)
        return await self._send(part, self._config.format, {"content": text}, is_checked)

    async def upload(self, part: OutboundPart, data: bytes) -> MessageRef:
        """A picture, sound, video or file. A repeated attempt sends the file that was handed over
        by the first: only then it is the same message to WeCom's duplicate check.
        """
        if part.file is None:
            raise Rejected("no file")
        file = upload_of(part.file, data, WECOM_KINDS)
        media_id = self._uploaded.get(part.key)
        if media_id is None:
            media_id = await self._telling(self._api.upload(file))
            self._uploaded.remember(part.key, media_id)
        content = {"media_id": media_id} | ({"title": file.name} if file.kind == "video" else {})
        return await self._send(part, file.kind, content, is_checked=True)

    async def _send(
        self,
        part: OutboundPart,
        kind: str,
        content: Json,
        is_checked: bool,  # noqa: FBT001
    ) -> MessageRef:
        sending = self._api.send(part.route.chat_id, kind, content, is_checked=is_checked)
        message_id = await self._telling(sending)
        self._health.up()
        return MessageRef(id=message_id or part.key)

    async def _telling(self, call: Awaitable[str]) -> str:
        """A call, and what its failure says of the app."""
        try:
            return await call
        except NotSent as error:
            if isinstance(error.__cause__, Rejected):
                self._health.lost(f"WeCom refuses this app ({error}); {_ACCOUNT_HINT}")
            raise

    def measure(self, text: str) -> int:
        """UTF-8 bytes of the text as it is sent."""
        return measure_app(text, self._config.format)

    async def close(self) -> None:
        """Close connections; may be called twice."""
        await self._api.close()

    def health(self) -> ChannelHealth:
        """The state now, judged by the connection."""
        return self._health.snapshot()

    async def enrich(self, raw: str) -> InboundMessage:
        """Read a stored message again; only its files are missing, which the core asks for."""
        message = self.read_payload({}, raw.encode())
        if isinstance(message, Ignored):
            raise ClawbotError(f"channel {self._name}: no message any more: {message.reason}")
        return message

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Load a file that the platform keeps for three days."""
        return await self._api.download(attachment.source, max_bytes)

    def read_payload(self, headers: Mapping[str, str], body: bytes) -> InboundMessage | Ignored:
        """Parse a recorded request body, for `explain`."""
        del headers
        opened = open_recorded(envelope_of(self._config), body)
        if isinstance(opened, Ignored):
            return opened
        fields, raw = opened
        config = self._config
        return parse_message(
            fields, channel=self._name, raw=raw, menu=config.menu, agent_id=config.agent_id
        )

    def _listening(self, url: str) -> None:
        self._health.learn(listening=url)
        self._health.up()
