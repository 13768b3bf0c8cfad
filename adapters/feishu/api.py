"""Every method of Feishu's Open API that we call; how a call is made is in `calls`.

Who calls knows what may be repeated. A message with a `uuid` may: it is sent once an hour.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from adapters.feishu.calls import Calls, Form
from adapters.feishu.config import FeishuConfig
from adapters.feishu.facts import Identity
from adapters.payload import Json, object_of, objects_of, text_of
from clawbot.errors import NotSent
from clawbot.ports import Clock

_IM = "/open-apis/im/v1"
_CARDS = "/open-apis/cardkit/v1/cards"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message that Feishu took; under a known uuid the one that it took before.

    thread_id: the topic it stands in, if any. kind, content: what the message is and shows.
    """

    message_id: str
    thread_id: str
    kind: str
    content: str


def sent_of(record: Json) -> Sent:
    """The message that the API tells of."""
    return Sent(
        message_id=text_of(record.get("message_id")),
        thread_id=text_of(record.get("thread_id")),
        kind=text_of(record.get("msg_type")),
        content=text_of(object_of(record.get("body")).get("content")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where to open a long connection. config: what Feishu wants of the client, as sent."""

    url: str
    config: Json


class FeishuApi:
    """The Open API as one app. Methods raise NotSent, Rejected or OutcomeUnknown."""

    def __init__(self, config: FeishuConfig, clock: Clock) -> None:
        self._config = config
        self._calls = Calls(config, clock)

    def share_with(self, processes: Callable[[], int]) -> None:
        """Keep to a share of Feishu's rates when so many processes serve the app."""
        self._calls.pacer.processes = processes

    @property
    def session(self) -> aiohttp.ClientSession:
        """See `Calls.session`."""
        return self._calls.session

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._calls.close()

    # -- who we are --------------------------------------------------------------------------------

    async def identify(self) -> Identity:
        """Who the bot is, as this app sees it."""
        answer = await self._calls.call("bot.info", "GET", "/open-apis/bot/v3/info")
        bot = object_of(answer.get("bot")) or object_of(object_of(answer.get("data")).get("bot"))
        return Identity(
            open_id=text_of(bot.get("open_id")),
            app_id=self._config.app_id,
            name=text_of(bot.get("app_name")),
        )

    async def open_connection(self) -> Endpoint:
        """Ask for the address of a long connection; good for one connection, soon."""
        name = "ws.endpoint"
        body = {"AppID": self._config.app_id, "AppSecret": self._calls.secret}
        answer = await self._calls.once(name, "POST", "/callback/ws/endpoint", body=body)
        data = object_of(answer.get("data"))
        url = text_of(data.get("URL"))
        if not url:
            raise NotSent(f"feishu {name}: the answer holds no URL")
        return Endpoint(url=url, config=object_of(data.get("ClientConfig")))

    # -- messages ----------------------------------------------------------------------------------

    async def send(self, chat_id: str, kind: str, content: str, uuid: str) -> Sent:
        """Send a message into a chat; with the same uuid at most once an hour."""
        id_type = "open_id" if chat_id.startswith("ou_") else "chat_id"
        return await self._sent(
            "message.create",
            f"{_IM}/messages",
            chat_id,
            {"receive_id": chat_id, "msg_type": kind, "content": content, "uuid": uuid},
            {"receive_id_type": id_type},
        )

    async def reply(
        self, chat_id: str, message_id: str, kind: str, content: str, uuid: str, *, in_thread: bool
    ) -> Sent:
        """Answer a message, as a quote or in its topic; see `send`."""
        body = {"msg_type": kind, "content": content, "uuid": uuid, "reply_in_thread": in_thread}
        path = f"{_IM}/messages/{message_id}/reply"
        return await self._sent("message.reply", path, chat_id, body, {})

    async def _sent(
        self, name: str, path: str, chat_id: str, body: Json, query: dict[str, str]
    ) -> Sent:
        await self._calls.pacer.turn(chat_id)
        answer = await self._calls.call(name, "POST", path, body=body, query=query, chat=chat_id)
        return sent_of(object_of(answer.get("data")))

    async def rewrite(self, message_id: str, kind: str, content: str) -> None:
        """Change a text or post; 20 times at most."""
        body = {"msg_type": kind, "content": content}
        await self._calls.call("message.update", "PUT", f"{_IM}/messages/{message_id}", body=body)

    async def redraw(self, message_id: str, card: str) -> None:
        """Change a card that was sent as such; within 14 days."""
        path = f"{_IM}/messages/{message_id}"
        await self._calls.call("message.patch", "PATCH", path, body={"content": card})

    async def recall(self, message_id: str) -> None:
        """Take a message of ours back."""
        await self._calls.call("message.delete", "DELETE", f"{_IM}/messages/{message_id}")

    async def message(self, message_id: str) -> list[Json]:
        """A message with all that is in it; cards as their author wrote them."""
        query = {"card_msg_content_type": "user_card_content"}
        path = f"{_IM}/messages/{message_id}"
        answer = await self._calls.call("message.get", "GET", path, query=query)
        return objects_of(object_of(answer.get("data")).get("items"))

    async def thread(self, thread_id: str, limit: int) -> list[Json]:
        """The newest messages of a topic, newest first."""
        return (await self.page("thread", thread_id, limit))[0]

    async def page(
        self, container: str, of: str, limit: int, *, since_s: int = 0, after: str = ""
    ) -> tuple[list[Json], str]:
        """The newest messages of a topic (`thread`) or of a chat outside its topics (`chat`; from
        the time `since_s` on), newest first; and what to give as `after` to read on, "" at the end.
        """
        query = {
            "container_id_type": container,
            "container_id": of,
            "sort_type": "ByCreateTimeDesc",
            "page_size": str(limit),
        }
        if since_s and container == "chat":
            query["start_time"] = str(since_s)
        if after:
            query["page_token"] = after
        answer = await self._calls.call("message.list", "GET", f"{_IM}/messages", query=query)
        data = object_of(answer.get("data"))
        more = text_of(data.get("page_token")) if data.get("has_more") is True else ""
        return objects_of(data.get("items")), more

    # -- cards that grow ---------------------------------------------------------------------------

    async def create_card(self, card: str) -> str:
        """Make a card that can be sent and then changed piece by piece; returns its id."""
        body = {"type": "card_json", "data": card}
        answer = await self._calls.call("card.create", "POST", _CARDS, body=body)
        return text_of(object_of(answer.get("data")).get("card_id"))

    async def card_of(self, message_id: str) -> str:
        """The id of the card that a message shows."""
        body = {"message_id": message_id}
        answer = await self._calls.call(
            "card.id_convert", "POST", f"{_CARDS}/id_convert", body=body
        )
        return text_of(object_of(answer.get("data")).get("card_id"))

    async def grow_card(self, card_id: str, element: str, text: str, sequence: int) -> None:
        """Show the whole text in an element; the client types out what is new."""
        path = f"{_CARDS}/{card_id}/elements/{element}/content"
        await self._calls.call(
            "card.content", "PUT", path, body={"content": text, "sequence": sequence}
        )

    async def replace_card(self, card_id: str, card: str, sequence: int) -> None:
        """Replace a card as a whole."""
        body = {"card": {"type": "card_json", "data": card}, "sequence": sequence}
        await self._calls.call("card.update", "PUT", f"{_CARDS}/{card_id}", body=body)

    async def set_card(self, card_id: str, settings: Json, sequence: int) -> None:
        """Change a card's settings."""
        body = {"settings": json.dumps(settings, ensure_ascii=False), "sequence": sequence}
        await self._calls.call("card.settings", "PATCH", f"{_CARDS}/{card_id}/settings", body=body)

    # -- signs, names, chats -----------------------------------------------------------------------

    async def react(self, message_id: str, emoji: str) -> str:
        """Put a reaction on a message; returns its id."""
        body = {"reaction_type": {"emoji_type": emoji}}
        path = f"{_IM}/messages/{message_id}/reactions"
        answer = await self._calls.call("reaction.create", "POST", path, body=body)
        return text_of(object_of(answer.get("data")).get("reaction_id"))

    async def unreact(self, message_id: str, reaction_id: str) -> None:
        """Take a reaction of ours off."""
        path = f"{_IM}/messages/{message_id}/reactions/{reaction_id}"
        await self._calls.call("reaction.delete", "DELETE", path)

    async def own_reactions(self, message_id: str, emoji: str) -> list[str]:
        """The ids of our reactions of this kind on a message."""
        path = f"{_IM}/messages/{message_id}/reactions"
        query = {"reaction_type": emoji, "page_size": "50"}
        answer = await self._calls.call("reaction.list", "GET", path, query=query)
        return [
            text_of(item.get("reaction_id"))
            for item in objects_of(object_of(answer.get("data")).get("items"))
            if object_of(item.get("operator")).get("operator_type") == "app"
            and object_of(item.get("operator")).get("operator_id") == self._config.app_id
        ]

    async def user_name(self, user_id: str) -> str:
        """The name that people see; "" when there is none."""
        id_type = {"ou": "open_id", "on": "union_id"}.get(user_id.partition("_")[0], "user_id")
        path = f"/open-apis/contact/v3/users/{user_id}"
        answer = await self._calls.call("user.get", "GET", path, query={"user_id_type": id_type})
        return text_of(object_of(object_of(answer.get("data")).get("user")).get("name"))

    async def has_topics(self, chat_id: str) -> bool:
        """Whether a group consists of topics."""
        answer = await self._calls.call("chat.get", "GET", f"{_IM}/chats/{chat_id}")
        data = object_of(answer.get("data"))
        return data.get("chat_mode") == "topic" or data.get("group_message_type") == "thread"

    async def resource(self, message_id: str, kind: str, key: str, max_bytes: int) -> bytes:
        """The bytes of a message's file, one more than `max_bytes` at most."""
        path = f"{_IM}/messages/{message_id}/resources/{key}"
        return await self._calls.load("resource.get", path, {"type": kind}, max_bytes)

    async def upload_image(self, data: bytes) -> str:
        """Give Feishu a picture for a message; returns its key."""
        form = Form(field="image", data=data, texts={"image_type": "message"})
        answer = await self._calls.call("image.create", "POST", f"{_IM}/images", body=form)
        return text_of(object_of(answer.get("data")).get("image_key"))

    async def upload_file(self, kind: str, name: str, data: bytes) -> str:
        """Give Feishu a file for a message; `kind` is opus, mp4, pdf, doc, xls, ppt or stream."""
        form = Form(field="file", data=data, texts={"file_type": kind, "file_name": name})
        answer = await self._calls.call("file.create", "POST", f"{_IM}/files", body=form)
        return text_of(object_of(answer.get("data")).get("file_key"))
