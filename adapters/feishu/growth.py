"""Keeps a sent message up to date while its text grows, and closes it in the end.

The text is always given whole, so that an update which Feishu does not take in time is left out:
the next one brings more. Only the last one must succeed, by whatever way is left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from adapters.feishu.api import FeishuApi
from adapters.feishu.buttons import buttons_of
from adapters.feishu.failures import SEQUENCE_CODES
from adapters.feishu.messenger import Messenger
from adapters.feishu.outbound import ELEMENT, card, card_text, closing_settings, content
from adapters.feishu.references import CARD, STREAM, Reference
from adapters.recent import Recent
from clawbot.errors import OutcomeUnknown, Rejected, SendError
from clawbot.messages import OutboundPart
from clawbot.ports import Clock

log = structlog.get_logger(__name__)

_KEPT_S = 3600.0
_MAX_GROWING = 5_000
_EDITS_FOR_GROWTH = 15  # of 20; the others are for the end
_FIRST_GAP_S = 1.5
_GAP_GROWTH = 1.25
_PER_SECOND = 40.0  # "50 per second" for an app
_LONGEST_QUEUE_S = 0.5
_SEQUENCE_JUMPS = (1_000, 60_000, 3_600_000)


@dataclass(slots=True)
class _State:
    """What this process knows of a message that grows."""

    card_id: str = ""
    sequence: int = 0
    edits: int = 0
    edit_from: float = 0.0


class Growth:
    """Changes sent messages."""

    def __init__(self, channel: str, api: FeishuApi, messenger: Messenger, clock: Clock) -> None:
        self._channel = channel
        self._api = api
        self._messenger = messenger
        self._clock = clock
        self._states: Recent[_State] = Recent(clock, kept_s=_KEPT_S, at_most=_MAX_GROWING)
        self._free_at = 0.0

    async def edit(self, ref: str, part: OutboundPart) -> None:
        """Make the message show the part; see `ports.Editor`."""
        reference = Reference.decode(ref)
        state = self._states.get(reference.message_id) or _State()
        self._states.remember(reference.message_id, state)
        if not part.is_final and not self._is_time(reference, state):
            return
        try:
            await self._show(reference, state, part)
        except Rejected as error:
            if part.is_revision:
                raise
            if not part.is_final:
                log.info("feishu_growth_refused", channel=self._channel, error=str(error))
                return
            await self._send_anew(reference, part, error)
        except SendError as error:
            if part.is_final:
                raise
            log.info("feishu_growth_left_out", channel=self._channel, error=str(error))
        if part.is_final:
            self._states.forget(reference.message_id)

    def _is_time(self, reference: Reference, state: _State) -> bool:
        """Whether an update that is not the last one fits into what Feishu allows."""
        now = self._clock.monotonic()
        if reference.form in {STREAM, CARD}:
            if self._free_at > now + _LONGEST_QUEUE_S:
                return False
            self._free_at = max(self._free_at, now) + 1 / _PER_SECOND
            return True
        if state.edits >= _EDITS_FOR_GROWTH or now < state.edit_from:
            return False
        state.edit_from = now + _FIRST_GAP_S * _GAP_GROWTH**state.edits
        return True

    async def _show(self, reference: Reference, state: _State, part: OutboundPart) -> None:
        if reference.form == STREAM:
            await self._show_in_stream(reference, state, part)
        elif reference.form == CARD:
            drawn = card(part.text, part.progress, buttons=buttons_of(part))
            await self._api.redraw(reference.message_id, drawn)
        else:
            state.edits += 1
            kind, body = content(part.text, reference.form, part.progress)
            await self._api.rewrite(reference.message_id, kind, body)

    async def _show_in_stream(
        self, reference: Reference, state: _State, part: OutboundPart
    ) -> None:
        card_id = await self._card_id(reference, state)
        text = card_text(part.text, part.progress)
        try:
            await self._in_sequence(
                reference, state, lambda number: self._api.grow_card(card_id, ELEMENT, text, number)
            )
            if part.is_final:
                settings = closing_settings(part.text)
                await self._in_sequence(
                    reference, state, lambda number: self._api.set_card(card_id, settings, number)
                )
        except Rejected as error:
            if not part.is_final:
                raise
            # Feishu ends streaming by itself after ten minutes; the card can be replaced still.
            log.info("feishu_stream_ended", channel=self._channel, error=str(error))
            whole = card(part.text, part.progress)
            await self._in_sequence(
                reference, state, lambda number: self._api.replace_card(card_id, whole, number)
            )

    async def _card_id(self, reference: Reference, state: _State) -> str:
        """The card that the message shows. A send that is repeated under its uuid after a crash has
        made a second card, which nobody sees; only Feishu knows which one the message took.
        """
        if not state.card_id:
            try:
                state.card_id = await self._api.card_of(reference.message_id)
            except (Rejected, OutcomeUnknown) as error:
                log.info("feishu_card_not_told", channel=self._channel, error=str(error))
            state.card_id = state.card_id or reference.card_id
        return state.card_id

    async def _in_sequence(
        self, reference: Reference, state: _State, change: Callable[[int], Awaitable[None]]
    ) -> None:
        """Make a change with a number greater than every one before, in whichever process: the time
        since the message was sent, or beyond where a clock was ahead.
        """
        elapsed_ms = self._clock.now_ms() - reference.since_ms
        number = max(elapsed_ms, state.sequence + 1, 1)
        for jump in (*_SEQUENCE_JUMPS, None):
            state.sequence = number
            try:
                await change(number)
            except Rejected as error:
                if error.code not in SEQUENCE_CODES or jump is None:
                    raise
                number += jump
            else:
                return

    async def _send_anew(self, reference: Reference, part: OutboundPart, error: Rejected) -> None:
        """The last text must be readable: in a message of its own, in place of the old one."""
        log.warning("feishu_sent_anew", channel=self._channel, error=str(error))
        digest = hashlib.sha256(f"{part.key} again".encode()).hexdigest()
        await self._messenger.resend(part, f"clawbot-{digest[:40]}")
        try:
            await self._api.recall(reference.message_id)
        except SendError as failure:
            log.info("feishu_old_not_recalled", channel=self._channel, error=str(failure))
