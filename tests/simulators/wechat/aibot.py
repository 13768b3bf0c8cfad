"""A WeCom AI bot's side of WeCom: the long connection, and the webhook with its questions.

A chat shows one growing message a stream and the messages that were sent besides. Which way the bot
is reached is told by `use_webhook`; at the start it is the long connection.
"""

import asyncio
import base64
import itertools
import json
import secrets
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from .linked_uploads import LinkedUploads
from .sealing import seal, seal_file, sign, unseal
from .waiting import Bell

Json = dict[str, Any]
STREAM_LIMIT_BYTES = 20_480
LOST = -998


@dataclass(slots=True, kw_only=True, eq=False)
class BotMessage:
    """What a chat shows. `revisions` are the texts that a stream had."""

    chat: str
    text: str
    way: str  # stream, message, late or welcome
    stream: str = ""
    is_finished: bool = True
    revisions: list[str] = field(default_factory=list)


class AibotSimulator:
    """Use as `async with AibotSimulator() as aibot`."""

    def __init__(
        self, *, poll_s: float = 0.05, stream_s: float = 360.0, attempt_s: float = 5.0
    ) -> None:
        self.bot_id = "aibSimulated0001"
        self.secret = "simulated-bot-secret"
        self.token = "simulatedbottoken"
        self.aes_key = "SimulatedEncodingAesKey0000000000000000000B"
        self.webhook_url = ""
        self.bell = Bell()
        self.shown: list[BotMessage] = []
        self.frames: list[Json] = []
        self.subscriptions = 0
        self.refuse_subscriptions = 0
        self.mute_pings = False
        self.answer_codes: dict[str, list[int]] = {}
        self._poll_s, self._stream_s, self._attempt_s = poll_s, stream_s, attempt_s
        self._ids = itertools.count(1)
        self._requests: dict[str, Json] = {}
        self._files: dict[str, bytes] = {}
        self.uploads = LinkedUploads()
        self._links: list[web.WebSocketResponse] = []
        self._link: web.WebSocketResponse | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/bot", self._serve_link)
        app.router.add_post("/late/{chat}/{key}", self._serve_late)
        app.router.add_get("/file/{key}", self._serve_file)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        self._session = aiohttp.ClientSession()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in self._links:
            await link.close()
        assert self._session is not None
        await self._session.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def socket_url(self) -> str:
        """The address of the long connection."""
        return f"ws://127.0.0.1:{self.port}/bot"

    # --- people

    def user_says(self, user: str, text: str, *, group: str = "", **more: Any) -> Json:
        """A person writes to the bot, or mentions it in a group; returns the callback's body."""
        return self.user_sends(user, {"msgtype": "text", "text": {"content": text}, **more}, group)

    def user_sends(self, user: str, content: Json, group: str = "") -> Json:
        """A person sends any content."""
        number = next(self._ids)
        body: Json = {
            "msgid": f"simulated-message-{number}",
            "aibotid": self.bot_id,
            "chattype": "group" if group else "single",
            "from": {"userid": user},
            "response_url": f"http://127.0.0.1:{self.port}/late/{group or user}/{number}",
            **content,
        }
        if group:
            body["chatid"] = group
        self.push(body)
        return body

    def user_sends_file(self, user: str, kind: str, data: bytes, name: str = "") -> Json:
        """A person sends a file; by the long connection with a key of its own."""
        own_key = "" if self.webhook_url else base64.b64encode(secrets.token_bytes(32)).decode()
        number = str(next(self._ids))
        self._files[number] = seal_file(data, own_key or self.aes_key)
        about = {"url": f"http://127.0.0.1:{self.port}/file/{number}"}
        about |= ({"aeskey": own_key} if own_key else {}) | ({"name": name} if name else {})
        return self.user_sends(user, {"msgtype": kind, kind: about})

    def user_enters(self, user: str) -> Json:
        """A person opens the chat."""
        body: Json = {
            "msgid": f"simulated-event-{next(self._ids)}",
            "create_time": int(time.time()),
            "aibotid": self.bot_id,
            "chattype": "single",
            "from": {"userid": user},
            "msgtype": "event",
            "event": {"eventtype": "enter_chat"},
        }
        self.push(body)
        return body

    def push(self, body: Json) -> None:
        """Deliver a body, as it is, by the way that is set."""
        self._spawn(self._push_by_webhook(body) if self.webhook_url else self._push_by_link(body))

    redeliver = push

    # --- trouble

    async def close_link(self, code: int = 1000) -> None:
        """Close the long connection with this code."""
        if self._link is not None:
            await self._link.close(code=code)

    def abort_link(self) -> None:
        """Cut the long connection without a word."""
        for link in self._links:
            if (transport := link._req.transport if link._req else None) is not None:
                transport.abort()

    async def kick(self) -> None:
        """Say that another connection took over, and leave this one open."""
        body = {"msgtype": "event", "event": {"eventtype": "disconnected_event"}}
        assert self._link is not None
        await self._link.send_str(json.dumps({"cmd": "aibot_event_callback", "body": body}))

    def fail_next(self, command: str, code: int, times: int = 1) -> None:
        """Answer the next frames of a command with a code; -999 = not at all, -998 = take them."""
        self.answer_codes.setdefault(command, []).extend([code] * times)

    # --- reading back

    def sent(self, chat: str | None = None) -> list[str]:
        """The texts that chats show now, in order."""
        return [each.text for each in self.shown if chat in {None, each.chat}]

    @property
    def is_linked(self) -> bool:
        """Whether a bot is subscribed."""
        return self._link is not None and not self._link.closed

    async def wait_linked(self, subscriptions: int = 1, timeout_s: float = 10.0) -> None:
        """Wait until so many subscriptions came and the newest stands."""
        await self.bell.until(
            lambda: self.subscriptions >= subscriptions and self.is_linked,
            timeout_s=timeout_s,
            what=lambda: f"subscription {subscriptions}; {self.subscriptions} came",
        )

    async def wait_finished(self, count: int = 1, *, timeout_s: float = 10.0) -> list[str]:
        """Wait until so many messages stand finished."""
        return await self.bell.until(
            lambda: (
                self.sent()
                if sum(1 for each in self.shown if each.is_finished and each.text) >= count
                else None
            ),
            timeout_s=timeout_s,
            what=lambda: f"{count} finished messages; there are {self.shown}",
        )

    async def wait_idle(self, timeout_s: float = 10.0) -> None:
        """Wait until nothing is asked for any more."""
        await self.bell.until(
            lambda: not self._tasks, timeout_s=timeout_s, what=lambda: "the end of all questions"
        )

    async def wait_text(self, text: str, *, timeout_s: float = 10.0) -> BotMessage:
        """Wait until a message shows a text somewhere."""
        return await self.bell.until(
            lambda: next((each for each in self.shown if text in each.text), None),
            timeout_s=timeout_s,
            what=lambda: f"the text {text!r}; there are {self.sent()}",
        )

    # --- the long connection

    async def _push_by_link(self, body: Json) -> None:
        await self.wait_linked()
        request = f"req-{secrets.token_hex(6)}"
        self._requests[request] = body
        kind = "event" if body["msgtype"] == "event" else "msg"
        frame = {"cmd": f"aibot_{kind}_callback", "headers": {"req_id": request}, "body": body}
        assert self._link is not None
        await self._link.send_str(json.dumps(frame))

    async def _serve_link(self, request: web.Request) -> web.WebSocketResponse:
        link = web.WebSocketResponse()
        await link.prepare(request)
        self._links.append(link)
        async for message in link:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            frame = json.loads(message.data)
            self.frames.append(frame)
            command = frame["cmd"]
            codes = self.answer_codes.get(command)
            if codes and codes[0] != LOST:
                code, told = codes.pop(0), Json()
            elif command.startswith("aibot_upload_media_"):
                code, told = self.uploads.take(command, frame["body"])
            else:
                code, told = await self._take(link, command, frame), {}
            is_lost = bool(codes and codes[0] == LOST and codes.pop(0))
            if code != -999 and not is_lost and not (command == "ping" and self.mute_pings):
                answer = {"headers": frame["headers"], "errcode": code, "errmsg": ""}
                answer |= {"body": told} if told else {}
                await link.send_str(json.dumps(answer))
            self.bell.ring()
        if self._link is link:
            self._link = None
        return link

    async def _take(self, link: web.WebSocketResponse, command: str, frame: Json) -> int:
        body = frame.get("body") or {}
        code = 0
        match command:
            case "aibot_subscribe":
                code = await self._subscribe(link, body)
            case "aibot_respond_msg":
                origin = self._requests.get(frame["headers"]["req_id"])
                code = 846605 if origin is None else self._grow(_chat_of(origin), body["stream"])
            case "aibot_respond_welcome_msg":
                origin = self._requests[frame["headers"]["req_id"]]
                self._show(_chat_of(origin), body["text"]["content"], "welcome")
            case "aibot_send_msg":
                code = self._send(body)
            case "ping":
                pass
            case _:
                code = 40058
        return code

    def _send(self, body: Json) -> int:
        chat, kind = body["chatid"], body["msgtype"]
        if kind == "markdown":
            self._show(chat, body["markdown"]["content"], "message")
            return 0
        if code := self.uploads.show(chat, kind, body[kind]["media_id"]):
            return code
        self._show(chat, f"[{kind}]", "message")
        return 0

    async def _subscribe(self, link: web.WebSocketResponse, body: Json) -> int:
        if self.refuse_subscriptions:
            self.refuse_subscriptions -= 1
            return 853000
        if (body.get("bot_id"), body.get("secret")) != (self.bot_id, self.secret):
            return 853000
        if self._link is not None and not self._link.closed:
            await self.kick()
        self._link = link
        self.subscriptions += 1
        return 0

    def _grow(self, chat: str, stream: Json) -> int:
        if len(stream["content"].encode()) > STREAM_LIMIT_BYTES:
            return 40058
        message = next((each for each in self.shown if each.stream == stream["id"]), None)
        if message is None:
            message = BotMessage(chat=chat, text="", way="stream", stream=stream["id"])
            message.is_finished = False
            self.shown.append(message)
        elif message.is_finished:
            return 846609
        message.text, message.is_finished = stream["content"], stream["finish"]
        message.revisions.append(message.text)
        self.bell.ring()
        return 0

    def _show(self, chat: str, text: str, way: str) -> None:
        self.shown.append(BotMessage(chat=chat, text=text, way=way))
        self.bell.ring()

    # --- the webhook

    async def _push_by_webhook(self, body: Json) -> None:
        """Up to three attempts; then ask for the stream until it is finished."""
        for _ in range(3):
            status, answer = await self.post(body)
            if status == 200:
                break
        else:
            return
        if answer is None:
            return
        if answer["msgtype"] == "text":
            self._show(_chat_of(body), answer["text"]["content"], "welcome")
            return
        await self._ask_for_stream(body, answer["stream"])

    async def _ask_for_stream(self, body: Json, stream: Json) -> None:
        give_up = time.monotonic() + self._stream_s
        self._grow(_chat_of(body), stream)
        while not stream["finish"] and time.monotonic() < give_up:
            await asyncio.sleep(self._poll_s)
            question = {**body, "msgtype": "stream", "stream": {"id": stream["id"]}}
            status, answer = await self.post(question)
            if status == 200 and answer is not None and answer["stream"] != stream:
                stream = answer["stream"]
                self._grow(_chat_of(body), stream)

    async def post(
        self, body: Json, query: dict[str, str] | None = None
    ) -> tuple[int, Json | None]:
        """Send a sealed body; the opened answer."""
        text, stamp = json.dumps(body, ensure_ascii=False), str(int(time.time()))
        encrypted, nonce = seal(text, self.aes_key, ""), secrets.token_hex(4)
        signed = {"timestamp": stamp, "nonce": nonce}
        signed["msg_signature"] = sign(self.token, stamp, nonce, encrypted)
        assert self._session is not None
        try:
            async with (
                asyncio.timeout(self._attempt_s),
                self._session.post(
                    self.webhook_url, params=query or signed, json={"encrypt": encrypted}
                ) as response,
            ):
                text = await response.text()
        except (TimeoutError, aiohttp.ClientError):
            return 0, None
        if response.status != 200 or not text:
            return response.status, None
        outer = json.loads(text)
        wanted = sign(self.token, str(outer["timestamp"]), outer["nonce"], outer["encrypt"])
        if outer["msgsignature"] != wanted:
            raise ValueError("the answer is not signed")
        return 200, json.loads(unseal(outer["encrypt"], self.aes_key, ""))

    async def _serve_file(self, request: web.Request) -> web.Response:
        return web.Response(body=self._files[request.match_info["key"]])

    async def _serve_late(self, request: web.Request) -> web.Response:
        body = await request.json()
        key = request.match_info["key"]
        if key in self._requests:
            return web.json_response({"errcode": 60140, "errmsg": "used"})
        self._requests[key] = body
        self._show(request.match_info["chat"], body["markdown"]["content"], "late")
        return web.json_response({"errcode": 0, "errmsg": "ok"})

    def _spawn(self, job: Any) -> None:
        task = asyncio.create_task(job, name="aibot")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.bell.ring()


def _chat_of(body: Json) -> str:
    return str(body.get("chatid") or body["from"]["userid"])
