"""What the app did, read back: messages it sent, calls it made, acks it gave; and waiting.

Nothing here changes the tenant.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from .bell import Bell
from .cards import buttons_on, readable, text_of
from .feed import Delivery, Feed
from .long_connection import LongConnection
from .open_api import Call, OpenApi
from .tenant import Message, Tenant, Upload

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message the bot sent, as it stands now. `streaming`: its card still looks unfinished;
    `buttons`: what stands on those that can be pressed; `data`: the bytes of a file or picture.
    """

    id: str
    chat: str
    kind: str
    text: str
    content: str
    thread_id: str
    root_id: str
    parent_id: str
    uuid: str
    edits: int
    revisions: tuple[str, ...]
    streaming: bool
    was_streaming: bool
    deleted: bool
    buttons: tuple[str, ...] = ()
    file_name: str = ""
    data: bytes = b""


@dataclass(slots=True, kw_only=True, eq=False)
class Record:
    """The reading doors; each list is a copy in order of happening."""

    tenant: Tenant
    bell: Bell
    feed: Feed
    open_api: OpenApi
    sockets: LongConnection

    def sent(self, chat: str | None = None, *, thread_id: str | None = None) -> list[SentMessage]:
        """What the bot sent and did not take back, in order, with the final text."""
        return [m for m in self.posted(chat, thread_id=thread_id) if not m.deleted]

    def posted(self, chat: str | None = None, *, thread_id: str | None = None) -> list[SentMessage]:
        """As `sent`, recalled messages included."""
        place = self.tenant.find_chat(chat).id if chat else None
        return [
            self._sent(message)
            for message in self.tenant.posted
            if place in {None, message.chat_id} and thread_id in {None, message.thread_id}
        ]

    def reactions(self, message_id: str) -> list[str]:
        """The app's reactions on a message now."""
        found = self.tenant.find_message(message_id).reactions.values()
        return [each.emoji for each in found if each.by_app]

    def buttons(self, message_id: str) -> dict[str, object]:
        """What the buttons of a message send when they are pressed, by what stands on them."""
        message = self.tenant.find_message(message_id)
        card = self.tenant.cards.get(message.card_id)
        return dict(buttons_on(json.loads(message.content) if card is None else card.content))

    def calls(self, api: str | None = None) -> list[Call]:
        """The recorded calls, in order of arrival."""
        return [call for call in self.open_api.calls if api in {None, call.api}]

    def deliveries(self, message_id: str | None = None) -> list[Delivery]:
        """What was pushed to the app; with an id only the events of that message."""
        return [d for d in self.feed.deliveries if message_id in {None, d.message_id}]

    def acked(self) -> list[Delivery]:
        """Deliveries the app acknowledged."""
        return [each for each in self.feed.deliveries if each.state == "acked"]

    def unacked(self) -> list[Delivery]:
        """Deliveries without an ack: still pending, held back, or given up (`state`)."""
        return [each for each in self.feed.deliveries if each.state != "acked"]

    async def wait_for(
        self, look: Callable[[], T | None], *, timeout_s: float = 10.0, what: str = "a state"
    ) -> T:
        """Wait until `look()` is truthy and return it; TimeoutError tells what there was."""
        return await self.bell.until(
            look, timeout_s=timeout_s, what=lambda: f"{what}; {self._summary()}"
        )

    async def wait_sent(
        self,
        count: int = 1,
        *,
        chat: str | None = None,
        thread_id: str | None = None,
        timeout_s: float = 10.0,
    ) -> list[SentMessage]:
        """Wait until the bot has `count` messages standing there (more are returned too)."""

        def look() -> list[SentMessage] | None:
            found = self.sent(chat, thread_id=thread_id)
            return found if len(found) >= count else None

        return await self.wait_for(look, timeout_s=timeout_s, what=f"{count} sent messages")

    async def wait_text(
        self, text: str, *, chat: str | None = None, timeout_s: float = 10.0
    ) -> SentMessage:
        """Wait until one of the bot's messages shows `text` somewhere."""

        def look() -> SentMessage | None:
            return next((m for m in self.sent(chat) if text in m.text), None)

        return await self.wait_for(look, timeout_s=timeout_s, what=f"the text {text!r}")

    async def wait_connected(self, count: int = 1, *, timeout_s: float = 10.0) -> None:
        """Wait until `count` long connections are open."""
        await self.wait_for(
            lambda: len(self.sockets.connections) >= count,
            timeout_s=timeout_s,
            what=f"{count} connections",
        )

    async def wait_settled(self, *, timeout_s: float = 10.0) -> None:
        """Wait until every delivery is acknowledged or given up."""
        await self.wait_for(
            lambda: all(each.state in {"acked", "lost"} for each in self.feed.deliveries),
            timeout_s=timeout_s,
            what="all deliveries settled",
        )

    def _sent(self, message: Message) -> SentMessage:
        card = self.tenant.cards.get(message.card_id)
        shown = readable(message.kind, message.content) if card is None else text_of(card.content)
        inline = json.loads(message.content) if message.kind == "interactive" else {}
        config = inline.get("config", {}) if card is None else card.content.get("config", {})
        upload = self._upload_of(message)
        return SentMessage(
            id=message.id,
            chat=message.chat_id,
            kind=message.kind,
            text=shown,
            content=message.content,
            thread_id=message.thread_id,
            root_id=message.root_id,
            parent_id=message.parent_id,
            uuid=message.uuid,
            edits=message.edits,
            revisions=tuple(message.revisions),
            streaming=bool(config.get("streaming_mode")),
            was_streaming=card is not None and card.was_streaming,
            deleted=message.deleted,
            file_name=upload.name,
            data=upload.data,
            buttons=tuple(
                label for label, _ in buttons_on(inline if card is None else card.content)
            ),
        )

    def _upload_of(self, message: Message) -> Upload:
        content = json.loads(message.content)
        key = content.get("image_key") or content.get("file_key")
        return self.tenant.uploads.get(str(key), Upload(kind="", name="", data=b""))

    def _summary(self) -> str:
        sent = [(m.chat, m.thread_id, m.text[:80]) for m in self.sent()[-5:]]
        failed = [(c.api, c.code, c.fault) for c in self.calls() if c.code or c.fault][-5:]
        waiting = [(d.event_type, d.state, d.reasons[-3:]) for d in self.unacked()[-5:]]
        return f"last sent {sent}; last failures {failed}; not acked {waiting}"
