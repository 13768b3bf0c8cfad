"""Gets one part of a reply into its chat: as an answer in its topic, as a quote, or plainly.

Every attempt at a part carries the same `uuid`, whatever form it takes, so that Feishu takes one of
them at most. What cannot be shown in one form is tried in a simpler one; an answer to a message
that is gone is sent without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from adapters.feishu.api import FeishuApi, Sent, sent_of
from adapters.feishu.buttons import buttons_of
from adapters.feishu.config import FeishuConfig
from adapters.feishu.failures import (
    AUTH_CODES,
    CONTENT_CODES,
    GONE_CODES,
    LENGTH_CODES,
    SCOPE_CODES,
)
from adapters.feishu.files import Shape as FileShape
from adapters.feishu.files import name_of, shapes_of
from adapters.feishu.outbound import card, card_reference, content, form_of, forms_after
from adapters.feishu.references import CARD, FILE, POST, STREAM, TEXT, Asked, Reference
from adapters.payload import Json, number_of
from clawbot.errors import NotSent, OutcomeUnknown, Rejected
from clawbot.messages import MessageRef, OutboundFile, OutboundPart, ReplyRoute
from clawbot.ports import Clock

log = structlog.get_logger(__name__)

_OTHER_FORM = CONTENT_CODES | LENGTH_CODES
_CARD_KIT_PAUSE_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A part that stands in the chat. is_certain: whether it surely shows what was sent."""

    ref: MessageRef
    is_certain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What a part is sent as."""

    form: str
    kind: str
    body: str
    card_id: str = ""


class Messenger:
    """Sends parts of replies."""

    def __init__(self, channel: str, config: FeishuConfig, api: FeishuApi, clock: Clock) -> None:
        self._channel = channel
        self._config = config
        self._api = api
        self._clock = clock
        self._card_kit_from = float("-inf")

    async def send(self, part: OutboundPart) -> Delivered:
        """Send a part, in a form that can grow if it will; raises as `ports.ChannelAdapter`."""
        if part.is_final or not part.route.can_edit:
            return await self._in_some_form(part, self._form_of(part), part.key)
        return await self._growing(part)

    async def resend(self, part: OutboundPart, uuid: str) -> None:
        """Send a part anew whose message cannot be changed any more."""
        await self._in_some_form(part, self._form_of(part), uuid)

    def _form_of(self, part: OutboundPart) -> str:
        return CARD if part.choices else form_of(part.text, self._config.answer_format)

    async def upload(self, part: OutboundPart, file: OutboundFile, data: bytes) -> MessageRef:
        """Send a file: in the first shape that Feishu takes. Only the message can be seen; what was
        uploaded for nothing is forgotten by Feishu.
        """
        *others, last = shapes_of(file, data)
        for tried in others:
            try:
                return await self._in_shape(part, file, data, tried)
            except Rejected as error:
                if error.code in AUTH_CODES | SCOPE_CODES:
                    raise
                told = {"form": tried.message, "error": str(error)}
                log.info("feishu_form_refused", channel=self._channel, **told)
        return await self._in_shape(part, file, data, last)

    async def _in_shape(
        self, part: OutboundPart, file: OutboundFile, data: bytes, shape: FileShape
    ) -> MessageRef:
        try:
            if shape.upload == "image":
                key = await self._api.upload_image(data)
            else:
                key = await self._api.upload_file(shape.upload, name_of(file), data)
        except OutcomeUnknown as error:
            raise NotSent(str(error)) from error  # nobody sees it yet
        sent = await self._place(
            part.route,
            _Shape(form=FILE, kind=shape.message, body=shape.content(key)),
            part.key,
        )
        return self._reference(part.route, sent, FILE, "")

    async def reference_to(self, part: OutboundPart, record: Json) -> MessageRef:
        """A message that was found in a chat, as what stands for it."""
        sent = sent_of(record)
        form = FILE
        card_id = ""
        if part.file is None or sent.kind in {"text", "post", "interactive"}:
            form, card_id = await self._actual(sent)
        return self._reference(
            part.route, sent, form, card_id, number_of(record.get("create_time")) or 0
        )

    async def _growing(self, part: OutboundPart) -> Delivered:
        way = self._config.streaming
        if way == "card_kit" and (card_id := await self._card(part)):
            shape = _Shape(
                form=STREAM, kind="interactive", body=card_reference(card_id), card_id=card_id
            )
            try:
                return await self._as(part, shape, part.key)
            except Rejected as error:
                if error.code not in _OTHER_FORM:
                    raise
        return await self._in_some_form(part, POST if way == "edits" else CARD, part.key)

    async def _card(self, part: OutboundPart) -> str:
        """A card that can grow, "" where Feishu refuses to make one. A card that is made and never
        sent is nowhere to be seen.
        """
        if self._clock.monotonic() < self._card_kit_from:
            return ""
        try:
            return await self._api.create_card(card(part.text, part.progress, streaming=True))
        except OutcomeUnknown as error:
            raise NotSent(str(error)) from error
        except Rejected as error:
            if error.code in SCOPE_CODES:
                self._card_kit_from = self._clock.monotonic() + _CARD_KIT_PAUSE_S
            log.info("feishu_no_card_kit", channel=self._channel, error=str(error))
            return ""

    async def _in_some_form(self, part: OutboundPart, form: str, uuid: str) -> Delivered:
        *others, last = forms_after(form)
        for tried in others:
            try:
                return await self._in_form(part, tried, uuid)
            except Rejected as error:
                if error.code not in _OTHER_FORM:
                    raise
                log.info("feishu_form_refused", channel=self._channel, form=tried, error=str(error))
        return await self._in_form(part, last, uuid)

    async def _in_form(self, part: OutboundPart, form: str, uuid: str) -> Delivered:
        kind, body = content(part.text, form, part.progress, buttons_of(part))
        return await self._as(part, _Shape(form=form, kind=kind, body=body), uuid)

    async def _as(self, part: OutboundPart, shape: _Shape, uuid: str) -> Delivered:
        sent = await self._place(part.route, shape, uuid)
        if not part.is_repeated:
            return Delivered(ref=self._reference(part.route, sent, shape.form, shape.card_id))
        # Under this uuid Feishu may have returned the message of an earlier attempt.
        form, card_id = await self._actual(sent)
        is_certain = (sent.kind, sent.content) == (shape.kind, shape.body) and form != CARD
        return Delivered(
            ref=self._reference(part.route, sent, form, card_id), is_certain=is_certain
        )

    async def _actual(self, sent: Sent) -> tuple[str, str]:
        """The form that a message really has, and its card in the card kit, if any."""
        if sent.kind != "interactive":
            return (POST if sent.kind == POST else TEXT), ""
        try:
            card_id = await self._api.card_of(sent.message_id)
        except Rejected as error:
            log.info("feishu_card_not_told", channel=self._channel, error=str(error))
            return CARD, ""
        return STREAM, card_id

    async def _place(self, route: ReplyRoute, shape: _Shape, uuid: str) -> Sent:
        """Answer the message that the route names; the message at hand or the plain chat where it
        is gone.
        """
        in_thread = route.thread is not None
        asked = Asked.decode(route.token).message_id
        anchors = [route.reply_to, asked if in_thread else None]
        for anchor in dict.fromkeys(each for each in anchors if each):
            try:
                return await self._api.reply(
                    route.chat_id, anchor, shape.kind, shape.body, uuid, in_thread=in_thread
                )
            except Rejected as error:
                if error.code not in GONE_CODES:
                    raise
                log.info("feishu_anchor_gone", channel=self._channel, error=str(error))
        return await self._api.send(route.chat_id, shape.kind, shape.body, uuid)

    def _reference(
        self, route: ReplyRoute, sent: Sent, form: str, card_id: str, sent_ms: int = 0
    ) -> MessageRef:
        since_ms = (sent_ms or self._clock.now_ms()) if card_id else 0
        reference = Reference(
            message_id=sent.message_id, form=form, card_id=card_id, since_ms=since_ms
        )
        # In a group of topics the route's thread is the first message; the topic's id comes now.
        is_new = route.thread is not None and sent.thread_id not in {"", route.thread}
        return MessageRef(id=reference.encode(), thread=sent.thread_id if is_new else None)
