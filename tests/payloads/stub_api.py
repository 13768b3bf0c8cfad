"""The platform's API as far as a row tells of it, on a loopback port, for the adapter's real calls.

What a row does not tell of fails, as it would for a bot without the scope.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web

from tests.payloads.rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """A call of the adapter. `arguments` holds the query and the fields of a form or JSON body."""

    method: str
    path: str
    arguments: Mapping[str, Any]


class AnswerCall(Protocol):
    """What a platform's API answers where the row's own table (`ctx.api`) does not."""

    def __call__(self, row: Row, call: ApiCall) -> tuple[int, Any]:
        """The HTTP status and the JSON."""
        ...


class StubApi:
    """Answers for the row that is being fed."""

    def __init__(self, answer: AnswerCall) -> None:
        self._answer = answer
        self.row: Row | None = None
        self.url = ""

    async def serve(self, request: web.Request) -> web.Response:
        """Answer a call from the row's table, else as the platform does."""
        if self.row is None:
            return web.Response(status=503)
        call = ApiCall(method=request.method, path=request.path, arguments=await _read(request))
        told = tabled(self.row.ctx.get("api") or {}, call)
        status, answer = (200, told) if told is not None else self._answer(self.row, call)
        return web.json_response(answer, status=status)


@asynccontextmanager
async def stub_api(answer: AnswerCall) -> AsyncIterator[StubApi]:
    """Serve a stub until the end of the block."""
    stub = StubApi(answer)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stub.serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        stub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield stub
    finally:
        await runner.cleanup()


def tabled(table: Mapping[str, Any], call: ApiCall) -> Any | None:
    """The answer of a table with keys such as `GET /im/v1/messages/om_1?kind=card` or `users.info`.

    The verb, the front of the path and the query may be left out; the key that says most wins.
    """
    fitting = [(len(key), answer) for key, answer in table.items() if _fits(key, call)]
    return max(fitting, key=lambda each: each[0])[1] if fitting else None


def _fits(key: str, call: ApiCall) -> bool:
    verb, _, target = key.strip().rpartition(" ")
    if verb and verb.strip().upper() != call.method:
        return False
    url = urlsplit(target)
    wanted = "/" + url.path.strip("/")
    if not f"/{call.path.strip('/')}".endswith(wanted):
        return False
    asked = dict(parse_qsl(url.query, keep_blank_values=True))
    return all(str(call.arguments.get(name)) == value for name, value in asked.items())


async def _read(request: web.Request) -> dict[str, Any]:
    arguments: dict[str, Any] = dict(request.query)
    text = await request.text()
    if text.lstrip().startswith("{"):
        return arguments | dict(json.loads(text))
    return arguments | dict(parse_qsl(text, keep_blank_values=True))
