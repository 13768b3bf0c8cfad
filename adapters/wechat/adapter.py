"""One Official Account, as clawbot's channel: wires the parts and holds the life cycle.

    receive:  http  →  callback (verify, parse, accept, hold the request)
    send:     outbound (Markdown → plain text)  →  a held request's response, or the API

A person is known by the openid, which is the chat too. There are no threads and no edits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from adapters.health import Health
from adapters.notes import OwnNotes
from adapters.wechat.api import WechatApi
from adapters.wechat.budget import PER_MESSAGE, Budget
from adapters.wechat.callback import Callback, Turnstile, envelope_of
from adapters.wechat.config import WechatConfig
from adapters.wechat.exchanges import Exchanges
from adapters.wechat.http import HttpReceiver
from adapters.wechat.inbound import parse_message
from adapters.wechat.outbound import MAX_SIZE, hint_newer, hint_rest, measure
from adapters.wechat.plain import render
from adapters.wechat.recorded import open_recorded
from adapters.wechat.service import ACCOUNT_HINT, MAX_FILE_BYTES, CustomerService
from clawbot.errors import (
    ChannelBroken,
    ClawbotError,
    NotSent,
    OutcomeUnknown,
    Rejected,
    SendError,
    WindowClosed,
)
from clawbot.messages import (
    Attachment,
    ChannelHealth,
    Ignored,
    InboundMessage,
    Limits,
    MessageRef,
    OutboundPart,
    ReplyRoute,
)
from clawbot.ports import Accept, ChangeNote, Clock

_SILENCE_FACTOR = 1.4  # of hold_s: past the end of an attempt the next one must have come
_WRITE_TIMEOUT_S = 5.0
_LOOK_AGAIN_S = 0.25
_TYPING_LASTS_S = 12.0  # WeChat ends it after 15 s


def open_adapter(name: str, config: WechatConfig, clock: Clock) -> WechatAdapter:
    """The adapter of the channel `name`. Nothing is connected until `check` or `receive`."""
    return WechatAdapter(name, config, clock)


class WechatAdapter:
    """A `ChannelAdapter` that can also send files, show typing, tell its health and explain
    payloads.
    """

    def __init__(self, name: str, config: WechatConfig, clock: Clock) -> None:
        self._name = name
        self._config = config
        self._clock = clock
        notes = OwnNotes(clock)
        self._api = WechatApi(config, clock, notes.change)
        self._exchanges = Exchanges(clock)
        self._budget = Budget(clock, notes.change)
        self._health = Health(name)
        self._service = CustomerService(
            name, self._api, self._budget, self._health, self._send_no_files
        )
        self._service.may_send = config.customer_service
        self.limits = Limits(
            max_size=MAX_SIZE,
            parts_per_inbound=PER_MESSAGE,
            typing_lasts_s=_TYPING_LASTS_S,
            max_file_bytes=MAX_FILE_BYTES if config.customer_service else 0,
        )

    def share_with(self, change: ChangeNote, processes: Callable[[], int]) -> None:  # noqa: ARG002
        """Share the token, and what chats may still be sent, with the account's other processes."""
        self._budget.change = self._api.tokens.change = change

    # -- life cycle --------------------------------------------------------------------------------

    async def check(self) -> ChannelHealth:
        """Fetch a token, where the account may send by itself.

        Raises ChannelBroken if WeChat refuses the account; an unreachable WeChat is `degraded`.
        """
        self._health.learn(app_id=self._config.app_id)
        self._health.learn(customer_service="yes" if self._service.may_send else "no")
        if not self._service.may_send:
            return self._health.snapshot()
        try:
            await self._api.prove()
        except Rejected as error:
            self._health.broken(f"WeChat refuses this account ({error}); {ACCOUNT_HINT}")
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
        turnstile = Turnstile(
            may_send=lambda: self._service.may_send,
            on_message=self._renew_budget,
        )
        return Callback(self._name, self._config, self._clock, accept, self._exchanges, turnstile)

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
        return parse_message(fields, channel=self._name, raw=raw, menu=self._config.menu)

    def _listening(self, url: str) -> None:
        self._health.learn(listening=url)
        self._health.up()

    async def _renew_budget(self, words: InboundMessage, is_event: bool) -> bool:  # noqa: FBT001
        """See `Turnstile`."""
        if not self._service.may_send:
            return True
        chat_id = words.chat_id
        before = await self._budget.renew(chat_id, words.identity, by_event=is_event)
        return before.was_told

    async def _hides_more(self, part: OutboundPart) -> bool:
        """Whether something waits that the person was not told of; now they are."""
        is_last = part.part_no + 1 == part.part_count
        return is_last and await self._service.is_withholding(part.route.chat_id)

    def _send_no_files(self) -> None:
        self.limits = replace(self.limits, max_file_bytes=0)

    # -- sending -----------------------------------------------------------------------------------

    async def send(self, part: OutboundPart) -> MessageRef:
        """The response of a held request, or a customer-service message.

        Raises WindowClosed where the account may not send, or not now.
        """
        if part.is_inline:
            return await self._send_inline(part)
        if not self._service.may_send:
            raise WindowClosed(f"channel {self._name}: no request of this chat waits")
        await self._service.send_text(part)
        return MessageRef(id=part.key)

    async def upload(self, part: OutboundPart, data: bytes) -> MessageRef:
        """A customer-service message with a picture, a sound or a video; WeChat has no others.

        Raises as `send`.
        """
        if part.file is None:
            raise Rejected("no file")
        await self._service.send_file(part, part.file, data)
        return MessageRef(id=part.key)

    def measure(self, text: str) -> int:
        """UTF-8 bytes of the text without its markup."""
        return measure(text)

    async def typing(self, route: ReplyRoute, *, active: bool, mark: str = "") -> None:
        """The sign of customer service, where the account may show it. A message ends it."""
        del mark
        if self._service.may_send and active:
            await self._service.show_typing(route.chat_id)

    async def _send_inline(self, part: OutboundPart) -> MessageRef:
        """Put the part into a held request of its chat.

        What more parts follow is only sent once this one is known to have arrived: they must not
        overtake it.
        """
        chat_id, answers = part.route.chat_id, part.route.token
        text, has_more = render(part.text), part.part_no + 1 < part.part_count
        may_send = self._service.may_send
        is_followed = await self._hides_more(part) if may_send else has_more
        attempt = self._exchanges.find(chat_id, answers)
        if attempt is None:
            raise NotSent("no request of this chat waits now", retry_after_s=_LOOK_AGAIN_S)
        if is_followed:
            text = hint_rest(text)
        elif answers != attempt.identity and not attempt.is_for_more and not may_send:
            text = hint_newer(text)
        body = self._exchanges.carry(attempt, text, answers=answers)
        try:
            async with asyncio.timeout(_WRITE_TIMEOUT_S):
                is_written = await body.written
        except TimeoutError as error:
            raise OutcomeUnknown("the response was not written in time") from error
        silence_s = self._config.hold_s * _SILENCE_FACTOR
        if not is_written or (has_more and not await body.survives(silence_s)):
            raise NotSent("the request was given up", retry_after_s=_LOOK_AGAIN_S)
        return MessageRef(id=f"response:{attempt.identity}")
