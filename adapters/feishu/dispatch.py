"""From a verified payload to its acknowledgement: learn, parse, commit, in the order of arrival.

Both ways in (long connection and webhook) end here. What is acknowledged is stored or is none of
ours; what could not be stored is not, so that Feishu delivers it again.
"""

from __future__ import annotations

import structlog

from adapters.feishu.buttons import PRESSED, answer_to_press, pressed_command
from adapters.feishu.inbound import chat_of, event_type, parse_event
from adapters.feishu.names import Directory
from adapters.order import ArrivalOrder
from adapters.payload import Json, object_of, text_of
from clawbot.errors import StoreUnavailable
from clawbot.messages import Accepted, Amendment, InboundMessage
from clawbot.ports import Accept, Amend

log = structlog.get_logger(__name__)

_CHAT_CHANGES = frozenset({"im.chat.updated_v1", "im.chat.disbanded_v1"})


class Dispatcher:
    """Gives payloads to `accept`, in order of arrival within a chat.

    amend: told of what people take back.
    """

    def __init__(
        self,
        channel: str,
        accept: Accept,
        directory: Directory,
        amend: Amend | None,
    ) -> None:
        self._channel = channel
        self._accept = accept
        self._amend = amend
        self._directory = directory
        self._order = ArrivalOrder()

    async def dispatch(self, payload: Json) -> Json | None:
        """Handle one payload; the body to acknowledge it with, None when it must not be.

        Call it in order of arrival: the place in the chat's queue is taken before it first waits.
        """
        async with self._order.turn(chat_of(payload)):
            try:
                return await self._take(payload)
            except Exception:
                # The boundary of one payload: no ack, so that it comes again; the others go on.
                log.exception("feishu_payload_failed", channel=self._channel)
                return None

    async def _take(self, payload: Json) -> Json | None:
        if event_type(payload) in _CHAT_CHANGES:
            self._directory.forget_chat(chat_of(payload))
        await self._directory.prepare(payload)
        message = parse_event(payload, self._directory.facts)
        try:
            if isinstance(message, InboundMessage):
                return self._answer(payload, await self._accept(message))
            if message.reason == "recalled" and self._amend is not None:
                await self._amend(self._recalled(payload))
            else:
                log.info(
                    "feishu_ignored",
                    channel=self._channel,
                    reason=message.reason,
                    kind=event_type(payload),
                )
        except StoreUnavailable as error:
            log.warning("feishu_not_stored", channel=self._channel, error=str(error))
            return None
        return {}

    def _answer(self, payload: Json, accepted: Accepted) -> Json:
        """The body of the acknowledgement: somebody who pressed a button sees what it came to."""
        if not pressed_command(payload):
            return {}
        # A callback of the old kind is answered with a card or with nothing.
        return answer_to_press(accepted) if event_type(payload) == PRESSED else {}

    def _recalled(self, payload: Json) -> Amendment:
        message_id = text_of(object_of(payload.get("event")).get("message_id"))
        return Amendment(channel=self._channel, identity=message_id, message=None)
