"""What people do: write, quote, post, forward, react, recall, press buttons; other bots write.

Each door changes the tenant and makes Feishu send the app what it would.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .callbacks import show
from .cards import buttons_on
from .feed import Delivery, Feed
from .shapes import envelope, mention, received
from .tenant import Chat, Json, Message, Tenant, User


@dataclass(slots=True, kw_only=True, eq=False)
class People:
    """The doors that stand for a human at Feishu's client, and for other bots."""

    tenant: Tenant
    feed: Feed
    token: str

    async def user_says(
        self,
        chat: str,
        user: str,
        text: str,
        *,
        mention: bool = False,
        mentions: Sequence[str] = (),
        mention_all: bool = False,
        quote: str = "",
        thread: str = "",
    ) -> str:
        """Type and send a text; returns its message id.

        mention: the bot stands in front; mentions: others stand behind it. quote: the message that
        is quoted. thread: the message whose topic it is written in (in any chat).
        """
        people = [self.tenant.bot] if mention else []
        people += [self.tenant.find_user(each) for each in mentions]
        marks = [f"@_user_{number}" for number, _ in enumerate(people, 1)]
        words = " ".join([*(["@_all"] if mention_all else []), *marks, text])
        content = json.dumps({"text": words}, ensure_ascii=False)
        return await self.user_sends(
            chat, user, "text", content, mentions=people, quote=quote, thread=thread
        )

    async def user_sends(
        self,
        chat: str,
        user: str,
        kind: str,
        content: str | Json,
        *,
        mentions: Sequence[User] = (),
        quote: str = "",
        thread: str = "",
    ) -> str:
        """Send a message of any kind; `content` is its JSON."""
        where, who = self.tenant.find_chat(chat), self.tenant.find_user(user)
        if who.open_id not in where.members:
            raise LookupError(f"feishu simulator: {who.name} is not in {where.id}")
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        message = self.tenant.post(where, who, kind, text)
        message.mentions = [
            mention(number, each, self.tenant.tenant_key) for number, each in enumerate(mentions, 1)
        ]
        self._place(where, message, quote, thread)
        self._push("im.message.receive_v1", received(self.tenant, where, message))
        return message.id

    async def forward(self, chat: str, user: str, message_ids: Sequence[str]) -> str:
        """Forward messages as one; returns its id. Forwards in it nest."""
        where, who = self.tenant.find_chat(chat), self.tenant.find_user(user)
        message = self.tenant.post(where, who, "merge_forward", "Merged and Forwarded Message")
        for message_id in reversed(message_ids):  # the order of the answer means nothing
            self._copy_into(message, self.tenant.find_message(message_id))
        self._push("im.message.receive_v1", received(self.tenant, where, message))
        return message.id

    async def add_file(self, name: str, content: bytes) -> str:
        """Upload a file for a message; returns its key."""
        key = self.tenant.new_id("file_v3_")
        self.tenant.files[key] = (name, content)
        return key

    async def recall(self, message_id: str) -> None:
        """Take a message back."""
        message = self.tenant.find_message(message_id)
        message.deleted = True
        self._push(
            "im.message.recalled_v1",
            {
                "message_id": message.id,
                "chat_id": message.chat_id,
                "recall_time": str(self.tenant.next_ms()),
                "recall_type": "message_owner",
            },
        )

    async def react(self, message_id: str, user: str, emoji: str = "OK") -> None:
        """Put a reaction on a message."""
        self._push(
            "im.message.reaction.created_v1",
            {
                "message_id": message_id,
                "reaction_type": {"emoji_type": emoji},
                "operator_type": "user",
                "user_id": self.tenant.find_user(user).ids,
                "action_time": str(self.tenant.next_ms()),
            },
        )

    async def press_button(self, message_id: str, user: str, button: str | Json) -> Delivery:
        """Press the button with these words on it, or one that sends any value; the answer is in
        the delivery once it is settled.
        """
        message = self.tenant.find_message(message_id)
        value = self._value_of(message, button) if isinstance(button, str) else button
        operator = {**self.tenant.find_user(user).ids, "tenant_key": self.tenant.tenant_key}
        context = {"open_message_id": message.id, "open_chat_id": message.chat_id}
        delivery = self._push(
            "card.action.trigger",
            {
                "operator": operator,
                "token": self.tenant.new_id("c-"),
                "action": {"value": value, "tag": "button"},
                "host": "im_message",
                "context": context,
            },
        )
        self.feed.spawn(self._show(delivery, message.id))
        return delivery

    async def _show(self, delivery: Delivery, message_id: str) -> None:
        """Show the card that the answer brings, if it brings one."""
        await delivery.settled.wait()
        if delivery.state == "acked":
            show(self.tenant, message_id, delivery.answer)

    def _value_of(self, message: Message, label: str) -> object:
        card = self.tenant.cards.get(message.card_id)
        content = json.loads(message.content) if card is None else card.content
        buttons = dict(buttons_on(content))
        if label not in buttons:
            raise LookupError(f"feishu simulator: no button {label!r} on {message.id}")
        return buttons[label]

    async def open_chat(self, user: str) -> None:
        """Open the direct chat with the bot."""
        who = self.tenant.find_user(user)
        chat = self.tenant.dm_of(who)
        self._push(
            "im.chat.access_event.bot_p2p_chat_entered_v1",
            {"chat_id": chat.id, "operator_id": who.ids},
        )

    async def choose_in_menu(self, user: str, event_key: str) -> Delivery:
        """Choose an entry of the bot's menu, which does not say in which chat it stands."""
        who = self.tenant.find_user(user)
        operator = {"operator_name": who.name, "operator_id": who.ids}
        timestamp = int(self.tenant.now())
        event = {"operator": operator, "event_key": event_key, "timestamp": timestamp}
        return self._push("application.bot.menu_v6", event)

    async def add_bot(self, chat: str) -> None:
        """Invite the bot."""
        where = self.tenant.find_chat(chat)
        where.members.add(self.tenant.bot.open_id)
        self._push("im.chat.member.bot.added_v1", {"chat_id": where.id, "name": where.name})

    async def remove_bot(self, chat: str) -> None:
        """Throw the bot out."""
        where = self.tenant.find_chat(chat)
        where.members.discard(self.tenant.bot.open_id)
        self._push("im.chat.member.bot.deleted_v1", {"chat_id": where.id, "name": where.name})

    def _push(self, event_type: str, event: Json) -> Delivery:
        return self.feed.send(envelope(self.tenant, self.token, event_type, event))

    def _place(self, chat: Chat, message: Message, quote: str, thread: str) -> None:
        """Fill in where a message stands, as Feishu's events tell it."""
        if thread:
            root = self.tenant.find_message(thread)
            message.root_id = message.parent_id = root.id
            message.thread_id = self.tenant.thread_of(root)
        if quote:
            quoted = self.tenant.find_message(quote)
            message.parent_id = quoted.id
            message.root_id = message.root_id or quoted.root_id or quoted.id
        if chat.has_topics and not thread:
            message.thread_id = ""  # told only later: the topic has no id yet

    def _copy_into(self, parent: Message, original: Message) -> None:
        copy = self.tenant.post(
            self.tenant.chats[original.chat_id],
            original.sender,
            original.kind,
            original.content,
            upper_id=parent.id,
        )
        copy.create_ms, copy.mentions = original.create_ms, original.mentions
        inside: list[Any] = [
            each for each in self.tenant.messages.values() if each.upper_id == original.id
        ]
        for each in inside:
            self._copy_into(copy, each)
