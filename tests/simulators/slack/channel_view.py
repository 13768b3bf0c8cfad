"""Changes of the workspace that the app hears about: each change and its event, in one place.

Both the Web API (the bot acts) and the doors (people act) go through here.
"""

from dataclasses import dataclass
from typing import Literal

from .blocks import mentions
from .feed import Delivery, Feed
from .shapes import changed_event, deleted_event, mention_event, message_event, message_json
from .waiting import Bell
from .workspace import Json, Message, Workspace

MentionOrder = Literal["message_first", "mention_first", "message_only", "mention_only"]


@dataclass(slots=True, kw_only=True)
class ChannelView:
    """Applies changes and publishes what Slack publishes."""

    workspace: Workspace
    feed: Feed
    bell: Bell
    base_url: str = ""

    def shape(self, message: Message, *, metadata: bool = False) -> Json:
        """A message as the API shows it."""
        return message_json(self.workspace, message, files_url=self.base_url, metadata=metadata)

    def post(self, message: Message, order: MentionOrder = "message_first") -> list[Delivery]:
        """Store a message and publish its event, or two when it mentions the app in a channel."""
        self.workspace.post(message)
        self.bell.ring()
        return self.announce(message, order)

    def announce(self, message: Message, order: MentionOrder = "message_first") -> list[Delivery]:
        """Publish the event or events of a message, in the order asked for."""
        workspace = self.workspace
        conversation = workspace.conversations[message.channel]
        mentioned = (
            conversation.kind != "im"
            and message.bot_id != workspace.bot.bot_id
            and mentions(message.text, workspace.bot.id)
        )
        events: list[Json] = []
        if workspace.bot_in(conversation) and order != "mention_only":
            events.append(message_event(workspace, message, files_url=self.base_url))
        if mentioned and order != "message_only":
            mention = mention_event(workspace, message, files_url=self.base_url)
            events.insert(0 if order == "mention_first" else len(events), mention)
        deliveries: list[Delivery] = []
        for event in events:
            after = deliveries[-1] if deliveries else None
            deliveries.append(self.feed.publish(event, after=after))
        return deliveries

    def edit(
        self, message: Message, text: str, *, by: str, blocks: list[Json] | None = None
    ) -> None:
        """Change a message and publish `message_changed`."""
        previous = self.shape(message)
        if blocks is not None:
            message.blocks = blocks
        self.workspace.revise(message, text, by=by)
        self.changed(message, previous)

    def changed(self, message: Message, previous: Json) -> None:
        """Publish `message_changed` for a change already made."""
        self.bell.ring()
        if message.ephemeral_to:
            return
        if self.workspace.bot_in(self.workspace.conversations[message.channel]):
            event = changed_event(self.workspace, message, previous, files_url=self.base_url)
            self.feed.publish(event)

    def delete(self, message: Message) -> None:
        """Remove a message and publish `message_deleted`."""
        previous = self.shape(message)
        if message.ephemeral_to:
            message.deleted = True
            self.bell.ring()
            return
        self.workspace.remove(message)
        self.bell.ring()
        if self.workspace.bot_in(self.workspace.conversations[message.channel]):
            self.feed.publish(deleted_event(self.workspace, message, previous))
