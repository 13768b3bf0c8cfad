"""One WeCom app, as clawbot's channel: wires the parts and holds the life cycle.

    receive:  http  →  callback (verify, decrypt, parse, accept)
    send:     outbound  →  api

A member is known by the user id, which is the chat too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from adapters.health import Health
from adapters.notes import OwnNotes
from adapters.payload import Json
from adapters.wechat.files import WECOM_KINDS, Upload, largest, upload_of
from adapters.wechat.http import HttpReceiver
from adapters.wechat.recorded import open_recorded
from adapters.wecom.api import CHECK_INTERVAL_S, WecomApi
from adapters.wecom.callback import Callback, envelope_of
from adapters.wecom.config import WecomConfig
from adapters.wecom.inbound import parse_message
from adapters.wecom.outbound import APP_LIMIT_BYTES, measure_app, render_app
from adapters.wecom.repeats import Repeats
from clawbot.errors import (
    ChannelBroken,
    ClawbotError,
    NotSent,
    Rejected,
    SendError,
    StoreUnavailable,
)
from clawbot.messages import (
    Attachment,
    ChannelHealth,
    Ignored,
    InboundMessage,
    Limits,
    MessageRef,
    OutboundPart,
)
from clawbot.ports import Accept, ChangeNote, Clock

_ACCOUNT_HINT = "check corp_id, secret and the trusted IPs of the app"


def open_adapter(name: str, config: WecomConfig, clock: Clock) -> WecomAdapter:
    """The adapter of the channel `name`. Nothing is connected until `check` or `receive`."""
    return WecomAdapter(name, config, clock)


class WecomAdapter:
    """A `ChannelAdapter` that can also send files, tell its health and explain payloads.

    Its sends may be repeated.
    """

    limits = Limits(
        max_size=APP_LIMIT_BYTES,
        has_idempotency_keys=True,
        idempotency_s=CHECK_INTERVAL_S,
        max_file_bytes=largest(WECOM_KINDS),
    )

    def __init__(self, name: str, config: WecomConfig, clock: Clock) -> None:
        self._name = name
        self._config = config
        self._clock = clock
        notes = OwnNotes(clock)
        self._change_note: ChangeNote = notes.change
        self._api = WecomApi(config, clock, notes.change)
        self._repeats = Repeats(notes.change, CHECK_INTERVAL_S)
        self._health = Health(name)

    def share_with(self, change: ChangeNote, processes: Callable[[], int]) -> None:  # noqa: ARG002
        """Share the token, and what was said and handed over, with the app's other processes."""
        self._change_note = self._api.tokens.change = self._repeats.change = change

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
        try:
            is_checked = await self._repeats.is_checked(part.route.chat_id, text, part.key)
        except StoreUnavailable as error:
            raise NotSent("the store with what was said is away") from error
        return await self._send(part, self._config.format, {"content": text}, is_checked)

    async def upload(self, part: OutboundPart, data: bytes) -> MessageRef:
        """A picture, sound, video or file. A repeated attempt sends the file that was handed over
        by the first: only then it is the same message to WeCom's duplicate check.
        """
        if part.file is None:
            raise Rejected("no file")
        file = upload_of(part.file, data, WECOM_KINDS)
        try:
            media_id = await self._media_id(part, file)
        except StoreUnavailable as error:
            raise NotSent("the store with the uploads is away") from error
        content = {"media_id": media_id} | ({"title": file.name} if file.kind == "video" else {})
        return await self._send(part, file.kind, content, is_checked=True)

    async def _media_id(self, part: OutboundPart, file: Upload) -> str:
        """The id of the file, which is handed over once, whoever sends it."""
        note = f"upload/{part.key}"
        known = await self._change_note(note, lambda text: text, CHECK_INTERVAL_S)
        if known is not None:
            return known
        media_id = await self._telling(self._api.upload(file))
        await self._change_note(note, lambda _text: media_id, CHECK_INTERVAL_S)
        return media_id

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
