"""list_dir: what is shown of a directory."""

import os
from pathlib import Path

import pytest

from clawbot.errors import ToolError
from clawbot.tools.list_dir import ListDir, ListDirArgs
from tests.unit.tools.context import context_in


async def listing(root: Path, **args: object) -> str:
    return await ListDir().run(ListDirArgs.model_validate(args), context_in(root))


async def test_directories_come_first_and_files_have_sizes(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("x" * 1234)
    (tmp_path / "a.txt").touch()
    (tmp_path / "zoo").mkdir()
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    assert (await listing(tmp_path)).splitlines() == [
        "zoo/",
        "a.txt  0",
        "b.txt  1,234",
        "link  (link)",
        "pipe  (pipe, socket or device)",
    ]


async def test_an_empty_directory_is_said_to_be_empty(tmp_path: Path) -> None:
    assert await listing(tmp_path) == "(. is empty)"


async def test_a_long_listing_says_how_much_there_is(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}").touch()
    lines = (await listing(tmp_path, limit=3)).splitlines()
    assert lines == ["00  0", "01  0", "02  0", "[3 of 30 entries]"]


async def test_odd_names_stay_on_their_line(tmp_path: Path) -> None:
    (tmp_path / "two\nlines").touch()
    (tmp_path / os.fsdecode(b"\xff\xfe")).touch()
    text = await listing(tmp_path)
    assert len(text.splitlines()) == 2
    assert text.encode()


async def test_only_the_work_directory_is_listed(tmp_path: Path) -> None:
    (tmp_path / "back").mkdir()
    with pytest.raises(ToolError, match="outside"):
        await listing(tmp_path / "back", path="..")
