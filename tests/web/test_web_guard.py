"""Who may use the page: token, cookie, Host, Origin, headers; and how the part starts and ends."""

import asyncio
import resource
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from clawbot.errors import StartupError
from clawbot.web.access_token import page_token
from tests.web.ground import (
    TOKEN,
    Site,
    calling,
    running_site,
    running_store,
    web_config,
    web_part,
)

BEARER = {"Authorization": f"Bearer {TOKEN}"}
MESSAGE = {"session": "global", "text": "hello", "client_msg_id": "m1"}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running_site(tmp_path, allowed_hosts=("bot.example",)) as site:
        yield site


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A browser as far as cookies go; also those of an address without a name."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


# -- the token -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/sessions"),
        ("GET", "/api/transcript"),
        ("GET", "/api/nothing"),
        ("POST", "/api/messages"),
        ("POST", "/api/stop"),
        ("POST", "/api/events"),
    ],
)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": f"clawbot={TOKEN}"},
    ],
)
async def test_without_the_token_nothing_is_told(
    site: Site, http: aiohttp.ClientSession, method: str, path: str, headers: dict[str, str]
) -> None:
    headers = headers | {"Origin": site.base}
    async with http.request(method, site.base + path, headers=headers, json=MESSAGE) as response:
        assert response.status == 401
        assert (await response.json())["error"] == "no_token"


async def test_opening_the_printed_address_signs_the_browser_in_and_cleans_the_address(
    site: Site, http: aiohttp.ClientSession
) -> None:
    async with http.get(site.url, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (303, "/")
        cookie = response.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
    async with http.get(site.base + "/") as response:
        assert response.status == 200
        assert "New chat" in await response.text()
    async with http.get(site.base + "/api/sessions") as response:
        assert response.status == 200


@pytest.mark.parametrize("query", ["", "?token=wrong", "?token="])
async def test_a_stranger_sees_a_locked_page_that_says_what_to_do(
    site: Site, http: aiohttp.ClientSession, query: str
) -> None:
    async with http.get(f"{site.base}/{query}") as response:
        assert response.status == 401
        assert "Set-Cookie" not in response.headers
        assert "This page is locked" in await response.text()


async def test_a_cookie_alone_changes_nothing_without_an_origin(
    site: Site, http: aiohttp.ClientSession
) -> None:
    await http.get(site.url)
    for path, body in (("/api/messages", MESSAGE), ("/api/events", {})):
        async with http.post(site.base + path, json=body) as response:
            assert (response.status, (await response.json())["error"]) == (403, "bad_origin")
    headers = {"Origin": site.base}
    async with http.post(f"{site.base}/api/messages", json=MESSAGE, headers=headers) as response:
        assert response.status == 200


# -- hosts and origins -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "evil.example:{port}", ""]
)
@pytest.mark.parametrize("path", ["/", "/assets/app.js", "/api/sessions"])
async def test_a_foreign_name_that_leads_here_is_refused(
    site: Site, http: aiohttp.ClientSession, host: str, path: str
) -> None:
    host = host.format(port=site.base.rpartition(":")[2])
    async with http.get(site.base + path, headers=BEARER | {"Host": host}) as response:
        assert (response.status, (await response.json())["error"]) == (421, "bad_host")


@pytest.mark.parametrize(
    "host", ["localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}", "bot.example"]
)
async def test_our_own_names_are_served(site: Site, http: aiohttp.ClientSession, host: str) -> None:
    host = host.format(port=site.base.rpartition(":")[2])
    async with http.get(f"{site.base}/api/sessions", headers=BEARER | {"Host": host}) as response:
        assert response.status == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1:1",
        "http://localhost:1",
        "file://",
        "http://[",
    ],
)
@pytest.mark.parametrize("path", ["/api/messages", "/api/stop", "/api/events"])
async def test_a_foreign_page_changes_and_hears_nothing(
    site: Site, http: aiohttp.ClientSession, origin: str, path: str
) -> None:
    headers = BEARER | {"Origin": origin}
    async with http.post(site.base + path, json=MESSAGE, headers=headers) as response:
        assert (response.status, (await response.json())["error"]) == (403, "bad_origin")
    async with calling(site) as caller:
        assert (await caller.get("/api/sessions"))["sessions"] == []


async def test_a_page_behind_a_proxy_sends_under_the_name_that_is_allowed(
    site: Site, http: aiohttp.ClientSession
) -> None:
    headers = BEARER | {"Host": "bot.example", "Origin": "https://bot.example"}
    async with http.post(f"{site.base}/api/messages", json=MESSAGE, headers=headers) as response:
        assert response.status == 200


# -- every answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/?token=wrong", "/assets/app.js", "/assets/none", "/api/sessions", "/none"]
)
async def test_every_answer_forbids_what_the_page_does_not_need(
    site: Site, http: aiohttp.ClientSession, path: str
) -> None:
    async with http.get(site.base + path, headers=BEARER) as response:
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert response.headers["Cache-Control"] in {"no-store", "no-cache"}
        assert "aiohttp" not in response.headers["Server"]


async def test_the_modules_are_sent_again_only_when_they_changed(
    site: Site, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{site.base}/assets/app.js") as response:
        assert response.content_type == "text/javascript"
        tag = response.headers["ETag"]
    headers = {"If-None-Match": tag}
    async with http.get(f"{site.base}/assets/app.js", headers=headers) as response:
        assert response.status == 304


async def test_the_pages_html_is_no_asset_and_nothing_else_of_the_package_is_served(
    site: Site, http: aiohttp.ClientSession
) -> None:
    for name in ("index.html", "..%2Fguard.py", "guard.py", "%2e%2e/guard.py"):
        async with http.get(f"{site.base}/assets/{name}") as response:
            assert response.status in {401, 404}, name


# -- the part --------------------------------------------------------------------------------------


def test_a_token_is_made_once_and_kept_for_its_owner_alone(tmp_path: Path) -> None:
    first, second = page_token(tmp_path, None), page_token(tmp_path, None)
    assert first == second
    assert len(first) >= 40
    file = tmp_path / "web.token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["web.token"]


def test_a_token_file_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    file = tmp_path / "web.token"
    file.write_text("kept\n")
    file.chmod(0o644)
    assert page_token(tmp_path, None) == "kept"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_empty_token_file_is_no_token(tmp_path: Path) -> None:
    (tmp_path / "web.token").touch()
    assert len(page_token(tmp_path, None)) >= 40


async def test_the_address_is_written_for_its_owner_and_taken_away_at_the_end(
    tmp_path: Path,
) -> None:
    file = tmp_path / "web.url"
    async with running_site(tmp_path) as site:
        assert file.read_text() == f"{site.url}\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert site.url.startswith("http://127.0.0.1:")
    assert not file.exists()


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@contextmanager
def full_disk() -> Iterator[None]:
    """Let the kernel refuse every byte of a file, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_full_disk_is_told_at_the_start_and_leaves_no_draft(tmp_path: Path) -> None:
    async with running_store(tmp_path) as store:
        before = files(tmp_path)
        with full_disk(), pytest.raises(StartupError, match=r"web\.url: cannot be written"):
            await web_part(web_config(tmp_path), store).open()
        with full_disk(), pytest.raises(StartupError, match=r"web\.token cannot be read or made"):
            await web_part(web_config(tmp_path, token=None), store).open()
        assert files(tmp_path) == before


async def test_a_port_in_use_is_told_with_its_key_and_what_to_do(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        port = int(site.base.rpartition(":")[2])
        part = web_part(web_config(tmp_path, port=port), site.store)
        with pytest.raises(StartupError, match=rf"web\.port: 127\.0\.0\.1:{port} is in use"):
            await part.run(asyncio.Event())


async def test_an_address_that_is_not_ours_is_told(tmp_path: Path) -> None:
    async with running_store(tmp_path) as store:
        part = web_part(web_config(tmp_path, host="203.0.113.1"), store)
        with pytest.raises(StartupError, match=r"web\.host, web\.port: cannot listen on"):
            await part.open()


async def test_stopping_ends_open_event_streams_in_order(tmp_path: Path) -> None:
    async with running_store(tmp_path) as store:
        part = web_part(web_config(tmp_path), store)
        await part.open()
        stop = asyncio.Event()
        running = asyncio.create_task(part.run(stop))
        base = part.url.partition("/?")[0]
        async with (
            aiohttp.ClientSession(headers=BEARER) as http,
            http.post(f"{base}/api/events", json={}) as response,
        ):
            assert await response.content.readline() == b": connected\n"
            stop.set()
            async with asyncio.timeout(20):
                assert await response.content.read() == b"\n"
                await running
