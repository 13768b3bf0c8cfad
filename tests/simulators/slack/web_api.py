"""The Web API over HTTP: `/api/<method>`, files; tokens, scopes, faults, a record of calls.

What a method does is in `methods_*`; this module only knows how calls arrive and how they fail.
"""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

from .channel_view import ChannelView
from .faults import Fault, FaultPlan
from .methods import Method, SlackError, decode_arguments, invalid_arguments
from .methods_chat import CHAT_METHODS
from .methods_extra import EXTRA_METHODS
from .methods_read import READ_METHODS
from .socket_mode import SocketMode
from .waiting import Bell
from .workspace import Json

_HTML = "<!DOCTYPE html><html><body><h1>Server Error</h1><p>Something went wrong.</p></body></html>"
_LOGIN = "<!DOCTYPE html><html><head><title>Slack</title></head><body>Sign in</body></html>"


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """One call as it arrived, and what became of it (`answer` stays None when none was sent)."""

    method: str
    arguments: Json
    fault: Fault | None = None
    processed: bool = False
    answer: Json | None = None

    @property
    def error(self) -> str:
        """Slack's error name; empty when the call went well or was not answered."""
        return str((self.answer or {}).get("error", ""))


@dataclass(slots=True, kw_only=True)
class Token:
    """An issued token; `error` is what Slack says of it once it is dead."""

    kind: str
    error: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class WebApi:
    """The HTTP side that the app's client calls."""

    view: ChannelView
    bell: Bell
    faults: FaultPlan
    sockets: SocketMode
    tokens: dict[str, Token]
    scopes: set[str]
    calls: list[Call] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    methods: dict[str, Method] = field(
        default_factory=lambda: {**CHAT_METHODS, **READ_METHODS, **EXTRA_METHODS}
    )

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Mount the API, upload and download routes."""
        router.add_route("*", "/api/{method}", self.serve)
        router.add_post("/upload/v1/{file}", self.upload)
        router.add_get("/files-pri/{tail:.*}", self.download)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Any `/api/` call."""
        method = request.match_info["method"]
        try:
            arguments = await _arguments(request)
        except SlackError as error:
            return web.json_response({"ok": False, "error": error.error})
        call = Call(method=method, arguments=arguments)

        async def process() -> web.StreamResponse:
            call.processed = True
            call.answer = self._answer(call, _bearer(request, arguments))
            headers = {"X-OAuth-Scopes": ",".join(sorted(self.scopes))}
            return web.json_response(call.answer, headers=headers)

        return await self._with_faults(call, request, process)

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """The POST to an upload URL: raw bytes or a multipart form."""
        body = await request.read()
        if request.content_type == "multipart/form-data":
            form = await request.post()
            part = next((v for v in form.values() if isinstance(v, web.FileField)), None)
            body = part.file.read() if part is not None else b""
        file_id = request.match_info["file"]
        has_token = "Authorization" in request.headers
        told = {"file": file_id, "length": len(body), "has_token": has_token}
        call = Call(method="files.upload", arguments=told)

        async def process() -> web.StreamResponse:
            call.processed = True
            file = self.view.workspace.files.get(file_id)
            if file is None:
                return web.Response(status=404, text="not found")
            if len(body) != file.size:
                return web.Response(status=400, text="the length is not the one announced")
            file.content = body
            return web.Response(text=f"OK - {len(body)}")

        return await self._with_faults(call, request, process)

    async def download(self, request: web.Request) -> web.StreamResponse:
        """url_private: the bytes with a good token and files:read, else 200 and a login page."""
        file_id = request.match_info["tail"].partition("/")[0].rpartition("-")[2]
        call = Call(method="files.download", arguments={"file": file_id})

        async def process() -> web.StreamResponse:
            call.processed = True
            token = self.tokens.get(_bearer(request, {}))
            allowed = token is not None and not token.error and "files:read" in self.scopes
            file = self.view.workspace.files.get(file_id)
            if not allowed:
                return web.Response(text=_LOGIN, content_type="text/html")
            if file is None or file.content is None:
                return web.Response(status=404, text="not found")
            return web.Response(body=file.content, content_type=file.mimetype)

        return await self._with_faults(call, request, process)

    async def _with_faults(
        self,
        call: Call,
        request: web.Request,
        process: Callable[[], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        channel = str(call.arguments.get("channel", ""))
        fault = call.fault = self.faults.take(call.method, channel)
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
                response = web.Response(text=_LOGIN, content_type=html)
            case "error":
                call.answer = {"ok": False, "error": fault.error}
                response = web.json_response(call.answer)
            case "ratelimited":
                call.answer = {"ok": False, "error": "ratelimited"}
                wait_s = str(max(1, math.ceil(fault.seconds)))
                response = web.json_response(
                    call.answer, status=429, headers={"Retry-After": wait_s}
                )
            case "bad_json":
                cut = '{"ok": true, "ts": "17'
                response = web.Response(text=cut, content_type="application/json")
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

    def _answer(self, call: Call, bearer: str) -> Json:
        try:
            return {"ok": True, **self._run(call, bearer)}
        except SlackError as error:
            return {"ok": False, "error": error.error, **error.extra}

    def _run(self, call: Call, bearer: str) -> Json:
        if call.method == "apps.connections.open":
            self._check_token("app", bearer)
            return {"url": self.sockets.new_url(self.view.base_url.replace("http", "ws", 1))}
        method = self.methods.get(call.method)
        if method is None:
            raise SlackError("unknown_method", req_method=call.method)
        kind = self._check_token(method.token, bearer)
        if method.scope and method.scope not in self.scopes:
            provided = ",".join(sorted(self.scopes))
            raise SlackError("missing_scope", needed=method.scope, provided=provided)
        arguments = decode_arguments(call.arguments)
        for name in method.required:
            if arguments.get(name) is None:
                raise invalid_arguments(f"missing required field: {name}")
        return method.run(self.view, {**arguments, "_token_kind": kind, "_method": call.method})

    def _check_token(self, wanted: str, bearer: str) -> str:
        if not bearer:
            raise SlackError("not_authed")
        token = self.tokens.get(bearer)
        if token is None:
            raise SlackError("invalid_auth")
        if token.error:
            raise SlackError(token.error)
        if wanted not in {"any", token.kind}:
            raise SlackError("not_allowed_token_type")
        return token.kind


def _bearer(request: web.Request, arguments: Json) -> str:
    header = request.headers.get("Authorization", "")
    return header.removeprefix("Bearer ").strip() or str(arguments.get("token", ""))


async def _arguments(request: web.Request) -> Json:
    arguments: Json = dict(request.query)
    if request.content_type == "application/json":
        try:
            body = json.loads(await request.text() or "{}")
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise SlackError("invalid_json") from error
        if not isinstance(body, dict):
            raise SlackError("json_not_object")
        return arguments | body
    form = await request.post()
    return arguments | {name: value for name, value in form.items() if isinstance(value, str)}
