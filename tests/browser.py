"""The tests' browser: Debian's Chromium, driven by Playwright.

It reaches the loopback address and nothing else: no other name resolves and no proxy is
used. The fixtures never skip: a machine without Chromium fails the tests with the line that
installs it. A page whose scripts fail makes its test fail.
"""

import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, ConsoleMessage, Error, Page, async_playwright

REMEDY = (
    "run `make test`, or as root: apt-get install -y --no-install-recommends chromium libatomic1"
)
ARGUMENTS = [
    "--no-sandbox",  # Chromium's sandbox refuses root, and containers refuse it
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]
TIMEOUT_MS = 10_000
START_TIMEOUT_MS = 60_000


class ChromiumMissingError(RuntimeError):
    """There is no Chromium on this machine; the message says what to do."""


def find_chromium() -> str:
    """The path of the browser's executable."""
    path = shutil.which("chromium")
    if path is None:
        raise ChromiumMissingError(f"no chromium found: {REMEDY}")
    return path


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A browser of its own for one test; each context in it is another person's browser."""
    executable = find_chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable, args=ARGUMENTS, timeout=START_TIMEOUT_MS
        )
        try:
            yield browser
        finally:
            await browser.close()


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """An empty page; errors of its scripts and failed loads fail the test at its end."""
    page = await browser.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    errors: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(message.text)

    def on_page_error(error: Error) -> None:
        errors.append(str(error))

    page.on("console", on_console)
    page.on("pageerror", on_page_error)
    yield page
    assert not errors, f"errors in the page: {errors}"
