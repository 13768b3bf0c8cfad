"""The Open API over HTTP: tokens, scopes, faults, a record of calls.

What a method does is in `methods*`; this module only knows how calls arrive and how they fail.
"""

import asyncio
import json
import math
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

from . import methods, methods_cards, methods_files
from .api_error import MESSAGES, ApiError
from .bell import Bell
from .faults import Fault, FaultPlan
from .long_connection import LongConnection
from .methods import Method, Request
from .tenant import Json, Tenant

_HTML = "<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>"
_RENEWED_AHEAD_S = 1800
_IM = "/open-apis/im/v1"
_CARDS = "/open-apis/cardkit/v1/cards"
_ID = "([^/]+)"
_BAD_SECRET = 10014


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One method of the API: its name here, how it is called, which scope it needs."""

    name: str
    verb: str
    path: str
    method: Method
    scope: str = ""


APIS = (
    Api(name="bot.info", verb="GET", path="/open-apis/bot/v3/info", method=methods.bot_info),
    Api(name="message.create", verb="POST", path=f"{_IM}/messages", method=methods.create_message),
    Api(
        name="message.reply",
        verb="POST",
        path=f"{_IM}/messages/{_ID}/reply",
        method=methods.reply_message,
    ),
    Api(
        name="message.update",
        verb="PUT",
        path=f"{_IM}/messages/{_ID}",
        method=methods.update_message,
    ),
    Api(
        name="message.patch",
        verb="PATCH",
        path=f"{_IM}/messages/{_ID}",
        method=methods.patch_message,
    ),
    Api(
        name="message.delete",
        verb="DELETE",
        path=f"{_IM}/messages/{_ID}",
        method=methods.delete_message,
    ),
    Api(name="message.list", verb="GET", path=f"{_IM}/messages", method=methods.list_messages),
    Api(name="message.get", verb="GET", path=f"{_IM}/messages/{_ID}", method=methods.get_message),
    Api(
        name="reaction.create",
        verb="POST",
        path=f"{_IM}/messages/{_ID}/reactions",
        method=methods.add_reaction,
        scope="im:message.reactions:write_only",
    ),
    Api(
        name="reaction.delete",
        verb="DELETE",
        path=f"{_IM}/messages/{_ID}/reactions/{_ID}",
        method=methods.delete_reaction,
        scope="im:message.reactions:write_only",
    ),
    Api(
        name="reaction.list",
        verb="GET",
        path=f"{_IM}/messages/{_ID}/reactions",
        method=methods.list_reactions,
        scope="im:message.reactions:read",
    ),
    Api(
        name="resource.get",
        verb="GET",
        path=f"{_IM}/messages/{_ID}/resources/{_ID}",
        method=methods.get_resource,
    ),
    Api(
        name="image.create",
        verb="POST",
        path=f"{_IM}/images",
        method=methods_files.create_image,
        scope="im:resource",
    ),
    Api(
        name="file.create",
        verb="POST",
        path=f"{_IM}/files",
        method=methods_files.create_file,
        scope="im:resource",
    ),
    Api(name="chat.get", verb="GET", path=f"{_IM}/chats/{_ID}", method=methods.get_chat),
    Api(
        name="user.get",
        verb="GET",
        path=f"/open-apis/contact/v3/users/{_ID}",
        method=methods.get_user,
        scope="contact:user.base:readonly",
    ),
    Api(
        name="card.create",
        verb="POST",
        path=_CARDS,
        method=methods_cards.create_card,
        scope="cardkit:card:write",
    ),
    Api(
        name="card.id_convert",
        verb="POST",
        path=f"{_CARDS}/id_convert",
        method=methods_cards.convert_id,
        scope="cardkit:card:read",
    ),
    Api(
        name="card.update",
        verb="PUT",
        path=f"{_CARDS}/{_ID}",
        method=methods_cards.update_card,
        scope="cardkit:card:write",
    ),
    Api(
        name="card.settings",
        verb="PATCH",
        path=f"{_CARDS}/{_ID}/settings",
        method=methods_cards.card_settings,
        scope="cardkit:card:write",
    ),
    Api(
        name="card.content",
        verb="PUT",
        path=f"{_CARDS}/{_ID}/elements/{_ID}/content",
        method=methods_cards.element_content,
        scope="cardkit:card:write",
    ),
)
SCOPES = frozenset(api.scope for api in APIS if api.scope)


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """One call as it arrived, and what became of it (`answer` stays None when none was sent)."""

    api: str
    ids: tuple[str, ...] = ()
    body: Json = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    at: float = 0.0
    fault: Fault | None = None
    processed: bool = False
    answer: Json | None = None

    @property
    def code(self) -> int:
        """Feishu's code; 0 when the call went well or was not answered."""
        return int((self.answer or {}).get("code", 0))


@dataclass(slots=True, kw_only=True, eq=False)
class OpenApi:
    """The HTTP side that the app's client calls."""

    tenant: Tenant
    bell: Bell
    faults: FaultPlan
    sockets: LongConnection
    app_secret: str
    token_expire_s: float
    base_url: str = ""
    scopes: set[str] = field(default_factory=lambda: set(SCOPES))
    calls: list[Call] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    tokens: dict[str, float] = field(default_factory=dict)

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Mount everything."""
        router.add_route("*", "/{path:.*}", self.serve)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Any call."""
        body, files = await _read(request)
        api, ids = _find(request.method, request.path)
        call = Call(
            api=api.name if api is not None else _unauthorised_name(request.path),
            ids=ids,
            body=body,
            files=files,
            query=dict(request.query),
            at=time.monotonic(),
        )
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer").strip()

        async def process() -> web.StreamResponse:
            call.processed = True
            return self._process(call, api, bearer)

        return await self._with_faults(call, request, process)

    def revoke_tokens(self) -> None:
        """No token given so far is good any longer."""
        self.tokens.clear()

    # --- inside

    def _process(self, call: Call, api: Api | None, bearer: str) -> web.StreamResponse:
        try:
            if call.api == "tenant_access_token":
                answer = self._token(call)
            elif call.api == "ws.endpoint":
                answer = self._endpoint(call)
            elif api is None:
                return web.Response(status=404, text="404 page not found")
            else:
                answer = self._run(call, api, bearer)
        except ApiError as error:
            call.answer = {"code": error.code, "msg": str(error), "error": {"log_id": "made-up"}}
            return web.json_response(call.answer, status=400)
        call.answer = {"code": 0, "msg": "success", **answer}
        if call.api == "resource.get":
            name, content = self.tenant.files[answer["file"]]
            headers = {"Content-Disposition": f'attachment; filename="{name}"'}
            return web.Response(body=content, headers=headers)
        return web.json_response(call.answer)

    def _run(self, call: Call, api: Api, bearer: str) -> Json:
        if not bearer:
            raise ApiError(99991661)
        if self.tokens.get(bearer, 0.0) <= self.tenant.now():
            raise ApiError(99991663)
        if api.scope and api.scope not in self.scopes:
            raise ApiError(99991672, f"Access denied. Required: [{api.scope}]")
        request = Request(ids=call.ids, body=call.body, query=call.query, files=call.files)
        return api.method(self.tenant, request)

    def _token(self, call: Call) -> Json:
        """The same token until half an hour before its end (or most of a shorter life)."""
        self._check_app(call.body.get("app_id"), call.body.get("app_secret"))
        now = self.tenant.now()
        ahead_s = min(_RENEWED_AHEAD_S, self.token_expire_s / 2)
        token = next((key for key, end in self.tokens.items() if end - now > ahead_s), None)
        if token is None:
            token = self.tenant.new_id("t-")
            self.tokens[token] = now + self.token_expire_s
        expire = math.floor(self.tokens[token] - now)
        return {"tenant_access_token": token, "expire": max(expire, 1)}

    def _endpoint(self, call: Call) -> Json:
        self._check_app(call.body.get("AppID"), call.body.get("AppSecret"))
        url = self.sockets.new_url(self.base_url.replace("http", "ws", 1))
        return {"data": {"URL": url, "ClientConfig": self.sockets.client_config}}

    def _check_app(self, app_id: object, secret: object) -> None:
        if app_id != self.tenant.app_id or secret != self.app_secret:
            raise ApiError(_BAD_SECRET, "app secret invalid")

    async def _with_faults(
        self,
        call: Call,
        request: web.Request,
        process: Callable[[], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        fault = call.fault = self.faults.take(call.api, self._chat_of(call))
        self.calls.append(call)
        self.bell.ring()
        try:
            if fault is None:
                return await process()
            response = await process() if fault.processed else None
            self.bell.ring()
            return await self._failed(fault, call, request, response)
        finally:
            self.bell.ring()

    async def _failed(
        self,
        fault: Fault,
        call: Call,
        request: web.Request,
        response: web.StreamResponse | None,
    ) -> web.StreamResponse:
        html = "text/html"
        match fault.kind:
            case "http":
                response = web.Response(status=fault.status, text=_HTML, content_type=html)
            case "html":
                response = web.Response(status=502, text=_HTML, content_type=html)
            case "error":
                call.answer = {"code": fault.code, "msg": MESSAGES.get(fault.code, "planned")}
                response = web.json_response(call.answer, status=400)
            case "ratelimited":
                call.answer = {"code": 99991400, "msg": MESSAGES[99991400]}
                headers = {
                    "x-ogw-ratelimit-limit": "50",
                    "x-ogw-ratelimit-reset": f"{fault.seconds:g}",
                }
                response = web.json_response(call.answer, status=fault.status, headers=headers)
            case "bad_json":
                text = '{"code": 0, "data": {"mess'
                response = web.Response(text=text, content_type="application/json")
            case "slow":
                await asyncio.sleep(fault.seconds)
            case "hang" | "hang_after":
                response = None
                await self.stopping.wait()
            case "reset_before" | "reset_after":
                response = None
        if response is not None:
            return response
        call.answer = None
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _chat_of(self, call: Call) -> str:
        if call.api == "message.create":
            return str(call.body.get("receive_id", ""))
        message = self.tenant.messages.get(call.ids[0]) if call.ids else None
        return message.chat_id if message is not None else ""


async def _read(request: web.Request) -> tuple[Json, dict[str, bytes]]:
    """A body: a JSON object, or the texts and the files of a form."""
    if request.content_type != "multipart/form-data":
        try:
            body = json.loads(await request.text() or "{}")
        except (ValueError, UnicodeDecodeError):
            body = {}
        return (body if isinstance(body, dict) else {}), {}
    texts, files = {}, {}
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            files[name] = value.file.read()
        else:
            texts[name] = value
    return texts, files


def _find(verb: str, path: str) -> tuple[Api | None, tuple[str, ...]]:
    for api in APIS:
        if api.verb == verb and (match := re.fullmatch(api.path, path)):
            return api, match.groups()
    return None, ()


def _unauthorised_name(path: str) -> str:
    """The two calls that need no token."""
    if path == "/callback/ws/endpoint":
        return "ws.endpoint"
    is_token = path == "/open-apis/auth/v3/tenant_access_token/internal"
    return "tenant_access_token" if is_token else "unknown"
