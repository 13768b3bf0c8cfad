"""Customer service: the messages that an account sends by itself, within what WeChat allows.

The last message that a person's words still allow is kept for text, which then says how to get what
could not be sent any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from adapters.health import Health
from adapters.wechat.api import WechatApi
from adapters.wechat.budget import Allowance, Budget
from adapters.wechat.failures import NO_PERMISSION
from adapters.wechat.files import OFFICIAL_KINDS, largest, upload_of
from adapters.wechat.outbound import hint_rest
from adapters.wechat.plain import render
from clawbot.errors import NotSent, Rejected, SendError, StoreUnavailable, WindowClosed
from clawbot.messages import OutboundFile, OutboundPart
from clawbot.ports import T

log = structlog.get_logger(__name__)

ACCOUNT_HINT = "check app_id, app_secret and the IP white list of the account"
MAX_FILE_BYTES = largest(OFFICIAL_KINDS)


class CustomerService:
    """What one account sends. `may_send` ends, and `on_refused` is told, when WeChat says that it
    has not the permission.
    """

    def __init__(
        self,
        channel: str,
        api: WechatApi,
        budget: Budget,
        health: Health,
        on_refused: Callable[[], None],
    ) -> None:
        self._channel = channel
        self._api = api
        self._budget = budget
        self._health = health
        self._on_refused = on_refused
        self.may_send = False

    async def send_text(self, part: OutboundPart) -> None:
        """A message. Raises as `ChannelAdapter.send` does."""
        chat_id, text = part.route.chat_id, render(part.text)
        taken = await self._take(chat_id)
        if taken is None:
            raise WindowClosed(f"channel {self._channel}: this chat's messages are used up")
        has_more = part.part_no + 1 < part.part_count
        if taken.left == 0 and (has_more or taken.withholds):
            text = hint_rest(text)
            await _stored(self._budget.note_told(chat_id))
        await self._spending(chat_id, self._api.send_text(chat_id, text))

    async def send_file(self, part: OutboundPart, file: OutboundFile, data: bytes) -> None:
        """A file as a message. Raises as `Uploader.upload` does."""
        chat_id = part.route.chat_id
        upload = upload_of(file, data, OFFICIAL_KINDS)
        media_id = await self._trying(chat_id, self._api.upload(upload))
        if await self._take(chat_id, keep=1) is None:
            await _stored(self._budget.withhold(chat_id))
            raise WindowClosed(f"channel {self._channel}: this chat's last message is for text")
        sending = self._api.send_file(chat_id, upload.kind, media_id, upload.name)
        await self._spending(chat_id, sending)

    async def is_withholding(self, chat_id: str) -> bool:
        """Whether something waits that the person was not told of; now they are."""
        if not self.may_send or not (await _stored(self._budget.look(chat_id))).withholds:
            return False
        await _stored(self._budget.note_told(chat_id))
        return True

    async def show_typing(self, chat_id: str) -> None:
        """The sign that somebody writes. A failure is logged."""
        try:
            await self._api.show_typing(chat_id, active=True)
        except SendError as error:
            log.info("typing_not_shown", channel=self._channel, error=str(error))

    async def _take(self, chat_id: str, *, keep: int = 0) -> Allowance | None:
        return await _stored(self._budget.take(chat_id, keep=keep))

    async def _spending(self, chat_id: str, sending: Awaitable[None]) -> None:
        """Send what was taken from the budget; what surely did not go out goes back into it."""
        try:
            await self._trying(chat_id, sending)
        except (NotSent, Rejected):
            await _stored(self._budget.give_back(chat_id))
            raise
        self._health.up()

    async def _trying(self, chat_id: str, call: Awaitable[T]) -> T:
        """A call, and what its failure says of the account."""
        try:
            return await call
        except WindowClosed as error:
            await _stored(self._budget.exhaust(chat_id))
            self._note_permission(error)
            raise
        except NotSent as error:
            if isinstance(error.__cause__, Rejected):
                self._health.lost(f"WeChat refuses this account ({error}); {ACCOUNT_HINT}")
            raise

    def _note_permission(self, error: WindowClosed) -> None:
        """Without the permission the account goes on as one that only answers requests."""
        if str(NO_PERMISSION) in str(error):
            self.may_send = False
            self._on_refused()
            self._health.learn(customer_service="refused (48001)")
            log.error(
                "customer_service_refused",
                channel=self._channel,
                error=str(error),
                advice="set customer_service: false, or have the account verified",
            )


async def _stored(noting: Awaitable[T]) -> T:
    """Without the store nothing is sent: nobody could say how much that was."""
    try:
        return await noting
    except StoreUnavailable as error:
        raise NotSent("the store with the budget is away") from error
