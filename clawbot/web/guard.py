"""Who may use the page: the token, the Host and Origin checks, and the headers of every answer.

A browser carries anybody's requests to the loopback address. So each request must name a host that
is ours (else a foreign name that resolves to this machine would be the same origin), whatever
changes something must come from our own page, and everything but the page's looks needs the token:
in a cookie that scripts cannot read, or as a Bearer token of a program.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from clawbot.web.problems import Problem

COOKIE_DAYS = 30
PAGE: Final = "/"
ASSETS: Final = "/assets/"

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types clawbot",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Judges requests to one listening address. It keeps nothing of them."""

    def __init__(self, *, token: str, host: str, port: int, allowed_hosts: Iterable[str]) -> None:
        self._token = token.encode()
        # A cookie is sent to every port of a host: the name keeps two daemons apart, and the value
        # is not the token itself, which may be in use elsewhere.
        self.cookie_name = f"clawbot-{port}"
        self.cookie_value = hmac.new(
            self._token, b"clawbot page cookie", hashlib.sha256
        ).hexdigest()
        further = [name.lower() for name in allowed_hosts]
        own = [_bracketed(host), "localhost", "127.0.0.1", "[::1]"]
        self._further = frozenset(further)
        self._hosts = frozenset(
            {*further, *(f"{name}:{port}" for name in [*own, *further])}
            | (set(own) if port == 80 else set())
        )

    def check_host(self, request: web.Request) -> None:
        """Refuse a request that calls us by a name that is not ours."""
        if (request.headers.get("Host") or "").lower() not in self._hosts:
            raise Problem(
                421,
                "bad_host",
                "The page is not served under this name. Use the address that clawbot prints at "
                "its start, or add the name to web.allowed_hosts in the configuration.",
            )

    def check_origin(self, request: web.Request) -> None:
        """Refuse what a foreign page sends; a browser names the sender of all but plain reads."""
        origin = request.headers.get("Origin")
        if origin is None:
            if request.method in {"GET", "HEAD"} or self._has_bearer(request):
                return
        elif self._is_own(origin, request.headers.get("Host") or ""):
            return
        raise Problem(
            403, "bad_origin", "This request does not come from clawbot's own page. Open the page."
        )

    def check_token(self, request: web.Request) -> None:
        """Refuse who does not know the token."""
        if not self.knows(request):
            raise Problem(
                401,
                "no_token",
                "Open the address with the token that clawbot prints at its start (it is also in "
                "web.url in the state dir), or send `Authorization: Bearer TOKEN`.",
                {"WWW-Authenticate": "Bearer"},
            )

    def knows(self, request: web.Request) -> bool:
        """Whether the request carries the token, or the cookie that stands for it."""
        cookie = request.cookies.get(self.cookie_name, "")
        return _same(cookie, self.cookie_value.encode()) or self._has_bearer(request)

    def is_token(self, text: str) -> bool:
        """Whether this is the token, in a time that tells nothing of it."""
        return _same(text, self._token)

    def _has_bearer(self, request: web.Request) -> bool:
        scheme, _, value = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.is_token(value.strip())

    def _is_own(self, origin: str, host: str) -> bool:
        """Origins have a port of their own: another server on this machine is a stranger."""
        try:
            parts = urlsplit(origin.lower())
        except ValueError:
            return False
        return parts.scheme in {"http", "https"} and (
            parts.netloc == host.lower() or parts.netloc in self._further
        )


def guarding(guard: Guard) -> Middleware:
    """The middleware that holds every request to the guard, in this order."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        guard.check_host(request)
        guard.check_origin(request)
        if request.path != PAGE and not request.path.startswith(ASSETS):
            guard.check_token(request)
        return await handler(request)

    return check


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Sent with every answer, also with errors."""
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = "clawbot"


def _same(text: str, secret: bytes) -> bool:
    return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), secret)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()
