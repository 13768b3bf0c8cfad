"""What the embedded store promises beside the contract: its file, its log and its bells."""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from clawbot.errors import StartupError, StoreUnavailable
from clawbot.ports import Transaction
from clawbot.store import checkpoints
from clawbot.store.doorbell import Doorbell, bell_folder
from clawbot.store.engine import READERS, SqliteStore, open_sqlite_engine
from tests.contracts.sqlite_ground import SqliteGround, raw
from tests.contracts.store.bells import ring
from tests.contracts.store.ground import child
from tests.contracts.store.writes import names, put

NOBODY = 65534


@pytest.fixture
async def ground(sqlite_template: Path) -> AsyncIterator[SqliteGround]:
    """An empty database."""
    made = SqliteGround(sqlite_template, patience_s=20.0)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A directory that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="clawbot-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


@contextmanager
def without_privileges() -> Iterator[None]:
    """Be nobody for a while, as root may write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


async def test_a_commit_reaches_the_disk_and_no_commit_runs_a_checkpoint(
    ground: SqliteGround,
) -> None:
    store = await ground.open("one")
    pragmas = ("journal_mode", "synchronous", "wal_autocheckpoint", "foreign_keys")
    found = await store.write(
        lambda tx: [raw(tx).execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
    )
    assert found == ["wal", 2, 0, 1]


def test_one_process_at_a_time_folds_the_log_into_the_file(
    sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "PASSIVE_BYTES", 1)
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 0.0)
    path = tmp_path / "store.db"
    path.write_bytes(sqlite_template.read_bytes())

    def folded() -> list[tuple[str]]:
        """What stands in the file itself."""
        copy = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
        try:
            return copy.execute("SELECT thread FROM aliases").fetchall()
        finally:
            copy.close()

    with closing(open_sqlite_engine(path).connect()) as conn:
        conn.exec_driver_sql("INSERT INTO aliases VALUES ('c', 'c', 'row', 'global', 0)")
        assert folded() == []
        first, second = checkpoints.Checkpoints(path), checkpoints.Checkpoints(path)
        assert first.run_if_due(conn)
        assert folded() == [("row",)]
        assert not second.run_if_due(conn)
        first.close()
        assert second.run_if_due(conn)
        second.close()


async def test_a_damaged_file_cannot_be_written_and_says_so(ground: SqliteGround) -> None:
    store = await ground.open("one")
    (ground.folder / "store.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreUnavailable, match="not a database"):
        await store.write(put("row"))


async def test_a_damaged_file_cannot_be_read_and_says_so(ground: SqliteGround) -> None:
    store = await ground.open("one")
    (ground.folder / "store.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreUnavailable, match="cannot be read: file is not a database"):
        await names(store)


async def test_a_read_that_fails_in_the_database_leaves_the_store_readable(
    ground: SqliteGround,
) -> None:
    store = await ground.open("one")
    await store.write(put("row"))

    def interrupted(tx: Transaction) -> None:
        raw(tx).set_progress_handler(lambda: 1, 1000)
        try:
            tx.conn.exec_driver_sql(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
                "SELECT count(*) FROM n"
            )
        finally:
            raw(tx).set_progress_handler(None, 0)

    for _ in range(READERS * 2):
        with pytest.raises(StoreUnavailable, match="cannot be read: interrupted"):
            await store.read(interrupted)
    assert await names(store) == ["row"]


async def test_bells_that_cannot_be_rung_stop_no_commit(
    ground: SqliteGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await ground.open("one")

    def too_many_files(_folder: Path, _pattern: str) -> Iterator[Path]:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "glob", too_many_files)
        await ring(store)
    await store.write(put("after"))
    assert await names(store) == ["after", "door-False"]


@pytest.mark.parametrize("mode", [(0o444, 0o555), (0o666, 0o555), (0o444, 0o777)])
def test_a_read_only_file_or_directory_is_refused_at_the_start(
    sqlite_template: Path, public_folder: Path, mode: tuple[int, int]
) -> None:
    path = public_folder / "store.db"
    path.write_bytes(sqlite_template.read_bytes())
    path.chmod(mode[0])
    public_folder.chmod(mode[1])
    with without_privileges(), pytest.raises(StartupError, match=r"store\.db.*see that"):
        open_sqlite_engine(path)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("missing/store.db", "see that"), ("directory", "see that"), ("junk.db", "restore a backup")],
)
def test_what_is_no_database_is_refused_at_the_start(
    tmp_path: Path, name: str, remedy: str
) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "junk.db").write_bytes(b"junk" * 1000)
    with pytest.raises(StartupError, match=rf"{name}.*{remedy}"):
        open_sqlite_engine(tmp_path / name)


async def test_the_bell_of_a_killed_process_is_taken_down(ground: SqliteGround) -> None:
    store = await ground.open("one")
    bells = bell_folder_of(store)
    async with child("listen", ground) as listener:
        listener.tell()
        assert await listener.line() == "listening"
        assert len(list(bells.iterdir())) == 2
        await listener.kill()
    assert len(list(bells.iterdir())) == 2
    await ring(store)
    assert len(list(bells.iterdir())) == 1


async def test_others_are_rung_before_the_caller_is_told(ground: SqliteGround) -> None:
    store = await ground.open("one")
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as other:
        other.bind(str(bell_folder_of(store) / "other.sock"))
        other.settimeout(0)
        for number in range(50):
            await ring(store, f"door {number}")
            assert other.recv(64).decode() == f"door {number}"


async def test_a_process_that_does_not_listen_holds_nobody_up(ground: SqliteGround) -> None:
    store = await ground.open("one")
    ear = store.listen(["door"])
    deaf = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    deaf.bind(str(bell_folder_of(store) / "deaf.sock"))
    try:
        bell = bell_of(store)

        def ring_long(_tx: Transaction) -> None:
            for _ in range(2000):
                bell.ring({"door"})

        await store.write(ring_long)
        assert await ear.wait(ground.patience_s)
        await ring(store, "last")
        assert await names(store) == ["last-False"]
    finally:
        deaf.close()


async def test_a_folder_of_bells_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bells").mkdir(mode=0o755)
    with pytest.raises(StartupError, match="not private"):
        await Doorbell.open(tmp_path / "bells", "one")


def test_bells_hang_where_a_socket_can_have_an_address(tmp_path: Path) -> None:
    short = Path("/srv/clawbot")
    assert bell_folder(short) == short / "bells"
    long = tmp_path / ("x" * 100)
    elsewhere = bell_folder(long)
    assert len(os.fsencode(elsewhere / ("0" * 16 + ".sock"))) < 104
    assert elsewhere == bell_folder(long) != bell_folder(tmp_path / ("y" * 100))


def bell_of(store: object) -> Doorbell:
    """The doorbell of an embedded store."""
    assert isinstance(store, SqliteStore)
    return store._doorbell


def bell_folder_of(store: object) -> Path:
    """Where the bells hang."""
    return bell_of(store)._folder
