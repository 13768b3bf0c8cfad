"""The tests' own PostgreSQL: a throwaway cluster that only exists while tests ask for it.

A cluster of its own, in a temporary directory, on a free port of the loopback address and
with its own socket directory, so that a server which already runs on the machine is neither
used nor disturbed. It runs as the user `postgres` when the tests run as root, because
PostgreSQL refuses root. It is not tuned like production in one point: `fsync` is off, as
nothing here outlives the process.

The fixtures never skip: a machine without PostgreSQL fails the tests with the line that
installs it.
"""

import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

REMEDY = "run `make test`, or as root: apt-get install -y --no-install-recommends postgresql"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
PORT_ATTEMPTS = 5


class PostgresUnavailableError(RuntimeError):
    """The tests' PostgreSQL cannot be started; the message says what to do."""


def find_binaries() -> Path:
    """The directory with `initdb` and `postgres`: Debian's newest version, else from PATH."""
    debian = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if debian:
        return max(debian, key=lambda path: int(path.parent.name))
    on_path = shutil.which("initdb")
    if on_path is None:
        raise PostgresUnavailableError(f"no PostgreSQL server programs found: {REMEDY}")
    return Path(on_path).resolve().parent


def as_server_user(command: list[str]) -> list[str]:
    """The command as it must be started so that PostgreSQL accepts its user.

    The server is told to stop when the test process dies without a chance to clean up.
    """
    prefix = ["setpriv", "--pdeathsig=INT"]
    if os.geteuid() == 0:
        prefix += ["--reuid=postgres", "--regid=postgres", "--clear-groups"]
    return [*prefix, "--", *command]


def free_port() -> int:
    """A port nobody listens on now; whoever uses it must be ready to lose a race for it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Cluster:
    """One running server. Made by `start`, ended by `stop`; databases are cheap within it."""

    def __init__(
        self, binaries: Path, address: str = "127.0.0.1", prefix: Sequence[str] = ()
    ) -> None:
        self.port = 0
        self._address = address
        self._prefix = prefix
        self._binaries = binaries
        self._password = secrets.token_hex(16)
        self._directory = Path(tempfile.mkdtemp(prefix="clawbot-postgres-"))
        self._server: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._templates: dict[str, str] = {}

    @classmethod
    def start(cls, address: str = "127.0.0.1", prefix: Sequence[str] = ()) -> "Cluster":
        """Create a cluster and wait until it accepts connections.

        address: where it listens. prefix: a command that runs the server's, elsewhere.
        """
        cluster = cls(find_binaries(), address, prefix)
        try:
            cluster._initialise()
            cluster._serve()
        except BaseException:
            cluster.stop()
            raise
        return cluster

    def stop(self) -> None:
        """Stop the server by its pid and remove its files; a second call does nothing."""
        self.halt()
        shutil.rmtree(self._directory, ignore_errors=True)

    def halt(self) -> None:
        """Stop the server and keep its files."""
        server, self._server = self._server, None
        if server is not None and server.poll() is None:
            server.send_signal(signal.SIGINT)  # a fast shutdown: connections are closed
            try:
                server.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                server.send_signal(signal.SIGQUIT)  # at once, its children too
                server.wait(STOP_TIMEOUT_S)

    def crash(self) -> None:
        """Kill -9 the server and all its processes, as a machine that dies; its files stay."""
        server, self._server = self._server, None
        if server is None or server.poll() is not None:
            return
        listed = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()
        children = [int(child) for child in listed.split()]
        server.kill()
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.wait(STOP_TIMEOUT_S)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while any(Path(f"/proc/{pid}").exists() for pid in children):  # they hold its memory
            if time.monotonic() > deadline:
                raise PostgresUnavailableError("a killed server's processes do not end")
            time.sleep(0.01)
        (self._directory / "data" / "postmaster.pid").unlink(missing_ok=True)  # of the dead one

    def resume(self) -> None:
        """Start the server again after `halt` or `crash`, where it was."""
        if not self._serve_on_port():
            raise PostgresUnavailableError(f"port {self.port} was taken meanwhile")

    @property
    def pid(self) -> int | None:
        """The server's process, while it runs."""
        return self._server.pid if self._server else None

    def url(self, database: str) -> str:
        """The address of a database as SQLAlchemy reads it, with psycopg as the driver."""
        return (
            f"postgresql+psycopg://postgres:{self._password}@{self._address}:{self.port}/{database}"
        )

    def create_database(self, template: str = "template0") -> str:
        """A new database, empty or a copy of a template's; the answer is its name."""
        name = f"test_{next(self._numbers)}"
        self._admin(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        return name

    def template(self, name: str, prepare: Callable[[str], None]) -> str:
        """The name of a database that `prepare(url)` filled; it is called once a cluster.

        `prepare` must close its connections: PostgreSQL copies only what nobody uses.
        """
        if name not in self._templates:
            database = self.create_database()
            prepare(self.url(database))
            self._templates[name] = database
        return self._templates[name]

    def drop_database(self, name: str) -> None:
        """Remove a database and whatever connections a test has left open on it."""
        self._admin(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _admin(self, statement: sql.Composed) -> None:
        with psycopg.connect(
            host=self._address,
            port=self.port,
            user="postgres",
            password=self._password,
            dbname="postgres",
            autocommit=True,
            connect_timeout=10,
        ) as connection:
            connection.execute(statement)

    def _initialise(self) -> None:
        password_file = self._directory / "password"
        password_file.write_text(self._password)
        if os.geteuid() == 0:
            try:
                shutil.chown(self._directory, "postgres")
                shutil.chown(password_file, "postgres")
            except LookupError as error:
                raise PostgresUnavailableError(
                    f"PostgreSQL refuses root and there is no user `postgres`: {REMEDY}"
                ) from error
        result = subprocess.run(
            as_server_user(
                [
                    str(self._binaries / "initdb"),
                    f"--pgdata={self._directory / 'data'}",
                    "--username=postgres",
                    f"--pwfile={password_file}",
                    "--auth=scram-sha-256",
                    "--encoding=UTF8",
                    "--locale=C",  # the one locale that is everywhere
                    "--no-sync",
                ]
            ),
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=START_TIMEOUT_S,
            check=False,
        )
        if result.returncode:
            raise PostgresUnavailableError(f"initdb failed:\n{result.stdout.decode()}")
        with (self._directory / "data" / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {self._address}/24 scram-sha-256\n")

    def _serve(self) -> None:
        for _ in range(PORT_ATTEMPTS):
            self.port = free_port()
            if self._serve_on_port():
                return
        raise PostgresUnavailableError(f"no free port in {PORT_ATTEMPTS} attempts")

    def _serve_on_port(self) -> bool:
        """Start the server and wait for it; false if somebody else took the port meanwhile."""
        log = self._directory / "server.log"
        with log.open("wb") as output:
            self._server = subprocess.Popen(
                [
                    *self._prefix,
                    *as_server_user(
                        [
                            str(self._binaries / "postgres"),
                            f"-D{self._directory / 'data'}",
                            f"-p{self.port}",
                            f"-clisten_addresses={self._address}",
                            f"-cunix_socket_directories={self._directory}",
                            "-cfsync=off",
                            "-cfull_page_writes=off",
                            "-cmax_connections=200",
                        ]
                    ),
                ],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the tests; they stop the server
            )
        # The last line of this file says `ready` once the server, and not another one that
        # happens to listen on the same port, accepts connections.
        status = self._directory / "data" / "postmaster.pid"
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._server.poll() is not None:
                text = log.read_text(errors="replace")
                if "could not bind" in text:
                    return False
                raise PostgresUnavailableError(f"PostgreSQL ended at its start:\n{text}")
            if status.exists() and status.read_text().rstrip().endswith("ready"):
                return True
            time.sleep(0.02)
        raise PostgresUnavailableError(
            f"PostgreSQL is not ready after {START_TIMEOUT_S:.0f} s:\n{log.read_text()}"
        )


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """The cluster, started by the first test that asks for it, stopped after the last."""
    cluster = Cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def postgres_url(postgres: Cluster) -> Iterator[str]:
    """The address of an empty database that belongs to one test."""
    database = postgres.create_database()
    try:
        yield postgres.url(database)
    finally:
        postgres.drop_database(database)
