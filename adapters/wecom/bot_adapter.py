"""One WeCom AI bot, as clawbot's channel, by long connection or webhook.

    socket:   bot_socket → accept;   answers grow by frames with the whole text
    webhook:  http → bot_webhook → accept;   answers grow while WeCom asks for them

An answer is one stream; what does not fit into it, or comes too late for it, goes as a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from adapters.health import Health
from adapters.notes import OwnNotes
from adapters.payload import Json, object_of, parse, text_of
from adapters.recent import Recent
from adapters.wechat.failures import code_of, from_code
from adapters.wechat.files import BOT_KINDS, largest, upload_of
from adapters.wechat.http import HttpReceiver
from adapters.wechat.recorded import open_recorded
from adapters.wecom.bot_files import BotFiles
from adapters.wecom.bot_inbound import BotFacts, BotRoute, parse_callback
from adapters.wecom.bot_socket import BotSocket, Timings
from adapters.wecom.bot_streams import Streams
from adapters.wecom.bot_uploads import upload
from adapters.wecom.bot_webhook import BotCallback, LateMessages, envelope_of
from adapters.wecom.config import WecomBotConfig
from adapters.wecom.outbound import BOT_MAX_SIZE, measure_bot, render_bot
from clawbot.errors import (
    ChannelBroken,
    ClawbotError,
    NotSent,
    OutcomeUnknown,
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

log = structlog.get_logger(__name__)

_EDIT_INTERVAL_S = 1.0
_FETCH_WAIT_S = 6.0
_LOOK_AGAIN_S = 5.0
_STORE_RETRY_S = 1.0
_STREAM = "stream:"
_STREAM_S = 900.0
_LOST_STREAMS = frozenset({846605, 846608})
"""The request is not known, or the stream's six minutes are over."""

_MAX_STREAMS = 20_000


def open_adapter(
    name: str, config: WecomBotConfig, clock: Clock, *, timings: Timings | None = None
) -> WecomBotAdapter:
    """The adapter of the channel `name`. Nothing is connected until `receive`."""
    return WecomBotAdapter(name, config, clock, timings or Timings())


class WecomBotAdapter:
    """A `ChannelAdapter` that can also edit, look up, send files, tell its health and explain
    payloads.
    """

    def __init__(self, name: str, config: WecomBotConfig, clock: Clock, timings: Timings) -> None:
        self._name = name
        self._config = config
        self._clock = clock
        self._health = Health(name)
        self._facts = BotFacts(channel=name, bot_id=config.bot_id, bot_name=config.bot_name)
        self._socket = BotSocket(config, clock, self._health, timings)
        self._late = LateMessages()
        self._files = BotFiles(config)
        self._change_note: ChangeNote = OwnNotes(clock).change
        self._streams = Streams(clock, self._change_note)
        self._owners: Recent[str] = Recent(clock, kept_s=_STREAM_S, at_most=_MAX_STREAMS)
        self._aside: Recent[bool] = Recent(clock, kept_s=_STREAM_S, at_most=_MAX_STREAMS)
        self._is_socket = config.mode == "socket"
        self.limits = Limits(
            max_size=BOT_MAX_SIZE,
            edit_interval_s=_EDIT_INTERVAL_S,
            parts_per_inbound=None if self._is_socket else 2,
            ends_growth=True,
            one_connection=self._is_socket,
            max_file_bytes=largest(BOT_KINDS) if self._is_socket else 0,
        )

    def share_with(self, change: ChangeNote, processes: Callable[[], int]) -> None:  # noqa: ARG002
        """Share with the bot's other processes what its streams show, and which are to end."""
        self._change_note = self._streams.change = change

    # -- life cycle --------------------------------------------------------------------------------

    async def check(self) -> ChannelHealth:
        """Say how it is configured; only the connection itself can prove the secret."""
        self._health.learn(mode=self._config.mode, bot_id=self._config.bot_id)
        return self._health.snapshot()

    async def receive(self, accept: Accept) -> None:
        """Receive until cancelled. Raises ChannelBroken when an admin must act, and StartupError
        when the port to listen on is taken.
        """
        if not self._is_socket:
            receiver = HttpReceiver(self._name, self._config, self.callback(accept).handle_http)
            await receiver.run(self._listening)
            return
        try:
            await self._socket.run(lambda frame: self.handle_frame(accept, frame))
        except ChannelBroken as error:
            self._health.broken(str(error))
            raise ChannelBroken(f"channel {self._name}: {error}") from error

    def callback(self, accept: Accept) -> BotCallback:
        """The door for requests, without a server."""
        return BotCallback(
            self._facts, self._config, self._clock, accept, self._streams, self._late
        )

    async def handle_frame(self, accept: Accept, frame: Json) -> None:
        """Take one callback frame. The connection has no acknowledgement: a store that cannot be
        written is waited for.
        """
        request = text_of(object_of(frame.get("headers")).get("req_id"))
        message = parse_callback(object_of(frame.get("body")), self._facts, request)
        if isinstance(message, Ignored):
            log.info("message_ignored", channel=self._name, reason=message.reason)
            if message.reason == "enter_chat" and self._config.welcome:
                await self._greet(request)
            return
        while True:
            try:
                await accept(message)
            except StoreUnavailable as error:
                log.warning("message_not_stored", channel=self._name, error=str(error))
                await self._clock.sleep(_STORE_RETRY_S)
            else:
                return

    async def close(self) -> None:
        """Close connections; may be called twice."""
        await self._late.close()
        await self._files.close()

    def health(self) -> ChannelHealth:
        """The state now, judged by the connection."""
        return self._health.snapshot()

    async def enrich(self, raw: str) -> InboundMessage:
        """Read a stored message again; only its files are missing, which the core asks for."""
        stored = parse(raw) or {}
        request, body = text_of(stored.get("request")), object_of(stored.get("body"))
        message = parse_callback(body, self._facts, request)
        if isinstance(message, Ignored):
            raise ClawbotError(f"channel {self._name}: no message any more: {message.reason}")
        return message

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Load a file within the five minutes that its address is good for, and decrypt it."""
        return await self._files.load(attachment.source, max_bytes)

    def read_payload(self, headers: Mapping[str, str], body: bytes) -> InboundMessage | Ignored:
        """Parse a recorded request body, or a frame of the long connection, for `explain`."""
        del headers
        opened = open_recorded(envelope_of(self._config), body)
        if isinstance(opened, Ignored):
            return opened
        payload = opened[0]
        return parse_callback(object_of(payload.get("body")) or payload, self._facts)

    def _listening(self, url: str) -> None:
        self._health.learn(listening=url)
        self._health.up()

    async def _greet(self, request: str) -> None:
        body = {"msgtype": "text", "text": {"content": self._config.welcome}}
        try:
            await self._socket.ask("aibot_respond_welcome_msg", body, request)
        except SendError as error:
            log.info("welcome_not_sent", channel=self._name, error=str(error))

    # -- sending -----------------------------------------------------------------------------------

    async def send(self, part: OutboundPart) -> MessageRef:
        """The first part is the message's stream; what follows are messages of their own, and so is
        every other reply to the same message.
        """
        route = BotRoute.decode(part.route.token)
        is_first = part.part_no == 0 and self._owns(route, part)
        if is_first and await self._grow(route, part):
            return MessageRef(id=_STREAM + route.stream)
        if not part.is_final:
            raise NotSent(
                "the stream is over; the whole answer follows", retry_after_s=_LOOK_AGAIN_S
            )
        await self._send_message(route, part)
        return MessageRef(id=part.key)

    async def edit(self, ref: MessageRef, part: OutboundPart) -> None:
        """Show the whole text. When the stream is over, the final text goes as a message."""
        route = BotRoute.decode(part.route.token)
        if ref.id.startswith(_STREAM):
            self._owns(route, part)
            if await self._grow(route, part):
                return
        if not part.is_final:
            raise NotSent(
                "the stream is over; the whole answer follows", retry_after_s=_LOOK_AGAIN_S
            )
        await self._send_message(route, part)

    async def lookup(self, part: OutboundPart) -> MessageRef | None:
        """A stream is known by its id: to show the whole text in it once more is to find it. For
        all else there is no answer: Rejected.
        """
        route = BotRoute.decode(part.route.token)
        is_first = part.file is None and part.part_no == 0 and self._owns(route, part)
        try:
            if is_first and await self._grow(route, part):
                return MessageRef(id=_STREAM + route.stream)
        except OutcomeUnknown as error:
            raise NotSent(str(error)) from error
        raise Rejected("nobody can tell whether the message is there", code="no_answer")

    async def upload(self, part: OutboundPart, data: bytes) -> MessageRef:
        """A picture, sound, video or file as a message of its own. Raises as `send`.

        So is the text that takes the place of a refused one: the stream is the answer's.
        """
        self._aside.remember(part.key, True)  # noqa: FBT003 - a set with an age limit
        if part.file is None or not self._is_socket:
            raise Rejected("a bot that is called by webhook sends no files")
        file = upload_of(part.file, data, BOT_KINDS)
        media_id = await upload(self._socket.ask, file)
        await self._send_by_socket(part.route.chat_id, file.kind, {"media_id": media_id})
        return MessageRef(id=part.key)

    def measure(self, text: str) -> int:
        """UTF-8 bytes of the Markdown."""
        return measure_bot(text)

    def _owns(self, route: BotRoute, part: OutboundPart) -> bool:
        """Whether a message's stream shows this reply: the first of several replies has it."""
        if not route.stream or part.key in self._aside:
            return False
        if (owner := self._owners.get(route.stream)) is None:
            self._owners.remember(route.stream, owner := part.key)
        return owner == part.key

    async def _grow(self, route: BotRoute, part: OutboundPart) -> bool:
        """Show a text in the message's stream; False = WeCom takes it there no more."""
        text = render_bot(part.text, part.progress)
        if not self._is_socket:
            return await self._show(route.stream, part, text)
        was_ended = part.is_final and await self._note_end(route.stream)
        stream = {"id": route.stream, "finish": part.is_final, "content": text}
        body = {"msgtype": "stream", "stream": stream}
        answer = await self._socket.ask("aibot_respond_msg", body, route.request)
        code = code_of(answer)
        if not code:
            return True
        log.info("stream_refused", channel=self._name, code=code)
        if not was_ended:
            return False
        if code in _LOST_STREAMS:
            # Not as a message: the end may stand there already.
            raise Rejected("nobody can tell how the stream ended", code="stream_lost")
        return True  # only an end that was taken closes a stream to further texts

    async def _show(self, stream: str, part: OutboundPart, text: str) -> bool:
        """Show a text to whoever asks for the stream."""
        try:
            return await self._streams.show(
                stream, part.key, text, is_final=part.is_final, wait_s=_FETCH_WAIT_S
            )
        except StoreUnavailable as error:
            raise NotSent("the store with the streams is away") from error

    async def _note_end(self, stream: str) -> bool:
        """Note that the stream's end is about to be sent; whether somebody did so before."""
        try:
            before = await self._change_note(f"end/{stream}", lambda _text: "sent", _STREAM_S)
        except StoreUnavailable as error:
            raise NotSent("the store with the streams is away") from error
        return before is not None

    async def _send_message(self, route: BotRoute, part: OutboundPart) -> None:
        text = render_bot(part.text)
        if not self._is_socket:
            await self._late.send(part.route.chat_id, route.url, text)
            return
        await self._send_by_socket(part.route.chat_id, "markdown", {"content": text})

    async def _send_by_socket(self, chat_id: str, kind: str, content: Json) -> None:
        body = {"chatid": chat_id, "msgtype": kind, kind: content}
        answer = await self._socket.ask("aibot_send_msg", body)
        if code_of(answer):
            raise from_code("aibot_send_msg", answer)
