"""A WeCom app's side of WeCom on a loopback port: sealed callbacks, and the message API.

Members see what message/send takes. The duplicate check compares content, as WeCom does.
"""

import asyncio
import itertools
import json
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from .faults import FaultPlan, answer_with
from .pushing import Account, Delivery, Pusher, read_xml
from .uploads import WECOM, Kept, SentFile, read_upload, refusal
from .waiting import Bell

TEXT_LIMIT_BYTES = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class AppMessage:
    """What a member sees."""

    user: str
    kind: str
    text: str
    is_checked: bool


class WecomSimulator:
    """Use as `async with WecomSimulator() as wecom`; then set `wecom.pusher.url`."""

    def __init__(self, *, attempt_s: float = 5.0, seed: int = 1) -> None:
        self.corp_id = f"ww0simulated{seed:04}"
        self.agent_id = 1_000_000 + seed
        self.secret = f"simulated-app-secret-{seed}"
        self.token = f"simulatedtoken{seed}"
        self.aes_key = f"SimulatedEncodingAesKey{seed:019}W"
        self.members = {"alice", "bob"}
        self.bell = Bell()
        self.shown: list[AppMessage] = []
        self.welcomes: list[str] = []
        self.dropped: list[AppMessage] = []
        self.files: list[SentFile] = []
        self.faults = FaultPlan()
        self.fail_next = self.faults.fail_next
        self.tokens_made = 0
        self._good_token = ""
        self._recent: dict[str, float] = {}
        self._ids = itertools.count(7_000_000_000_000_001)
        self._uploaded: dict[str, Kept] = {}
        self._media: dict[str, bytes] = {}
        self._stopping = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.port = 0
        account = Account(
            token=self.token, aes_key=self.aes_key, receive_id=self.corp_id, mode="safe"
        )
        self.pusher = Pusher(
            account,
            self.bell,
            attempt_s=attempt_s,
            on_reply=lambda _delivery, xml: self.welcomes.append(read_xml(xml)["Content"]),
            on_unavailable=lambda _delivery: None,
        )

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=32 * 1024 * 1024)
        app.router.add_get("/cgi-bin/gettoken", self._serve_token)
        app.router.add_post("/cgi-bin/message/send", self._serve_send)
        app.router.add_post("/cgi-bin/media/upload", self._serve_upload)
        app.router.add_get("/cgi-bin/media/get", self._serve_media)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        await self.pusher.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def api_url(self) -> str:
        """Where the API is."""
        return f"http://127.0.0.1:{self.port}/"

    # --- doors

    def user_says(self, user: str, text: str) -> Delivery:
        """A member writes to the app."""
        return self.user_sends(user, "text", Content=text)

    def user_sends(self, user: str, kind: str, **fields: str) -> Delivery:
        """A member sends something of this MsgType."""
        head = self._head(user, kind) | fields
        return self.pusher.push(head | {"MsgId": str(next(self._ids)), "AgentID": self._agent})

    def user_does(self, user: str, event: str, key: str = "") -> Delivery:
        """An event: enter_agent, click and the like."""
        head = self._head(user, "event") | {"Event": event, "EventKey": key}
        return self.pusher.push(head | {"AgentID": self._agent})

    def add_media(self, data: bytes) -> str:
        """A file that a member will send; returns its media id."""
        media_id = f"media-{next(self._ids)}"
        self._media[media_id] = data
        return media_id

    def redeliver(self, delivery: Delivery) -> None:
        """Push once more, with the same MsgId."""
        self.pusher.redeliver(delivery)

    def expire_token(self) -> None:
        """The token is good no more; a new one is given to who asks."""
        self._good_token = ""

    def sent(self, user: str | None = None) -> list[str]:
        """The texts that members see, in order."""
        return [each.text for each in self.shown if user in {None, each.user}]

    def acked(self) -> list[Delivery]:
        """Deliveries that need no other attempt."""
        return [each for each in self.pusher.deliveries if each.state == "acked"]

    async def wait_sent(self, count: int = 1, *, timeout_s: float = 10.0) -> list[str]:
        """Wait until so many texts are shown."""
        return await self.bell.until(
            lambda: found if len(found := self.sent()) >= count else None,
            timeout_s=timeout_s,
            what=lambda: f"{count} shown texts; there are {self.sent()}",
        )

    # --- inside

    @property
    def _agent(self) -> str:
        return str(self.agent_id)

    def _head(self, user: str, kind: str) -> dict[str, str]:
        return {
            "ToUserName": self.corp_id,
            "FromUserName": user,
            "CreateTime": str(int(time.time())),
            "MsgType": kind,
        }

    async def _serve_token(self, request: web.Request) -> web.StreamResponse:
        async def process() -> web.Response:
            given = (request.query.get("corpid"), request.query.get("corpsecret"))
            if given != (self.corp_id, self.secret):
                return web.json_response({"errcode": 40001, "errmsg": "invalid credential"})
            if not self._good_token:
                self.tokens_made += 1
                self._good_token = f"token-{self.tokens_made}"
            answer = {"errcode": 0, "access_token": self._good_token, "expires_in": 7200}
            return web.json_response(answer)

        return await answer_with(self.faults.take("gettoken"), request, process, self._stopping)

    async def _serve_send(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()

        async def process() -> web.Response:
            if request.query.get("access_token") != self._good_token or not self._good_token:
                return web.json_response({"errcode": 42001, "errmsg": "expired"})
            return web.json_response(self._take(body))

        return await answer_with(self.faults.take("send"), request, process, self._stopping)

    async def _serve_media(self, request: web.Request) -> web.StreamResponse:
        async def process() -> web.Response:
            if request.query.get("access_token") != self._good_token or not self._good_token:
                return web.json_response({"errcode": 42001, "errmsg": "expired"})
            data = self._media.get(request.query.get("media_id", ""))
            if data is None:
                return web.json_response({"errcode": 40007, "errmsg": "invalid media_id"})
            return web.Response(body=data)

        return await answer_with(self.faults.take("media"), request, process, self._stopping)

    async def _serve_upload(self, request: web.Request) -> web.StreamResponse:
        file = await read_upload(request)

        async def process() -> web.Response:
            if request.query.get("access_token") != self._good_token or not self._good_token:
                return web.json_response({"errcode": 42001, "errmsg": "expired"})
            if code := refusal(WECOM, file):
                return web.json_response({"errcode": code, "errmsg": "refused"})
            media_id = f"uploaded-{next(self._ids)}"
            self._uploaded[media_id] = file
            answer = {"errcode": 0, "type": file.kind, "media_id": media_id, "created_at": "1"}
            return web.json_response(answer)

        return await answer_with(self.faults.take("upload"), request, process, self._stopping)

    def _take(self, body: dict[str, Any]) -> dict[str, Any]:
        kind = body["msgtype"]
        is_file = kind in WECOM
        text = body[kind]["media_id" if is_file else "content"]
        if body["agentid"] != self.agent_id:
            return {"errcode": 40056, "errmsg": "invalid agentid"}
        if is_file and (text not in self._uploaded or self._uploaded[text].kind != kind):
            return {"errcode": 40007, "errmsg": "invalid media_id"}
        if len(text.encode()) > TEXT_LIMIT_BYTES:
            return {"errcode": 45002, "errmsg": "content size out of limit"}
        if body["touser"] not in self.members:
            return {"errcode": 0, "errmsg": "ok", "invaliduser": body["touser"]}
        message = AppMessage(
            user=body["touser"],
            kind=kind,
            text=text,
            is_checked=bool(body.get("enable_duplicate_check")),
        )
        content = json.dumps([body["touser"], kind, text])
        now = time.monotonic()
        seen_at = self._recent.get(content, float("-inf"))
        self._recent[content] = now
        if message.is_checked and now - seen_at < body.get("duplicate_check_interval", 1800):
            self.dropped.append(message)
        else:
            self.shown.append(message)
            if is_file:
                kept = self._uploaded[text]
                self.files.append(
                    SentFile(user=body["touser"], kind=kind, name=kept.name, data=kept.data)
                )
        self.bell.ring()
        return {"errcode": 0, "errmsg": "ok", "msgid": f"m{next(self._ids)}"}
