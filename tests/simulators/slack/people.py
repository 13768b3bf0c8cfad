"""What people do in conversations: type, edit, delete, react, invite, archive; other bots post.

Each door changes the workspace and makes Slack send the app what it would. Commands, buttons and
the assistant container are in `interactions`.
"""

import mimetypes
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from .blocks import rich_text, wire_text
from .channel_view import ChannelView, MentionOrder
from .feed import Delivery
from .interactions import Interactions
from .workspace import Conversation, File, Json, Message, User


class SlashTextRefused(ValueError):
    """Slack's client does not send text that begins with `/`: it takes it for a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that a person attaches to a message."""

    name: str
    content: bytes
    mimetype: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class People:
    """The doors that stand for a human at Slack's client, and for other bots."""

    view: ChannelView
    interactions: Interactions

    async def user_says(
        self,
        channel: str,
        user: str,
        text: str,
        *,
        thread_ts: str | None = None,
        mention: bool = False,
        order: MentionOrder = "message_first",
        broadcast: bool = False,
        me: bool = False,
        files: Sequence[Upload] = (),
    ) -> str:
        """Type and send a message; returns its ts.

        `mention` puts the app's mention in front. `order` chooses which of the two events of a
        mention comes first, or that only one comes. `me` is `/me`. In an assistant DM a message
        without thread opens one.
        """
        if text.lstrip("\n").startswith("/") and not mention:
            command = text.split(maxsplit=1)[0]
            raise SlashTextRefused(
                f"{command} is not a valid command: Slack's client does not send text that begins"
                " with '/'; use slash_command(), '!stop' or a mention before it"
            )
        conversation, member = self.view.workspace.find_member(channel, user)
        if conversation.assistant and thread_ts is None:
            thread_ts = await self.interactions.open_assistant_thread(conversation.id, member.id)
        if thread_ts is not None and conversation.find(thread_ts) is None:
            raise LookupError(f"slack simulator: no thread {thread_ts} in {conversation.id}")
        typed = f"<@{self.view.workspace.bot.id}> {text}" if mention else text
        message = Message(
            channel=conversation.id,
            ts=self.view.workspace.next_ts(),
            user=member.id,
            text=wire_text(typed),
            thread_ts=thread_ts,
            client_msg_id=str(uuid.uuid4()),
            blocks=rich_text(typed, uuid.uuid4().hex[:5]) if typed and not me else [],
            files=[self._upload(each, member, conversation) for each in files],
        )
        if me:
            message.subtype = "me_message"
        elif files:
            message.subtype = "file_share"
        elif broadcast and thread_ts is not None:
            message.subtype, message.broadcast = "thread_broadcast", True
        self.view.post(message, order)
        for file in message.files:
            self._file_shared(file, conversation)
        return message.ts

    async def bot_says(
        self,
        channel: str,
        text: str,
        *,
        bot: str = "",
        thread_ts: str | None = None,
        classic: bool = False,
    ) -> str:
        """Another app's bot posts: with bot_id and user, or `classic` with subtype bot_message."""
        workspace = self.view.workspace
        conversation = workspace.find_conversation(channel)
        other = workspace.find_user(bot) if bot else self._other_bot()
        message = Message(
            channel=conversation.id,
            ts=workspace.next_ts(),
            user=None if classic else other.id,
            bot_id=other.bot_id,
            username=other.name if classic else "",
            subtype="bot_message" if classic else None,
            text=text,
            thread_ts=thread_ts,
        )
        self.view.post(message)
        return message.ts

    async def edit_message(self, channel: str, ts: str, text: str) -> None:
        """The author edits a message."""
        message = self.view.workspace.find_message(channel, ts)
        self.view.edit(
            message,
            wire_text(text),
            by=message.user or "",
            blocks=rich_text(text, uuid.uuid4().hex[:5]),
        )

    async def delete_message(self, channel: str, ts: str) -> None:
        """Someone deletes a message."""
        self.view.delete(self.view.workspace.find_message(channel, ts))

    async def react(self, channel: str, ts: str, user: str, name: str) -> Delivery:
        """Add an emoji to a message."""
        message = self.view.workspace.find_message(channel, ts)
        member = self.view.workspace.find_member(channel, user)[1]
        message.reactions.setdefault(name, []).append(member.id)
        return self.view.feed.publish(
            {
                "type": "reaction_added",
                "user": member.id,
                "reaction": name,
                "item": {"type": "message", "channel": message.channel, "ts": message.ts},
                "item_user": message.user,
                "event_ts": self.view.workspace.next_ts(),
            }
        )

    async def invite(self, channel: str, user: str) -> None:
        """Someone joins (or the app is invited); the app hears of it when it is a member."""
        self._membership(channel, user, joined=True)

    async def kick(self, channel: str, user: str) -> None:
        """Someone, or the app, is removed."""
        self._membership(channel, user, joined=False)

    async def archive(self, channel: str, *, archived: bool = True) -> None:
        """Archive or unarchive a channel."""
        workspace = self.view.workspace
        conversation = workspace.find_conversation(channel)
        conversation.archived = archived
        verb = "archive" if archived else "unarchive"
        noun = "channel" if conversation.kind == "channel" else "group"
        self.view.feed.publish(
            {
                "type": f"{noun}_{verb}",
                "channel": conversation.id,
                "event_ts": workspace.next_ts(),
            }
        )

    def _membership(self, channel: str, user: str, *, joined: bool) -> None:
        workspace = self.view.workspace
        conversation = workspace.find_conversation(channel)
        member = workspace.find_user(user)
        if joined:
            conversation.members.add(member.id)
        else:
            conversation.members.discard(member.id)
        noun = "channel" if conversation.kind == "channel" else "group"
        event: Json = {"channel": conversation.id, "event_ts": workspace.next_ts()}
        if member.id == workspace.bot.id and not joined:
            event["type"] = f"{noun}_left"
        elif workspace.bot_in(conversation):
            event |= {
                "type": "member_joined_channel" if joined else "member_left_channel",
                "user": member.id,
                "channel_type": "C" if noun == "channel" else "G",
                "team": workspace.team_id,
            }
        else:
            return
        self.view.feed.publish(event)

    def _upload(self, upload: Upload, member: User, conversation: Conversation) -> File:
        workspace = self.view.workspace
        guessed = mimetypes.guess_type(upload.name)[0] or "application/octet-stream"
        file = File(
            id=workspace.new_id("F0"),
            name=upload.name,
            mimetype=upload.mimetype or guessed,
            user=member.id,
            created=int(workspace.now()),
            size=len(upload.content),
            content=upload.content,
            shared_in=[conversation.id],
        )
        workspace.files[file.id] = file
        return file

    def _file_shared(self, file: File, conversation: Conversation) -> None:
        if not self.view.workspace.bot_in(conversation):
            return
        self.view.feed.publish(
            {
                "type": "file_shared",
                "file_id": file.id,
                "user_id": file.user,
                "file": {"id": file.id},
                "channel_id": conversation.id,
                "event_ts": self.view.workspace.next_ts(),
            }
        )

    def _other_bot(self) -> User:
        workspace = self.view.workspace
        others = (u for u in workspace.users.values() if u.bot_id and u is not workspace.bot)
        return next(others, None) or workspace.add_user("other-app", bot=True)
