"""Where files that people send are written, and that nothing leads out of there."""

from pathlib import Path

import pytest

from clawbot import received_files
from clawbot.errors import NotLoaded
from clawbot.messages import Attachment
from clawbot.store import blobs
from tests.contracts.sqlite_ground import SqliteGround


def file(name: str, *, source: str = "s", blob: str = "") -> Attachment:
    return Attachment(kind="file", name=name, source=source, blob=blob)


@pytest.fixture
def ground(sqlite_template: Path) -> SqliteGround:
    return SqliteGround(sqlite_template, patience_s=20.0)


class Shelf:
    """Gives out bytes by source."""

    def __init__(self, **files: bytes) -> None:
        self.files = files

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        data = self.files.get(attachment.source)
        if data is None or len(data) > max_bytes:
            raise NotLoaded("no such file")
        return data


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


class Stopped:
    """A clock that stands."""

    def now_ms(self) -> int:
        return 1_000

    def monotonic(self) -> float:
        return 1.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


@pytest.mark.parametrize(
    ("name", "stands_at"),
    [
        ("plan.md", "received/12345678-plan.md"),
        ("../../etc/passwd", "received/12345678-_.._etc_passwd"),
        ("a/b\\c\x00d\ne.txt", "received/12345678-a_b_c_d_e.txt"),
        ("...", "received/12345678-file"),
        ("", "received/12345678-file"),
        ("报告.docx", "received/12345678-报告.docx"),
        (".env", "received/12345678-env"),
    ],
)
def test_a_name_is_made_fit_for_a_file(name: str, stands_at: str) -> None:
    assert received_files.path_of(file(name, blob="12345678ff")) == stands_at


def test_a_long_name_is_cut_and_keeps_its_ending() -> None:
    path = received_files.path_of(file("龙" * 300 + ".pdf", blob="12345678"))
    assert path.endswith("龙.pdf")
    assert len(Path(path).name.encode()) < 200


@pytest.mark.parametrize("size", [0, 1, blobs.PART_BYTES, 2 * blobs.PART_BYTES + 5])
async def test_a_file_of_any_size_arrives_whole(
    ground: SqliteGround, tmp_path: Path, size: int
) -> None:
    store = await ground.open("one")
    data = bytes(range(251)) * (size // 251 + 1)
    shelf = Shelf(s=data[:size])
    attachment = file("a.bin")
    for _ in range(2):
        (loaded,) = await received_files.load(store, Stopped(), shelf, [attachment], max_bytes=size)
        await received_files.place(store, [loaded], tmp_path)
    assert loaded.size_bytes == size
    assert (tmp_path / received_files.path_of(loaded)).read_bytes() == data[:size]
    assert names_in(tmp_path / "received") == [Path(received_files.path_of(loaded)).name]
    await ground.close()


async def test_what_is_missing_or_too_much_says_so(ground: SqliteGround) -> None:
    store = await ground.open("one")
    wanted = [file(f"{number}") for number in range(12)]
    wanted[0] = file("gone", source="gone")
    loaded = await received_files.load(store, Stopped(), Shelf(s=b"x"), wanted, max_bytes=9)
    assert loaded[0].problem == "no such file"
    assert [bool(each.blob) for each in loaded] == [False, *[True] * 9, False, False]
    assert "first 10" in loaded[-1].problem
    await ground.close()


async def test_a_file_that_is_gone_from_the_store_stops_nothing(
    ground: SqliteGround, tmp_path: Path
) -> None:
    store = await ground.open("one")
    await received_files.place(store, [file("a", blob="0" * 64)], tmp_path)
    assert names_in(tmp_path) == []
    await ground.close()


async def test_a_link_in_the_work_directory_leads_nowhere(
    ground: SqliteGround, tmp_path: Path
) -> None:
    store = await ground.open("one")
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (inside / "received").symlink_to(outside)
    loaded = await received_files.load(store, Stopped(), Shelf(s=b"x"), [file("a")], max_bytes=9)
    await received_files.place(store, loaded, inside)
    assert names_in(outside) == []
    await ground.close()
