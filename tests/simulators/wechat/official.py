"""An Official Account's WeChat on a loopback port: callbacks with their attempts, and the API.

Knows nothing of the program under test. People see what travels in responses and what is sent as
customer-service messages, in one list; what WeChat itself shows instead is in it as `unavailable`.
"""

import asyncio
import itertools
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from .faults import FaultPlan, answer_with
from .pushing import Account, Delivery, Pusher, read_xml
from .uploads import OFFICIAL, Kept, SentFile, read_upload, refusal
from .waiting import Bell

UNAVAILABLE = "该公众号提供的服务出现故障，请稍后再试"
TEXT_LIMIT_BYTES = 2048
PER_MESSAGE, MESSAGE_WINDOW_S = 5, 48 * 3600.0
PER_EVENT, EVENT_WINDOW_S = 3, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a person sees. way: response, message or unavailable."""

    user: str
    text: str
    way: str


@dataclass(slots=True)
class Allowance:
    """What a person's last action still allows."""

    left: int
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of the API and its error code."""

    path: str
    body: dict[str, Any]
    code: int


class WechatSimulator:
    """Use as `async with WechatSimulator() as wechat`; then set `wechat.callback_url`."""

    def __init__(
        self,
        *,
        mode: str = "plain",
        attempt_s: float = 5.0,
        may_send: bool = True,
        seed: int = 1,
    ) -> None:
        self.app_id = f"wx0simulated{seed:04}"
        self.app_secret = f"simulated-app-secret-{seed}"
        self.account_id = f"gh_simulated{seed:04}"
        self.token = f"simulatedtoken{seed}"
        self.aes_key = f"SimulatedEncodingAesKey{seed:019}A"
        self.may_send = may_send
        self.attempt_s = attempt_s
        self.bell = Bell()
        self.shown: list[Shown] = []
        self.calls: list[Call] = []
        self.files: list[SentFile] = []
        self.typing: list[tuple[str, str]] = []
        self.faults = FaultPlan()
        self.fail_next = self.faults.fail_next
        self.tokens_made = 0
        self.tokens_asked = 0
        self.token_lasts_s = 7200
        self._good_token = ""
        self._stuck_code = 0
        self._allowances: dict[str, Allowance] = {}
        self._ids = itertools.count(24_000_000_000_000_001)
        self._uploaded: dict[str, Kept] = {}
        self._media: dict[str, tuple[bytes, bool]] = {}
        self._stopping = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.port = 0
        self.pusher = Pusher(
            Account(token=self.token, aes_key=self.aes_key, receive_id=self.app_id, mode=mode),
            self.bell,
            attempt_s=attempt_s,
            on_reply=self._take_reply,
            on_unavailable=self._show_unavailable,
        )

    # --- life cycle

    async def start(self) -> None:
        """Serve the API."""
        app = web.Application(client_max_size=32 * 1024 * 1024)
        app.router.add_post("/cgi-bin/stable_token", self._serve_token)
        app.router.add_post("/cgi-bin/message/custom/send", self._serve_send)
        app.router.add_post("/cgi-bin/message/custom/typing", self._serve_typing)
        app.router.add_post("/cgi-bin/media/upload", self._serve_upload)
        app.router.add_get("/cgi-bin/media/get", self._serve_media)
        app.router.add_get("/video/{media_id}", self._serve_video)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close everything."""
        self._stopping.set()
        await self.pusher.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def api_url(self) -> str:
        """Where the API is."""
        return f"http://127.0.0.1:{self.port}/"

    # --- people

    def user_says(self, user: str, text: str, **fields: str) -> Delivery:
        """A person writes."""
        return self.user_sends(user, "text", Content=text, **fields)

    def user_sends(self, user: str, kind: str, **fields: str) -> Delivery:
        """A person sends something of this MsgType."""
        self._allow(user, PER_MESSAGE, MESSAGE_WINDOW_S)
        return self.pusher.push(self._head(user, kind) | fields | {"MsgId": str(next(self._ids))})

    def user_does(self, user: str, event: str, key: str = "", **fields: str) -> Delivery:
        """An event: subscribe, CLICK, SCAN and the like."""
        self._allow(user, PER_EVENT, EVENT_WINDOW_S)
        head = self._head(user, "event") | {"Event": event}
        return self.pusher.push(head | ({"EventKey": key} if key else {}) | fields)

    def add_media(self, data: bytes, *, is_video: bool = False) -> str:
        """A file that a person will send; returns its media id."""
        media_id = f"media-{next(self._ids)}"
        self._media[media_id] = (data, is_video)
        return media_id

    def redeliver(self, delivery: Delivery) -> None:
        """Push once more, with the same MsgId, as if the answer had not come."""
        self.pusher.redeliver(delivery)

    def _head(self, user: str, kind: str) -> dict[str, str]:
        return {
            "ToUserName": self.account_id,
            "FromUserName": user,
            "CreateTime": str(int(time.time())),
            "MsgType": kind,
        }

    def _allow(self, user: str, count: int, window_s: float) -> None:
        self._allowances[user] = Allowance(count, time.monotonic() + window_s)

    # --- trouble

    def lose_responses(self, count: int = 1) -> None:
        """The next responses are lost on their way; WeChat asks again."""
        self.pusher.responses_to_lose += count

    def expire_token(self) -> None:
        """The token is good no more; a new one is given to who asks."""
        self._good_token = ""

    def stick_token(self, code: int = 40001) -> None:
        """Every token is refused, whatever is asked for; 0 ends it."""
        self._stuck_code = code

    def close_window(self, user: str) -> None:
        """The 48 hours are over."""
        self._allowances[user] = Allowance(PER_MESSAGE, 0.0)

    # --- reading back

    def sent(self, user: str | None = None) -> list[str]:
        """The texts that people were shown, in order, WeChat's own notice included."""
        return [each.text for each in self.shown if user in {None, each.user}]

    def ways(self, user: str) -> list[str]:
        """By which ways."""
        return [each.way for each in self.shown if each.user == user]

    def acked(self) -> list[Delivery]:
        """Deliveries that need no other attempt."""
        return [each for each in self.pusher.deliveries if each.state == "acked"]

    def refused(self) -> list[Call]:
        """Sends that WeChat refused."""
        return [call for call in self.calls if call.code and call.path.endswith("send")]

    async def wait_sent(
        self, count: int = 1, user: str | None = None, *, timeout_s: float = 10.0
    ) -> list[str]:
        """Wait until so many texts are shown."""
        return await self.bell.until(
            lambda: found if len(found := self.sent(user)) >= count else None,
            timeout_s=timeout_s,
            what=lambda: f"{count} shown texts; there are {self.sent()}, {self.calls[-5:]}",
        )

    async def wait_settled(self, timeout_s: float = 10.0) -> None:
        """Wait until every delivery is acknowledged or given up."""
        await self.pusher.wait_settled(timeout_s)

    # --- inside

    def _take_reply(self, delivery: Delivery, xml: str) -> None:
        reply = read_xml(xml)
        user = reply["ToUserName"]
        if user != delivery.fields["FromUserName"] or reply["FromUserName"] != self.account_id:
            raise ValueError("the reply is for somebody else")
        if reply["MsgType"] != "text" or len(reply["Content"].encode()) > TEXT_LIMIT_BYTES:
            raise ValueError("no text, or too long")
        self._show(user, reply["Content"], "response")

    def _show_unavailable(self, delivery: Delivery) -> None:
        self._show(delivery.fields["FromUserName"], UNAVAILABLE, "unavailable")

    def _show(self, user: str, text: str, way: str) -> None:
        self.shown.append(Shown(user=user, text=text, way=way))
        self.bell.ring()

    async def _serve_token(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()

        self.tokens_asked += 1

        async def process() -> web.Response:
            if (body["appid"], body["secret"]) != (self.app_id, self.app_secret):
                return web.json_response({"errcode": 40125, "errmsg": "invalid appsecret"})
            if not self._good_token or body.get("force_refresh"):
                self.tokens_made += 1
                self._good_token = f"token-{self.tokens_made}"
            answer = {"access_token": self._good_token, "expires_in": self.token_lasts_s}
            return web.json_response(answer)

        return await answer_with(self.faults.take("stable_token"), request, process, self._stopping)

    async def _serve_send(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()

        async def process() -> web.Response:
            code = self._token_code(request) or self._send_code(body)
            self.calls.append(Call(path=request.path, body=body, code=code))
            if not code:
                self._allowances[body["touser"]].left -= 1
                self._show_message(body)
            self.bell.ring()
            return web.json_response({"errcode": code, "errmsg": "ok" if not code else "refused"})

        return await answer_with(self.faults.take("send"), request, process, self._stopping)

    def _show_message(self, body: dict[str, Any]) -> None:
        if body["msgtype"] == "text":
            self._show(body["touser"], body["text"]["content"], "message")
            return
        kept = self._uploaded[body[body["msgtype"]]["media_id"]]
        self.files.append(
            SentFile(user=body["touser"], kind=kept.kind, name=kept.name, data=kept.data)
        )
        self._show(body["touser"], f"[{kept.kind}]", "message")

    async def _serve_upload(self, request: web.Request) -> web.StreamResponse:
        file = await read_upload(request)

        async def process() -> web.Response:
            code = self._token_code(request) or refusal(OFFICIAL, file)
            self.calls.append(Call(path=request.path, body={"type": file.kind}, code=code))
            if code:
                return web.json_response({"errcode": code, "errmsg": "refused"})
            media_id = f"uploaded-{next(self._ids)}"
            self._uploaded[media_id] = file
            return web.json_response({"type": file.kind, "media_id": media_id, "created_at": 1})

        return await answer_with(self.faults.take("upload"), request, process, self._stopping)

    async def _serve_typing(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()

        async def process() -> web.Response:
            code = self._token_code(request) or (0 if self.may_send else 48001)
            if not code:
                self.typing.append((body["touser"], body["command"]))
                self.bell.ring()
            return web.json_response({"errcode": code, "errmsg": ""})

        return await answer_with(self.faults.take("typing"), request, process, self._stopping)

    async def _serve_media(self, request: web.Request) -> web.StreamResponse:
        async def process() -> web.Response:
            media_id = request.query.get("media_id", "")
            code = self._token_code(request) or (0 if media_id in self._media else 40007)
            if code:
                return web.json_response({"errcode": code, "errmsg": "refused"})
            data, is_video = self._media[media_id]
            if is_video:
                return web.json_response({"video_url": f"{self.api_url}video/{media_id}"})
            return web.Response(body=data, content_type="image/jpeg")

        return await answer_with(self.faults.take("media"), request, process, self._stopping)

    async def _serve_video(self, request: web.Request) -> web.Response:
        return web.Response(body=self._media[request.match_info["media_id"]][0])

    def _token_code(self, request: web.Request) -> int:
        if self._stuck_code:
            return self._stuck_code
        is_good = self._good_token and request.query.get("access_token") == self._good_token
        return 0 if is_good else 42001

    def _send_code(self, body: dict[str, Any]) -> int:
        if not self.may_send:
            return 48001
        allowance = self._allowances.get(body["touser"])
        if allowance is None or time.monotonic() > allowance.until:
            return 45015
        if allowance.left <= 0:
            return 45047
        kind = body["msgtype"]
        if kind == "text":
            return 45002 if len(body["text"]["content"].encode()) > TEXT_LIMIT_BYTES else 0
        if kind not in {"image", "voice", "video"}:
            return 40008
        kept = self._uploaded.get(body[kind]["media_id"])
        return 0 if kept is not None and kept.kind == kind else 40007
