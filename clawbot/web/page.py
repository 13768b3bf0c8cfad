"""The page itself: its HTML, styles and modules, which are part of the package.

They hold no secret and are the same for everybody, so they stay in memory and need no token; what
needs it is all they show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from aiohttp import ETag, web

from clawbot.web.guard import ASSETS, COOKIE_DAYS, PAGE, Guard
from clawbot.web.problems import Problem

_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A file of the page."""

    content: bytes
    content_type: str
    etag: str


def load_assets() -> dict[str, Asset]:
    """The files by name. Blocks on the disk."""
    return {item.name: _load(item) for item in (files("clawbot.web") / "assets").iterdir()}


def _load(item: Traversable) -> Asset:
    content = item.read_bytes()
    return Asset(
        content=content,
        content_type=_TYPES[item.name[item.name.rindex(".") :]],
        etag=hashlib.sha256(content).hexdigest()[:32],
    )


class Page:
    """Serves the page and lets in whoever opens it with the token."""

    def __init__(self, guard: Guard, assets: Mapping[str, Asset]) -> None:
        self._guard = guard
        self._assets = assets

    def routes(self) -> list[web.RouteDef]:
        """What is served where."""
        return [web.get(PAGE, self.page), web.get(f"{ASSETS}{{name}}", self.asset)]

    async def page(self, request: web.Request) -> web.StreamResponse:
        """The page; opened with the token it becomes a cookie and the address is clean again."""
        token = request.query.get("token")
        if token is not None and self._guard.is_token(token):
            response = web.Response(status=303, headers={"Location": PAGE})
            response.set_cookie(
                self._guard.cookie_name,
                self._guard.cookie_value,
                max_age=COOKIE_DAYS * 86_400,
                path="/",
                httponly=True,
                samesite="Strict",
                secure=request.secure,
            )
            return response
        if token is None and self._guard.knows(request):
            return self._html("index.html", 200)
        return self._html("locked.html", 401)

    async def asset(self, request: web.Request) -> web.StreamResponse:
        """A file of the page; a browser asks each time whether it has changed."""
        found = self._assets.get(request.match_info["name"])
        if found is None or found.content_type == _TYPES[".html"]:
            raise Problem(404, "not_found", "There is nothing at this address.")
        headers = {"Cache-Control": "no-cache", "ETag": f'"{found.etag}"'}
        if ETag(value=found.etag) in (request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(
            body=found.content, content_type=found.content_type, charset="utf-8", headers=headers
        )

    def _html(self, name: str, status: int) -> web.Response:
        found = self._assets[name]
        return web.Response(
            body=found.content, status=status, content_type="text/html", charset="utf-8"
        )
