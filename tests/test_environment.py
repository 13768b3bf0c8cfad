"""Proof that the ground the other tests stand on holds: PostgreSQL, browser, checks, locks."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from aiohttp import web
from playwright.async_api import Browser, Page

from tests import browser as browser_module
from tests import postgres as postgres_module
from tests.postgres import Cluster

ROOT = Path(__file__).parent.parent
POLL_TIMEOUT_S = 30.0


def wait_until(condition: Callable[[], bool]) -> bool:
    """Whether the condition became true within a generous bound."""
    deadline = time.monotonic() + POLL_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def conninfo(url: str) -> str:
    return url.replace("+psycopg", "")


# PostgreSQL


def test_a_test_gets_an_empty_database_on_the_clusters_own_port(
    postgres: Cluster, postgres_url: str
) -> None:
    with psycopg.connect(conninfo(postgres_url)) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_stat_user_tables").fetchone()
        server = connection.execute("SHOW port").fetchone()
        owner = connection.execute("SHOW data_directory").fetchone()
    assert tables == (0,)
    assert server == (str(postgres.port),)
    assert owner is not None
    assert "clawbot-postgres-" in owner[0]


def test_a_template_is_prepared_once_and_its_copies_share_nothing(postgres: Cluster) -> None:
    prepared: list[str] = []

    def prepare(url: str) -> None:
        prepared.append(url)
        with psycopg.connect(conninfo(url)) as connection:
            connection.execute("CREATE TABLE proof (n int)")

    names = [
        postgres.create_database(template=postgres.template("proof", prepare)) for _ in range(2)
    ]
    with psycopg.connect(conninfo(postgres.url(names[0]))) as connection:
        connection.execute("INSERT INTO proof VALUES (1)")
    with psycopg.connect(conninfo(postgres.url(names[1]))) as connection:
        rows = connection.execute("SELECT count(*) FROM proof").fetchone()
    for name in names:
        postgres.drop_database(name)
    assert rows == (0,)
    assert len(prepared) == 1


def test_a_database_is_dropped_although_a_connection_was_left_open(postgres: Cluster) -> None:
    name = postgres.create_database()
    forgotten = psycopg.connect(conninfo(postgres.url(name)))
    postgres.drop_database(name)
    with pytest.raises(psycopg.OperationalError):
        forgotten.execute("SELECT 1")
    forgotten.close()


def test_two_clusters_run_side_by_side_and_leave_nothing_behind(postgres: Cluster) -> None:
    second = Cluster.start()
    pid = second.pid
    assert pid is not None
    with psycopg.connect(conninfo(second.url("postgres"))) as connection:
        directory = connection.execute("SHOW data_directory").fetchone()
    assert second.port != postgres.port
    second.stop()
    assert not is_running(pid)
    assert directory is not None
    assert not Path(directory[0]).parent.exists()


def test_the_server_ends_with_a_killed_test_process() -> None:
    program = (
        "import sys; from tests.postgres import Cluster; cluster = Cluster.start();"
        "print(cluster.pid, cluster._directory, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        pid, directory = owner.stdout.readline().split()
        owner.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not is_running(int(pid)))
    subprocess.run(["rm", "-r", directory], check=True)


def test_an_interrupted_run_stops_its_server(tmp_path: Path) -> None:
    probe = tmp_path / "test_probe.py"
    probe.write_text(
        "from tests.postgres import postgres\n"
        "def test_waits(postgres):\n"
        "    print(f'pid={postgres.pid}', flush=True)\n"
        "    import time; time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", str(probe)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        assert run.stdout is not None
        found = next(m for line in run.stdout if (m := re.search(r"pid=(\d+)", line)))
        run.send_signal(signal.SIGINT)
        run.stdout.read()
    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert not is_running(int(found[1]))


def test_without_postgresql_the_error_names_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    with pytest.raises(postgres_module.PostgresUnavailableError, match="apt-get install"):
        postgres_module.find_binaries()


# Browser


async def serve(page_text: str) -> tuple[web.AppRunner, str]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=page_text, content_type="text/html")

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}/"


async def test_the_browser_runs_a_page_from_a_loopback_server(page: Page) -> None:
    runner, address = await serve(
        "<!doctype html><link rel=icon href='data:,'><title>proof</title><p id=out></p>"
        "<script>document.getElementById('out').textContent = '你好 ' + (40 + 2)</script>"
    )
    try:
        await page.goto(address)
        assert await page.title() == "proof"
        assert await page.inner_text("#out") == "你好 42"
        box = await page.locator("#out").bounding_box()
        assert box is not None
        assert box["height"] > 0, "text has no height: the machine has no font"
    finally:
        await runner.cleanup()


async def test_the_browser_reaches_nothing_but_the_loopback_address(browser: Browser) -> None:
    page = await browser.new_page()
    with pytest.raises(Exception, match="ERR_NAME_NOT_RESOLVED"):
        await page.goto("http://example.com/")
    with pytest.raises(Exception, match="ERR_NAME_NOT_RESOLVED"):
        await page.goto("http://192.0.2.1/")


def test_without_chromium_the_error_names_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(browser_module.ChromiumMissingError, match="apt-get install"):
        browser_module.find_chromium()


# The checks themselves


def run_probe(tmp_path: Path, source: str, *, ci: bool) -> subprocess.CompletedProcess[str]:
    """A run of its own, with this project's settings and fixtures, of one small test file."""
    probe = tmp_path / "test_probe.py"
    probe.write_text(source)
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    if ci:
        environment["CI"] = "true"
    pytest_command = [sys.executable, "-m", "pytest", "-p", "tests.conftest"]
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    return subprocess.run(
        [*pytest_command, *settings, "-p", "no:cacheprovider", str(probe)],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=POLL_TIMEOUT_S,
    )


SKIPPING = "import pytest\ndef test_skips(): pytest.skip('not here')\ndef test_passes(): pass\n"


def test_a_skipped_test_fails_the_run_in_ci(tmp_path: Path) -> None:
    run = run_probe(tmp_path, SKIPPING, ci=True)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    assert "skipped, which CI does not allow: test_probe.py::test_skips" in run.stdout


def test_a_module_that_skips_itself_fails_the_run_in_ci(tmp_path: Path) -> None:
    source = "import pytest\npytest.skip('not here', allow_module_level=True)\n"
    assert run_probe(tmp_path, source, ci=True).returncode == pytest.ExitCode.TESTS_FAILED


def test_a_skipped_test_is_only_reported_on_a_desk(tmp_path: Path) -> None:
    assert run_probe(tmp_path, SKIPPING, ci=False).returncode == pytest.ExitCode.OK


BLOCKING = """
import asyncio, importlib.util, pathlib, sys, time, clawbot

# Code that stands in our package as far as its file name tells.
name = str(pathlib.Path(clawbot.__file__).parent / "probe.py")
space = {}
exec(compile("import time\\ndef block(): time.sleep(0.001)", name, "exec"), space)
block = space["block"]

async def test_in_the_loop(): block()
async def test_in_a_thread(): await asyncio.to_thread(block)
async def test_of_the_test_itself(): time.sleep(0.001)
def test_without_a_loop(): block()
"""


def test_only_our_own_blocking_call_in_the_loop_fails_its_test(tmp_path: Path) -> None:
    run = run_probe(tmp_path, BLOCKING, ci=True)
    assert "1 failed, 3 passed" in run.stdout
    assert "BlockingError: Blocking call to time.sleep" in run.stdout


@pytest.mark.parametrize("name", ["HTTP_PROXY", "https_proxy", "ALL_PROXY"])
def test_the_proxy_of_the_machine_is_not_seen_by_tests(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    source = f"import os\ndef test_proxy(): assert {name!r} not in os.environ\n"
    assert run_probe(tmp_path, source, ci=True).returncode == pytest.ExitCode.OK


# The locks


def pins(lock: str) -> dict[str, str]:
    found = re.findall(r"^([a-z0-9-]+)==([^ ;]+)", (ROOT / lock).read_text(), re.MULTILINE)
    return dict(found)


def declared(requirements: list[str]) -> dict[str, str]:
    found = [re.match(r"([A-Za-z0-9-]+)(?:\[.*\])?==([^ ;]+)", line) for line in requirements]
    return {match[1]: match[2] for match in found if match}


def test_the_locks_hold_what_the_project_declares() -> None:
    """`make lock` was run after the last change of a dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    product = declared(project["project"]["dependencies"])
    development = declared(project["project"]["optional-dependencies"]["dev"])
    backend = declared(project["build-system"]["requires"])
    assert product
    assert development
    assert backend == declared(project["dependency-groups"]["build"])
    assert (product | backend).items() <= pins("requirements.lock").items()
    assert (product | backend | development).items() <= pins("requirements-dev.lock").items()


def test_development_and_product_run_on_the_same_releases() -> None:
    assert pins("requirements.lock").items() <= pins("requirements-dev.lock").items()


async def test_an_asynchronous_test_runs_in_a_loop_without_a_mark() -> None:
    assert asyncio.get_running_loop().is_running()
