"""The state of one Slack workspace: people, conversations, messages, files. No network, no events.

Ids look like Slack's and differ in case-insensitive ways from nothing that clients may rely on.
"""

import random
import string
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
Kind = Literal["channel", "group", "im", "mpim"]
_ALPHABET = string.digits + string.ascii_uppercase


@dataclass(slots=True, kw_only=True)
class User:
    """A member of the workspace; bots have a user and a bot id."""

    id: str
    name: str
    real_name: str
    bot_id: str = ""
    app_id: str = ""


@dataclass(slots=True, kw_only=True)
class File:
    """An uploaded file; `content` is None between getUploadURLExternal and the upload."""

    id: str
    name: str
    mimetype: str
    user: str
    created: int
    size: int
    title: str = ""
    content: bytes | None = None
    shared_in: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Message:
    """A posted message with all its revisions."""

    channel: str
    ts: str
    user: str | None
    text: str
    thread_ts: str | None = None
    subtype: str | None = None
    bot_id: str = ""
    username: str = ""
    client_msg_id: str = ""
    blocks: list[Json] = field(default_factory=list)
    attachments: list[Json] = field(default_factory=list)
    metadata: Json | None = None
    files: list[File] = field(default_factory=list)
    reactions: dict[str, list[str]] = field(default_factory=dict)
    edited: Json | None = None
    revisions: list[str] = field(default_factory=list)
    root: bool = True
    broadcast: bool = False
    streaming: bool = False
    streamed_at: float = 0.0
    deleted: bool = False
    ephemeral_to: str = ""


@dataclass(slots=True, kw_only=True)
class Conversation:
    """A channel, private channel, DM or group DM."""

    id: str
    name: str
    kind: Kind
    members: set[str]
    created: int
    archived: bool = False
    assistant: bool = False
    messages: list[Message] = field(default_factory=list)

    def find(self, ts: str) -> Message | None:
        """The message with this ts, if it is still there."""
        return next((m for m in self.messages if m.ts == ts), None)

    def replies(self, ts: str) -> list[Message]:
        """The replies of a thread, oldest first, without its root."""
        return [m for m in self.messages if m.thread_ts == ts and m.ts != ts]


class Workspace:
    """One team with one app installed in it."""

    def __init__(
        self,
        *,
        bot_name: str = "robot",
        seed: int = 1,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._random = random.Random(seed)  # noqa: S311  # ids must repeat from run to run
        self._last_us = 0
        self.now = now
        self.team_id = self.new_id("T0")
        self.team_name = "Example Team"
        self.team_domain = "example-team"
        self.app_id = self.new_id("A0")
        self.users: dict[str, User] = {}
        self.conversations: dict[str, Conversation] = {}
        self.files: dict[str, File] = {}
        self.posted: list[Message] = []
        self.ephemerals: list[Message] = []
        self.views: dict[str, Json] = {}
        self.assistant_calls: list[Json] = []
        self.thread_status: dict[tuple[str, str], str] = {}
        self.bot = self.add_user(bot_name, bot=True, app_id=self.app_id)

    def new_id(self, prefix: str) -> str:
        """A fresh id such as C08K2M1P9QX."""
        return prefix + "".join(self._random.choices(_ALPHABET, k=9))

    def next_ts(self) -> str:
        """A ts that no other message has and that is later than every earlier one."""
        self._last_us = max(int(self.now() * 1_000_000), self._last_us + 1)
        return f"{self._last_us // 1_000_000}.{self._last_us % 1_000_000:06d}"

    def add_user(
        self, name: str, *, user_id: str = "", bot: bool = False, app_id: str = ""
    ) -> User:
        """A new member; with `bot` one that has a bot id and an app."""
        user = User(
            id=user_id or self.new_id("U0"),
            name=name,
            real_name=name.title(),
            bot_id=self.new_id("B0") if bot else "",
            app_id=(app_id or self.new_id("A0")) if bot else "",
        )
        self.users[user.id] = user
        return user

    def add_conversation(
        self, kind: Kind, *, name: str, members: set[str], conversation_id: str = ""
    ) -> Conversation:
        """A new conversation; ids begin with C, G (private, as old ones do) or D."""
        prefix = {"channel": "C0", "group": "G0", "im": "D0", "mpim": "G0"}[kind]
        conversation = Conversation(
            id=conversation_id or self.new_id(prefix),
            name=name,
            kind=kind,
            members=members,
            created=int(self.now()),
        )
        self.conversations[conversation.id] = conversation
        return conversation

    def find_user(self, name_or_id: str) -> User:
        """By id or name; LookupError otherwise."""
        for user in self.users.values():
            if name_or_id in {user.id, user.name}:
                return user
        raise LookupError(f"slack simulator: no user {name_or_id!r}; create it first")

    def find_conversation(self, name_or_id: str) -> Conversation:
        """By id, `name` or `#name`; LookupError otherwise."""
        if found := self.lookup_conversation(name_or_id):
            return found
        raise LookupError(f"slack simulator: no conversation {name_or_id!r}; create it first")

    def find_member(self, channel: str, user: str) -> tuple[Conversation, User]:
        """A conversation and a member who can write there; LookupError otherwise."""
        conversation, member = self.find_conversation(channel), self.find_user(user)
        if member.id not in conversation.members:
            raise LookupError(
                f"slack simulator: {member.name} is not in {conversation.id}; invite() first"
            )
        if conversation.archived:
            raise LookupError(f"slack simulator: {conversation.id} is archived")
        return conversation, member

    def find_message(self, channel: str, ts: str) -> Message:
        """A message on the screen, ephemeral ones too; LookupError otherwise."""
        conversation = self.find_conversation(channel)
        private = (m for m in self.ephemerals if m.ts == ts and not m.deleted)
        if (found := conversation.find(ts) or next(private, None)) is None:
            raise LookupError(f"slack simulator: no message {ts} in {conversation.id}")
        return found

    def lookup_conversation(self, name_or_id: str) -> Conversation | None:
        """As `find_conversation`, but None when there is none."""
        if name_or_id in self.conversations:
            return self.conversations[name_or_id]
        wanted = name_or_id.removeprefix("#")
        named = (c for c in self.conversations.values() if c.kind != "im" and c.name == wanted)
        return next(named, None)

    def open_im(self, user_id: str, *, with_bot: str = "") -> Conversation:
        """The DM between a user and the app's bot, made at first use."""
        bot = with_bot or self.bot.id
        for conversation in self.conversations.values():
            if conversation.kind == "im" and conversation.members == {user_id, bot}:
                return conversation
        return self.add_conversation("im", name="", members={user_id, bot})

    def bot_in(self, conversation: Conversation) -> bool:
        """Whether the app's bot is a member."""
        return self.bot.id in conversation.members

    def post(self, message: Message) -> Message:
        """Store a message and mark it as a reply if it is one."""
        message.root = message.thread_ts in {None, message.ts}
        message.revisions.append(message.text)
        self.conversations[message.channel].messages.append(message)
        if message.bot_id == self.bot.bot_id:
            self.posted.append(message)
            self.thread_status.pop((message.channel, message.thread_ts or ""), None)
        return message

    def revise(self, message: Message, text: str, *, by: str, mark: bool = True) -> None:
        """A new revision of a message; `mark` says whether Slack shows it as edited."""
        message.text = text
        message.revisions.append(text)
        if mark:
            message.edited = {"user": by, "ts": self.next_ts()}

    def remove(self, message: Message) -> None:
        """Delete; a thread's root leaves a tombstone, as on Slack."""
        conversation = self.conversations[message.channel]
        message.deleted = True
        conversation.messages.remove(message)
        if conversation.replies(message.ts):
            conversation.messages.append(
                Message(
                    channel=message.channel,
                    ts=message.ts,
                    user="USLACKBOT",
                    text="This message was deleted.",
                    thread_ts=message.ts,
                    subtype="tombstone",
                )
            )
            conversation.messages.sort(key=lambda each: each.ts)
