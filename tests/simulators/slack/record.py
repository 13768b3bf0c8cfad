"""What the app did, read back: messages it posted, calls it made, acks it gave; and waiting.

Nothing here changes the workspace.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from .blocks import readable
from .channel_view import ChannelView
from .feed import Delivery
from .shapes import message_json
from .web_api import Call, WebApi
from .workspace import Json, Message

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message the bot posted, as it stands now."""

    channel: str
    ts: str
    text: str
    thread_ts: str | None
    edits: int
    revisions: tuple[str, ...]
    blocks: tuple[Json, ...]
    metadata: Json | None
    files: tuple[str, ...]
    reactions: tuple[str, ...]
    streaming: bool
    deleted: bool
    ephemeral_to: str

    @property
    def shown(self) -> str:
        """What a person reads: the blocks where there are any, else the text."""
        return readable(list(self.blocks)) or self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file in a message of the bot."""

    channel: str
    thread_ts: str | None
    name: str
    title: str
    content: bytes


@dataclass(slots=True, kw_only=True, eq=False)
class Record:
    """The reading doors; each list is a copy in order of happening."""

    view: ChannelView
    web_api: WebApi

    def sent(
        self, channel: str | None = None, *, thread_ts: str | None = None
    ) -> list[SentMessage]:
        """What the bot posted and did not delete, in order, with the final text."""
        return [m for m in self.posted(channel, thread_ts=thread_ts) if not m.deleted]

    def posted(
        self, channel: str | None = None, *, thread_ts: str | None = None
    ) -> list[SentMessage]:
        """As `sent`, deleted messages included."""
        place = self.view.workspace.find_conversation(channel).id if channel else None
        return [
            _sent(message)
            for message in self.view.workspace.posted
            if place in {None, message.channel} and thread_ts in {None, message.thread_ts}
        ]

    def ephemerals(self, channel: str | None = None) -> list[SentMessage]:
        """What only one person saw: ephemeral posts, answers to commands."""
        return [
            _sent(message)
            for message in self.view.workspace.ephemerals
            if channel in {None, message.channel} and not message.deleted
        ]

    def sent_files(self, channel: str | None = None) -> list[SentFile]:
        """The files that the bot brought into conversations, in order, with their bytes."""
        place = self.view.workspace.find_conversation(channel).id if channel else None
        return [
            SentFile(
                channel=message.channel,
                thread_ts=message.thread_ts,
                name=file.name,
                title=file.title,
                content=file.content or b"",
            )
            for message in self.view.workspace.posted
            if place in {None, message.channel} and not message.deleted
            for file in message.files
        ]

    def transcript(self, channel: str) -> list[Json]:
        """Every message of a conversation, as conversations.replies would show it, by ts."""
        return [
            message_json(self.view.workspace, message, files_url=self.view.base_url, metadata=True)
            for message in self.view.workspace.find_conversation(channel).messages
        ]

    def calls(self, method: str | None = None) -> list[Call]:
        """The recorded Web API calls, in order of arrival."""
        return [call for call in self.web_api.calls if method in {None, call.method}]

    def deliveries(self, ts: str | None = None) -> list[Delivery]:
        """What was pushed to the app; with `ts` only the events of that message."""
        return [each for each in self.view.feed.deliveries if ts in {None, each.event.get("ts")}]

    def acked(self) -> list[Delivery]:
        """Deliveries the app acknowledged."""
        return [each for each in self.view.feed.deliveries if each.state == "acked"]

    def unacked(self) -> list[Delivery]:
        """Deliveries without an ack: still pending, held back, or given up (`state`)."""
        return [each for each in self.view.feed.deliveries if each.state != "acked"]

    async def wait_for(
        self, look: Callable[[], T | None], *, timeout_s: float = 10.0, what: str = "a state"
    ) -> T:
        """Wait until `look()` is truthy and return it; TimeoutError tells what there was."""
        return await self.view.bell.until(
            look, timeout_s=timeout_s, what=lambda: f"{what}; {self._summary()}"
        )

    async def wait_sent(
        self,
        count: int = 1,
        *,
        channel: str | None = None,
        thread_ts: str | None = None,
        timeout_s: float = 10.0,
    ) -> list[SentMessage]:
        """Wait until the bot has `count` messages standing there (more are returned too)."""

        def look() -> list[SentMessage] | None:
            found = self.sent(channel, thread_ts=thread_ts)
            return found if len(found) >= count else None

        return await self.wait_for(look, timeout_s=timeout_s, what=f"{count} sent messages")

    async def wait_text(
        self, text: str, *, channel: str | None = None, timeout_s: float = 10.0
    ) -> SentMessage:
        """Wait until one of the bot's messages shows `text` somewhere."""

        def look() -> SentMessage | None:
            return next((m for m in self.sent(channel) if text in m.shown), None)

        return await self.wait_for(look, timeout_s=timeout_s, what=f"the text {text!r}")

    async def wait_connected(self, count: int = 1, *, timeout_s: float = 10.0) -> None:
        """Wait until `count` Socket Mode connections are open."""
        await self.wait_for(
            lambda: sum(not c.draining for c in self.web_api.sockets.connections) >= count,
            timeout_s=timeout_s,
            what=f"{count} connections",
        )

    async def wait_settled(self, *, timeout_s: float = 10.0) -> None:
        """Wait until every delivery is acknowledged or given up."""
        await self.wait_for(
            lambda: all(each.state in {"acked", "lost"} for each in self.view.feed.deliveries),
            timeout_s=timeout_s,
            what="all deliveries settled",
        )

    def _summary(self) -> str:
        sent = [(m.channel, m.thread_ts, m.shown[:80]) for m in self.sent()[-5:]]
        failed = [(c.method, c.error) for c in self.calls() if c.error][-5:]
        waiting = [(d.kind, d.state, d.event.get("type")) for d in self.unacked()[-5:]]
        return f"last sent {sent}; last errors {failed}; not acked {waiting}"


def _sent(message: Message) -> SentMessage:
    return SentMessage(
        channel=message.channel,
        ts=message.ts,
        text=message.text,
        thread_ts=message.thread_ts,
        edits=len(message.revisions) - 1,
        revisions=tuple(message.revisions),
        blocks=tuple(message.blocks),
        metadata=message.metadata,
        files=tuple(file.name for file in message.files),
        reactions=tuple(name for name, people in message.reactions.items() if people),
        streaming=message.streaming,
        deleted=message.deleted,
        ephemeral_to=message.ephemeral_to,
    )
