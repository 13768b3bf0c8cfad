"""One Official Account, as clawbot's channel: wires the parts and holds the life cycle.

    receive:  http  →  callback (verify, parse, accept, hold the request)
    send:     outbound (Markdown → plain text)  →  a held request's response, or the API

A person is known by the openid, which is the chat too. There are no threads and no edits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from adapters.health import Health
from adapters.wechat.api import WechatApi
from adapters.wechat.budget import PER_MESSAGE, Budget
from adapters.wechat.callback import Callback, Turnstile, envelope_of
from adapters.wechat.config import WechatConfig
from adapters.wechat.exchanges import Exchanges
from adapters.wechat.failures import NO_PERMISSION
from adapters.wechat.http import HttpReceiver
from adapters.wechat.inbound import parse_message
from adapters.wechat.outbound import MAX_SIZE, hint_newer, hint_rest, measure
from adapters.wechat.plain import render
from adapters.wechat.recorded import open_recorded
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
from clawbot.ports import Accept, Clock

log = structlog.get_logger(__name__)

_SILENCE_FACTOR = 1.4  # of hold_s: past the end of an attempt the next one must have come
_WRITE_TIMEOUT_S = 5.0
_LOOK_AGAIN_S = 0.25
_MAX_TOLD = 10_000
_TYPING_LASTS_S = 12.0  # WeChat ends it after 15 s
_ACCOUNT_HINT = "check app_id, app_secret and the IP white list of the account"


def open_adapter(name: str, config: WechatConfig, clock: Clock) -> WechatAdapter:
    """The adapter of the channel `name`. Nothing is connected until `check` or `receive`."""
    return WechatAdapter(name, config, clock)


class WechatAdapter:
    """A `ChannelAdapter` that can also show typing, tell its health and explain payloads."""

    def __init__(self, name: str, config: WechatConfig, clock: Clock) -> None:
        self._name = name
        self._config = config
        self._clock = clock
        self._api = WechatApi(config, clock)
        self._exchanges = Exchanges(clock)
        self._budget = Budget(clock)
        self._health = Health(name)
        self._may_send = config.customer_service
        self._told_to_ask: dict[str, None] = {}
        self.limits = Limits(
            max_size=MAX_SIZE, parts_per_inbound=PER_MESSAGE, typing_lasts_s=_TYPING_LASTS_S
        )

    # -- life cycle --------------------------------------------------------------------------------

    async def check(self) -> ChannelHealth:
        """Fetch a token, where the account may send by itself.

        Raises ChannelBroken if WeChat refuses the account; an unreachable WeChat is `degraded`.
        """
        self._health.learn(app_id=self._config.app_id)
        self._health.learn(customer_service="yes" if self._may_send else "no")
        if not self._may_send:
            return self._health.snapshot()
        try:
            await self._api.prove()
        except Rejected as error:
            self._health.broken(f"WeChat refuses this account ({error}); {_ACCOUNT_HINT}")
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
            may_send=lambda: self._may_send,
            may_ask=lambda chat_id: not self._may_send or chat_id in self._told_to_ask,
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

    def _renew_budget(self, chat_id: str, is_event: bool) -> None:  # noqa: FBT001 - see Turnstile
        self._budget.renew(chat_id, by_event=is_event)

    # -- sending -----------------------------------------------------------------------------------

    async def send(self, part: OutboundPart) -> MessageRef:
        """The response of a held request, or a customer-service message.

        Raises WindowClosed where the account may not send, or not now.
        """
        if part.is_inline:
            return await self._send_inline(part)
        if not self._may_send:
            raise WindowClosed(f"channel {self._name}: no request of this chat waits")
        return await self._send_message(part)

    def measure(self, text: str) -> int:
        """UTF-8 bytes of the text without its markup."""
        return measure(text)

    async def typing(self, route: ReplyRoute, *, active: bool) -> None:
        """The sign of customer service, where the account may show it. A message ends it."""
        if not self._may_send or not active:
            return
        try:
            await self._api.show_typing(route.chat_id, active=True)
        except SendError as error:
            log.info("typing_not_shown", channel=self._name, error=str(error))

    async def _send_inline(self, part: OutboundPart) -> MessageRef:
        """Put the part into a held request of its chat.

        What more parts follow is only sent once this one is known to have arrived: they must not
        overtake it.
        """
        chat_id, answers = part.route.chat_id, part.route.token
        attempt = self._exchanges.find(chat_id, answers)
        if attempt is None:
            raise NotSent("no request of this chat waits now", retry_after_s=_LOOK_AGAIN_S)
        text, has_more = render(part.text), part.part_no + 1 < part.part_count
        if has_more and not self._may_send:
            text = hint_rest(text)
        elif answers != attempt.identity and not attempt.is_for_more and not self._may_send:
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

    async def _send_message(self, part: OutboundPart) -> MessageRef:
        chat_id = part.route.chat_id
        left = self._budget.left(chat_id)
        if left == 0:
            raise WindowClosed(f"channel {self._name}: this chat's messages are used up")
        text = render(part.text)
        if left == 1 and part.part_no + 1 < part.part_count:
            text = hint_rest(text)
            self._note_told(chat_id)
        try:
            await self._api.send_text(chat_id, text)
        except WindowClosed as error:
            self._budget.exhaust(chat_id)
            self._note_permission(error)
            raise
        except OutcomeUnknown:
            self._budget.spend(chat_id)
            raise
        except NotSent as error:
            if isinstance(error.__cause__, Rejected):
                self._health.lost(f"WeChat refuses this account ({error}); {_ACCOUNT_HINT}")
            raise
        self._budget.spend(chat_id)
        self._health.up()
        return MessageRef(id=part.key)

    def _note_told(self, chat_id: str) -> None:
        """Remember the newest chats that were told how to get the rest."""
        self._told_to_ask[chat_id] = None
        while len(self._told_to_ask) > _MAX_TOLD:
            del self._told_to_ask[next(iter(self._told_to_ask))]

    def _note_permission(self, error: WindowClosed) -> None:
        """Without the permission the account goes on as one that only answers requests."""
        if str(NO_PERMISSION) in str(error):
            self._may_send = False
            self._health.learn(customer_service="refused (48001)")
            log.error(
                "customer_service_refused",
                channel=self._name,
                error=str(error),
                advice="set customer_service: false, or have the account verified",
            )
