"""The state of one Feishu tenant with one app: people, chats, messages, cards. No network."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
UUID_KEPT_S = 3600.0
ChatKind = Literal["p2p", "group", "topic"]


@dataclass(slots=True, kw_only=True)
class User:
    """A person, or another app's bot (`app_id` set)."""

    open_id: str
    name: str
    app_id: str = ""

    @property
    def ids(self) -> Json:
        """The ids of an event; `user_id` needs a scope that this app does not have."""
        return {
            "open_id": self.open_id,
            "union_id": self.open_id.replace("ou_", "on_"),
            "user_id": "",
        }


@dataclass(slots=True, kw_only=True)
class Reaction:
    """An emoji on a message."""

    id: str
    emoji: str
    operator_id: str
    by_app: bool


@dataclass(slots=True, kw_only=True)
class Message:
    """A message with all its revisions."""

    id: str
    chat_id: str
    sender: User
    kind: str
    content: str
    create_ms: int
    root_id: str = ""
    parent_id: str = ""
    thread_id: str = ""
    upper_id: str = ""
    uuid: str = ""
    card_id: str = ""
    mentions: list[Json] = field(default_factory=list)
    reactions: dict[str, Reaction] = field(default_factory=dict)
    revisions: list[str] = field(default_factory=list)
    edits: int = 0
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """What the app uploaded for a message. kind: image, or a type of file."""

    kind: str
    name: str
    data: bytes


@dataclass(slots=True, kw_only=True)
class Card:
    """A card of the card kit. `sequences` holds the numbers of all changes that were taken."""

    id: str
    content: Json
    sequences: list[int] = field(default_factory=list)
    message_id: str = ""
    was_streaming: bool = False

    @property
    def streaming(self) -> bool:
        """Whether it still looks as if it grew."""
        return bool(self.content.get("config", {}).get("streaming_mode"))


@dataclass(slots=True, kw_only=True)
class Chat:
    """A chat; a group's messages may be topics, as its mode or as its message format."""

    id: str
    name: str
    kind: ChatKind
    members: set[str]
    topic_format: bool = False
    declared_type: str = ""
    messages: list[Message] = field(default_factory=list)

    @property
    def has_topics(self) -> bool:
        """Whether each message begins a topic."""
        return self.kind == "topic" or self.topic_format


class Tenant:
    """One tenant with one app installed in it."""

    def __init__(self, *, bot_name: str, seed: int, now: Callable[[], float] = time.time) -> None:
        self._random = random.Random(seed)  # noqa: S311  # ids must repeat from run to run
        self._last_ms = 0
        self.now = now
        self.tenant_key = self.new_id("tk_")
        self.app_id = self.new_id("cli_a")
        self.users: dict[str, User] = {}
        self.chats: dict[str, Chat] = {}
        self.messages: dict[str, Message] = {}
        self.cards: dict[str, Card] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.uploads: dict[str, Upload] = {}
        self.uuids: dict[str, tuple[str, float]] = {}
        self.posted: list[Message] = []
        self.bot = self.add_user(bot_name, app_id=self.app_id)

    def new_id(self, prefix: str) -> str:
        """A fresh id."""
        return prefix + f"{self._random.getrandbits(64):016x}"

    def next_ms(self) -> int:
        """A time that no other message has."""
        self._last_ms = max(int(self.now() * 1000), self._last_ms + 1)
        return self._last_ms

    def add_user(self, name: str, *, open_id: str = "", app_id: str = "") -> User:
        """A new person, or a bot."""
        user = User(open_id=open_id or self.new_id("ou_"), name=name, app_id=app_id)
        self.users[user.open_id] = user
        return user

    def add_chat(self, kind: ChatKind, *, name: str, members: set[str], chat_id: str = "") -> Chat:
        """A new chat."""
        chat = Chat(id=chat_id or self.new_id("oc_"), name=name, kind=kind, members=members)
        self.chats[chat.id] = chat
        return chat

    def find_user(self, name_or_id: str) -> User:
        """By id or name; LookupError otherwise."""
        for user in self.users.values():
            if name_or_id in {user.open_id, user.name}:
                return user
        raise LookupError(f"feishu simulator: no user {name_or_id!r}; create it first")

    def find_chat(self, name_or_id: str) -> Chat:
        """By id or name; LookupError otherwise."""
        for chat in self.chats.values():
            if name_or_id in {chat.id, chat.name}:
                return chat
        raise LookupError(f"feishu simulator: no chat {name_or_id!r}; create it first")

    def find_message(self, message_id: str) -> Message:
        """By id; LookupError otherwise."""
        if message_id not in self.messages:
            raise LookupError(f"feishu simulator: no message {message_id!r}")
        return self.messages[message_id]

    def dm_of(self, user: User) -> Chat:
        """The chat of a person with the bot, made at first use."""
        wanted = {user.open_id, self.bot.open_id}
        for chat in self.chats.values():
            if chat.kind == "p2p" and chat.members == wanted:
                return chat
        return self.add_chat("p2p", name="", members=wanted)

    def post(self, chat: Chat, sender: User, kind: str, content: str, **fields: Any) -> Message:
        """Store a message."""
        message = Message(
            id=self.new_id("om_"),
            chat_id=chat.id,
            sender=sender,
            kind=kind,
            content=content,
            create_ms=self.next_ms(),
            **fields,
        )
        message.revisions.append(content)
        self.messages[message.id] = message
        if not message.upper_id:
            chat.messages.append(message)
        if sender is self.bot:
            self.posted.append(message)
        return message

    def message_under(self, uuid: str) -> Message | None:
        """The message that was sent under a uuid within the last hour."""
        message_id, at = self.uuids.get(uuid, ("", 0.0))
        return self.messages[message_id] if message_id and self.now() - at < UUID_KEPT_S else None

    def thread_of(self, root: Message) -> str:
        """The id of the topic that a message begins, made at first use."""
        root.thread_id = root.thread_id or self.new_id("omt_")
        return root.thread_id

    def revise(self, message: Message, content: str) -> None:
        """A new revision of a message."""
        message.content = content
        message.revisions.append(content)
