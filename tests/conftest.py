"""What every test shares: fixtures by name, a clean environment, no skipped test in CI."""

import os
import signal

import hypothesis
import pytest
import structlog

# Before anything imports them: what a clause of theirs found is shown as a test's is.
pytest.register_assert_rewrite("tests.contracts.adapters", "tests.contracts.store")

from tests.blocking import no_blocking_calls  # noqa: E402
from tests.browser import browser, page  # noqa: E402
from tests.postgres import postgres, postgres_url  # noqa: E402

__all__ = ["browser", "no_blocking_calls", "page", "postgres", "postgres_url"]

# slack_sdk reads these and ignores NO_PROXY, so its calls to a simulator would leave the machine.
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy")

collect_ignore = ["cases"]
"""What the agent is to mend in `clawbot eval`."""


def pytest_configure(config: pytest.Config) -> None:
    """Take the proxy settings out, before a fixture of any scope starts something; log plainly.

    Without this structlog draws tracebacks by reading source files, which blocks the loop.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So a shell starts what it runs in the background, and our children would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in PROXY_VARIABLES:
        os.environ.pop(name, None)
        os.environ.pop(name.upper(), None)
    plain = structlog.dev.ConsoleRenderer(
        colors=False, exception_formatter=structlog.dev.plain_traceback
    )
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])
    hypothesis.settings.register_profile(
        "untimed",
        hypothesis.settings(),  # what it takes in CI, or else
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they ask for, so that `-m "not browser"` needs no marks by hand."""
    for item in items:
        for fixture in ("postgres", "browser"):
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(fixture)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a skipped test is a failed run: nothing may pass because nobody looked."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("CI"):
        return
    reporter.ensure_newline()
    for report in reporter.stats.get("skipped", []):
        reporter.write_line(f"skipped, which CI does not allow: {report.nodeid}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
