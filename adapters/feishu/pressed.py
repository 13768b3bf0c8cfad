"""Takes the buttons off a card whose question is decided.

The presser has his answer by then; this runs beside everything else, at best effort: buttons that
stay decide nothing any more, and the next press of one takes them off.
"""

from __future__ import annotations

import asyncio

import structlog

from adapters.feishu.api import FeishuApi
from adapters.feishu.buttons import without_buttons
from adapters.payload import dump, object_of, parse, text_of
from clawbot.errors import SendError

log = structlog.get_logger(__name__)

_AT_MOST = 100


class PressedCards:
    """The cards of one account that are being redrawn."""

    def __init__(self, channel: str, api: FeishuApi) -> None:
        self._channel = channel
        self._api = api
        self._tasks: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()  # two presses on one card must both show

    def settle(self, message_id: str, command: str) -> None:
        """Begin to take off the buttons about what `command` is about; returns at once."""
        if not message_id or len(self._tasks) >= _AT_MOST:
            return
        task = asyncio.create_task(self._redraw(message_id, command), name="feishu pressed card")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _redraw(self, message_id: str, command: str) -> None:
        try:
            async with self._one_at_a_time:
                for message in (await self._api.message(message_id))[:1]:
                    content = object_of(message.get("body")).get("content")
                    card = without_buttons(object_of(parse(text_of(content))), command)
                    if card is not None:
                        await self._api.redraw(message_id, dump(card))
        except SendError as error:
            log.info("feishu_buttons_left", channel=self._channel, error=str(error))
