"""Every call to Feishu's Open API. Nothing is retried here but a call with a token that ended:
who calls knows what may be repeated. A message with a `uuid` may: it is sent once an hour.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import aiohttp

from adapters.feishu.config import FeishuConfig
from adapters.feishu.facts import Identity
from adapters.feishu.failures import RateLimited, TokenRefused, from_answer, from_client_error
from adapters.feishu.pacing import Pacer
from adapters.feishu.token import TenantToken
from adapters.payload import Json, number_of, object_of, objects_of, parse, text_of
from clawbot.errors import NotSent
from clawbot.ports import Clock

CALL_TIMEOUT_S = 15.0
_CONNECT_TIMEOUT_S = 5.0
_MAX_REFUSAL_BYTES = 65_536
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where to open a long connection. config: what Feishu wants of the client, as sent."""

    url: str
    config: Json


class FeishuApi:
    """The Open API as one app. Methods raise NotSent, Rejected or OutcomeUnknown."""

    def __init__(self, config: FeishuConfig, clock: Clock) -> None:
        self._config = config
        self._pacer = Pacer(clock)
        self._token = TenantToken(clock, self._fetch_token)
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    @property
    def session(self) -> aiohttp.ClientSession:
        """The one session of this account, made at first use inside the running loop."""
        if self._is_closed:
            raise NotSent("feishu: this channel is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(
                    total=CALL_TIMEOUT_S, sock_connect=_CONNECT_TIMEOUT_S
                ),
                trust_env=not self._config.is_loopback,
            )
        return self._session

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        self._is_closed = True
        await self._token.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # -- who we are --------------------------------------------------------------------------------

    async def identify(self) -> Identity:
        """Who the bot is, as this app sees it."""
        answer = await self._call("bot.info", "GET", "/open-apis/bot/v3/info")
        bot = object_of(answer.get("bot")) or object_of(object_of(answer.get("data")).get("bot"))
        return Identity(
            open_id=text_of(bot.get("open_id")),
            app_id=self._config.app_id,
            name=text_of(bot.get("app_name")),
        )

    async def open_connection(self) -> Endpoint:
        """Ask for the address of a long connection; good for one connection, soon."""
        name = "ws.endpoint"
        body = {"AppID": self._config.app_id, "AppSecret": self._secret}
        answer = await self._once(name, "POST", "/callback/ws/endpoint", body=body)
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
        await self._pacer.turn(chat_id)
        answer = await self._call(name, "POST", path, body=body, query=query, chat=chat_id)
        data = object_of(answer.get("data"))
        return Sent(
            message_id=text_of(data.get("message_id")),
            thread_id=text_of(data.get("thread_id")),
            kind=text_of(data.get("msg_type")),
            content=text_of(object_of(data.get("body")).get("content")),
        )

    async def rewrite(self, message_id: str, kind: str, content: str) -> None:
        """Change a text or post; 20 times at most."""
        body = {"msg_type": kind, "content": content}
        await self._call("message.update", "PUT", f"{_IM}/messages/{message_id}", body=body)

    async def redraw(self, message_id: str, card: str) -> None:
        """Change a card that was sent as such; within 14 days."""
        path = f"{_IM}/messages/{message_id}"
        await self._call("message.patch", "PATCH", path, body={"content": card})

    async def recall(self, message_id: str) -> None:
        """Take a message of ours back."""
        await self._call("message.delete", "DELETE", f"{_IM}/messages/{message_id}")

    async def message(self, message_id: str) -> list[Json]:
        """A message with all that is in it; cards as their author wrote them."""
        query = {"card_msg_content_type": "user_card_content"}
        path = f"{_IM}/messages/{message_id}"
        answer = await self._call("message.get", "GET", path, query=query)
        return objects_of(object_of(answer.get("data")).get("items"))

    async def thread(self, thread_id: str, limit: int) -> list[Json]:
        """The newest messages of a topic, newest first."""
        query = {
            "container_id_type": "thread",
            "container_id": thread_id,
            "sort_type": "ByCreateTimeDesc",
            "page_size": str(limit),
        }
        answer = await self._call("message.list", "GET", f"{_IM}/messages", query=query)
        return objects_of(object_of(answer.get("data")).get("items"))

    # -- cards that grow ---------------------------------------------------------------------------

    async def create_card(self, card: str) -> str:
        """Make a card that can be sent and then changed piece by piece; returns its id."""
        body = {"type": "card_json", "data": card}
        answer = await self._call("card.create", "POST", _CARDS, body=body)
        return text_of(object_of(answer.get("data")).get("card_id"))

    async def card_of(self, message_id: str) -> str:
        """The id of the card that a message shows."""
        body = {"message_id": message_id}
        answer = await self._call("card.id_convert", "POST", f"{_CARDS}/id_convert", body=body)
        return text_of(object_of(answer.get("data")).get("card_id"))

    async def grow_card(self, card_id: str, element: str, text: str, sequence: int) -> None:
        """Show the whole text in an element; the client types out what is new."""
        path = f"{_CARDS}/{card_id}/elements/{element}/content"
        await self._call("card.content", "PUT", path, body={"content": text, "sequence": sequence})

    async def replace_card(self, card_id: str, card: str, sequence: int) -> None:
        """Replace a card as a whole."""
        body = {"card": {"type": "card_json", "data": card}, "sequence": sequence}
        await self._call("card.update", "PUT", f"{_CARDS}/{card_id}", body=body)

    async def set_card(self, card_id: str, settings: Json, sequence: int) -> None:
        """Change a card's settings."""
        body = {"settings": json.dumps(settings, ensure_ascii=False), "sequence": sequence}
        await self._call("card.settings", "PATCH", f"{_CARDS}/{card_id}/settings", body=body)

    # -- signs, names, chats -----------------------------------------------------------------------

    async def react(self, message_id: str, emoji: str) -> str:
        """Put a reaction on a message; returns its id."""
        body = {"reaction_type": {"emoji_type": emoji}}
        path = f"{_IM}/messages/{message_id}/reactions"
        answer = await self._call("reaction.create", "POST", path, body=body)
        return text_of(object_of(answer.get("data")).get("reaction_id"))

    async def unreact(self, message_id: str, reaction_id: str) -> None:
        """Take a reaction of ours off."""
        path = f"{_IM}/messages/{message_id}/reactions/{reaction_id}"
        await self._call("reaction.delete", "DELETE", path)

    async def own_reactions(self, message_id: str, emoji: str) -> list[str]:
        """The ids of our reactions of this kind on a message."""
        path = f"{_IM}/messages/{message_id}/reactions"
        query = {"reaction_type": emoji, "page_size": "50"}
        answer = await self._call("reaction.list", "GET", path, query=query)
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
        answer = await self._call("user.get", "GET", path, query={"user_id_type": id_type})
        return text_of(object_of(object_of(answer.get("data")).get("user")).get("name"))

    async def has_topics(self, chat_id: str) -> bool:
        """Whether a group consists of topics."""
        answer = await self._call("chat.get", "GET", f"{_IM}/chats/{chat_id}")
        data = object_of(answer.get("data"))
        return data.get("chat_mode") == "topic" or data.get("group_message_type") == "thread"

    async def resource(self, message_id: str, kind: str, key: str, max_bytes: int) -> bytes:
        """The bytes of a message's file, one more than `max_bytes` at most."""
        path = f"{_IM}/messages/{message_id}/resources/{key}"
        self._pacer.check("resource.get")
        for _ in range(2):
            token = await self._token.current()
            try:
                return await self._bytes("resource.get", path, {"type": kind}, token, max_bytes)
            except TokenRefused:
                self._token.evict(token)
        raise NotSent("feishu resource.get: the token is refused")

    async def _bytes(
        self, name: str, path: str, query: dict[str, str], token: str, max_bytes: int
    ) -> bytes:
        headers = {"Authorization": f"Bearer {token}"}
        # No limit for the whole: a large file takes its time, but it must keep coming.
        patience = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=CALL_TIMEOUT_S
        )
        try:
            async with self.session.get(
                self._config.base_url + path, params=query, headers=headers, timeout=patience
            ) as response:
                is_file = response.status == 200 and response.content_type != "application/json"
                most = max_bytes + 1 if is_file else _MAX_REFUSAL_BYTES
                data = await response.content.read(most)
                while len(data) < most and not response.content.at_eof():
                    data += await response.content.read(most - len(data))
                status, answered = response.status, response.headers
        except (aiohttp.ClientError, TimeoutError) as error:
            raise from_client_error(name, error) from error
        failure = None if is_file else from_answer(name, status, answered, parse(data))
        if failure is not None:
            raise failure
        return data

    # -- transport ---------------------------------------------------------------------------------

    @property
    def _secret(self) -> str:
        return self._config.app_secret.get_secret_value()

    async def _fetch_token(self) -> tuple[str, float]:
        name = "tenant_access_token"
        body = {"app_id": self._config.app_id, "app_secret": self._secret}
        path = "/open-apis/auth/v3/tenant_access_token/internal"
        answer = await self._once(name, "POST", path, body=body)
        token, good_for_s = text_of(answer.get("tenant_access_token")), answer.get("expire")
        if not token:
            raise NotSent(f"feishu {name}: the answer holds no token")
        return token, float(number_of(good_for_s) or 0)

    async def _call(
        self,
        name: str,
        verb: str,
        path: str,
        *,
        body: Json | None = None,
        query: dict[str, str] | None = None,
        chat: str = "",
    ) -> Json:
        """Call with the tenant token; once more with a fresh one where Feishu refuses the first."""
        self._pacer.check(name)
        token = await self._token.current()
        try:
            try:
                return await self._once(name, verb, path, body=body, query=query, token=token)
            except TokenRefused:
                self._token.evict(token)
                token = await self._token.current()
                return await self._once(name, verb, path, body=body, query=query, token=token)
        except TokenRefused as error:
            self._token.evict(token)
            raise NotSent(str(error)) from error
        except RateLimited as error:
            self._pacer.note(name, chat, error)
            raise

    async def _once(
        self,
        name: str,
        verb: str,
        path: str,
        *,
        body: Json | None = None,
        query: dict[str, str] | None = None,
        token: str = "",
    ) -> Json:
        headers = {"Content-Type": "application/json; charset=utf-8"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        try:
            async with self.session.request(
                verb, self._config.base_url + path, data=data, params=query, headers=headers
            ) as response:
                raw = await response.read()
                status, answered = response.status, response.headers
        except (aiohttp.ClientError, TimeoutError) as error:
            raise from_client_error(name, error) from error
        answer = parse(raw)
        failure = from_answer(name, status, answered, answer)
        if failure is not None:
            raise failure
        return answer or {}
