"""web_fetch reaches public pages and no other address, however it is asked to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer

from clawbot.errors import ToolError
from clawbot.tools.addresses import is_public
from clawbot.tools.html_text import page_text
from clawbot.tools.web_fetch import FetchLimits, WebFetch, WebFetchArgs, open_client
from tests.unit.tools.context import context_in

PAGE = """<!doctype html><html><head><title>The  title</title><style>x{}</style></head><body>
<nav><a href="/home">Home</a></nav>
<h1>Heading</h1><p>First <b>words</b> and a <a href="/more?x=1">link</a>.</p>
<script>alert('hidden')</script>
<ul><li>one</li><li>two</li></ul><pre>code  here
  stays</pre><table><tr><td>a</td><td>b</td></tr></table><img alt="a cat" src="x">
<p>Last &amp; least<br>next</body></html>"""


class Names(AbstractResolver):
    """A resolver that answers as the test says, and remembers who was asked for."""

    def __init__(self, **answers: list[str]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        return [
            ResolveResult(
                hostname=host, host=one, port=port, family=socket.AF_INET, proto=0, flags=0
            )
            for one in self.answers[host.partition(".")[0]]
        ]

    async def close(self) -> None: ...


class Site:
    """A server on the loopback address that counts who reaches it."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.pages: dict[str, Callable[[], web.StreamResponse]] = {}
        self.hangs = asyncio.Event()
        self.server = TestServer(self._app(), host="127.0.0.1")

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.reached.append(request.path)
        if request.path == "/hang":
            await self.hangs.wait()
        return self.pages[request.path]()

    def serve(self, path: str, body: str | bytes, mime: str = "text/html", **more: Any) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.pages[path] = lambda: web.Response(body=data, content_type=mime, **more)

    def redirect(self, path: str, target: str) -> None:
        self.pages[path] = lambda: web.Response(status=302, headers={"Location": target})

    def url(self, path: str, host: str = "site") -> str:
        return f"http://{host}:{self.server.port}{path}"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    async with site.server:
        yield site
        site.hangs.set()


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def names() -> Names:
    loopback = ["127.0.0.1"]
    return Names(site=loopback, inner=loopback, mixed=["93.184.216.34", "10.0.0.1"])


@pytest.fixture
async def fetch(threads: Executor, names: Names) -> AsyncIterator[Callable[..., Any]]:
    """Fetches a URL; `site` may be reached although it is not public."""
    allowed = ("site",)
    async with open_client(allowed, names) as client:

        async def call(
            url: str, *, timeout_s: float = 20, max_bytes: int = 1 << 20, **args: Any
        ) -> str:
            limits = FetchLimits(timeout_s=timeout_s, max_bytes=max_bytes, private_hosts=allowed)
            made = WebFetchArgs(url=url, **args)
            return await WebFetch(client, threads, limits).run(made, context_in())

        yield call


async def test_a_page_is_read_as_text(site: Site, fetch: Callable[..., Any]) -> None:
    site.serve("/page", PAGE)
    text = await fetch(site.url("/page"))
    base = site.url("")
    assert text.startswith(f"[{base}/page, text/html: The title]\n")
    for line in (
        "# Heading",
        f"First words and a [link]({base}/more?x=1).",
        "- one\n- two",
        "```\ncode  here\n  stays\n```",
        "| a | b",
        "[a cat]",
        "Last & least\nnext",
    ):
        assert line in text
    assert "hidden" not in text
    assert "x{}" not in text
    assert "<h1>" in await fetch(site.url("/page"), raw=True)


def test_of_a_page_with_a_main_part_that_part_is_read() -> None:
    body = "word " * 200
    html = f"<body><nav>menu</nav><main><h2>Real</h2>{body}<aside>ad</aside></main>foot</body>"
    _, text = page_text(html, "http://x/")
    assert text.startswith("## Real")
    assert "menu" not in text
    assert "ad" not in text.split()
    assert "foot" not in text


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 100_000,
        "<" * 200_000,
        "<a href=" * 50_000,
        "</p>" * 100_000,
        "&" * 300_000,
        "<!--" * 100_000,
        "<script>" * 50_000,
        "<p " * 100_000,
        "<title>" * 50_000,
        "&#" * 200_000,
    ],
)
def test_a_page_that_is_meant_to_hurt_ends(html: str) -> None:
    page_text(html, "http://x/")


async def test_other_text_is_shown_as_it_is_and_the_rest_is_refused(
    site: Site, fetch: Callable[..., Any]
) -> None:
    site.serve("/a.json", '{"a": 1}', "application/json")
    site.serve("/a.txt", "你好".encode("gb18030"), "text/plain", charset="gb18030")
    site.serve("/a.png", b"\x89PNG", "image/png")
    site.serve("/none", "<p>gone", status=404)
    assert (await fetch(site.url("/a.json"))).endswith(', application/json]\n{"a": 1}')
    assert (await fetch(site.url("/a.txt"))).endswith("\n你好")
    with pytest.raises(ToolError, match=r"image/png, 4 bytes; only text"):
        await fetch(site.url("/a.png"))
    with pytest.raises(ToolError, match=r"the server answers 404\n<p>gone"):
        await fetch(site.url("/none"))


async def test_size_and_time_are_bounded(site: Site, fetch: Callable[..., Any]) -> None:
    site.serve("/big", "x" * 500_000, "text/plain")
    text = await fetch(site.url("/big"), max_bytes=1000)
    assert "[only its beginning; the page is longer]" in text
    assert text.count("x") < 1100
    with pytest.raises(ToolError, match=r"no answer in 0\.2 s"):
        await fetch(site.url("/hang"), timeout_s=0.2)


async def test_redirects_are_followed_a_few_times(site: Site, fetch: Callable[..., Any]) -> None:
    site.redirect("/one", "/two")
    site.redirect("/two", site.url("/page"))
    site.redirect("/circle", "/circle")
    site.serve("/page", "arrived", "text/plain")
    assert (await fetch(site.url("/one"))).endswith("arrived")
    with pytest.raises(ToolError, match="redirected more than 5 times"):
        await fetch(site.url("/circle"))


@pytest.mark.parametrize(
    "target",
    [
        *(
            "http://127.0.0.1:PORT/secret",
            "http://localhost:PORT/secret",
            "http://[::1]:PORT/secret",
        ),
        *("http://2130706433:PORT/secret", "http://127.1:PORT/secret", "http://0:PORT/secret"),
        *("http://0x7f000001:PORT/secret", "http://[::ffff:127.0.0.1]:PORT/secret"),
        *("http://inner:PORT/secret", "http://inner.:PORT/secret", "http://mixed:PORT/secret"),
        *("http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://192.168.1.1/"),
        *("file:///etc/passwd", "ftp://site/x", "gopher://site:PORT/x", "javascript:alert(1)"),
        *("http://user:pass@site:PORT/secret", "//", "http://", "not a url", "http://[::1"),
    ],
)
async def test_no_other_address_is_reached_directly_or_by_a_redirect(
    site: Site, fetch: Callable[..., Any], names: Names, target: str
) -> None:
    names.answers |= {"localhost": ["127.0.0.1"], "0x7f000001": ["127.0.0.1"], "0": ["127.0.0.2"]}
    names.answers |= {"127": ["127.0.0.1"], "2130706433": ["127.0.0.1"]}
    target = target.replace("PORT", str(site.server.port))
    site.serve("/secret", "the secret")
    site.redirect("/away", target)
    with pytest.raises(ToolError) as caught:
        await fetch(target)
    assert "secret" not in str(caught.value).replace("/secret", "")
    if "://" in target and len(target) > 8:
        with pytest.raises(ToolError):
            await fetch(site.url("/away"))
    assert "/secret" not in site.reached


async def test_a_name_that_turns_private_after_the_check_is_not_connected_to(
    site: Site, fetch: Callable[..., Any], names: Names
) -> None:
    """The name is asked for once a connection, and that answer is both checked and used."""
    site.serve("/secret", "the secret")
    with pytest.raises(ToolError, match="is not of the public internet"):
        await fetch(site.url("/secret", host="inner"))
    assert names.asked == ["inner"]
    assert site.reached == []


PUBLIC = ("93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822")
PRIVATE = (
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "0.0.0.1", "169.254.169.254"),
    *("100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1"),
    *("::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1", "2001:0:1:2::1"),
)


@pytest.mark.parametrize("address", [*PUBLIC, *PRIVATE])
def test_which_addresses_are_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address)) is (address in PUBLIC)
