"""Files are written whole, inside of the work directories, and nobody's change gets lost."""

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from clawbot.errors import ToolError
from clawbot.tools import writing
from clawbot.tools.context import TurnContext
from clawbot.tools.edit_file import EditFile, EditFileArgs
from clawbot.tools.read_file import ReadFile, ReadFileArgs
from clawbot.tools.seen_files import SeenFiles
from clawbot.tools.write_file import WriteFile, WriteFileArgs
from tests.unit.tools.context import context_in, names


async def write(path: str, content: str, *roots: Path) -> str:
    return await WriteFile().run(WriteFileArgs(path=path, content=content), context_in(*roots))


@pytest.fixture
def front(tmp_path: Path) -> Path:
    """Another chat's directory."""
    front = tmp_path / "front"
    front.mkdir()
    (front / "README.md").write_text("front's own")
    return front


@pytest.fixture
def back(tmp_path: Path) -> Path:
    back = tmp_path / "back"
    (back / "notes").mkdir(parents=True)
    return back


async def test_a_file_is_made_with_its_directories(back: Path) -> None:
    assert await write("src/deep/a.py", "one\ntwo", back) == (
        "src/deep/a.py: made, 2 lines, 7 bytes"
    )
    assert (back / "src/deep/a.py").read_text() == "one\ntwo"
    assert await write("src/deep/a.py", "", back) == "src/deep/a.py: replaced, 0 lines, 0 bytes"
    assert names(back / "src/deep") == ["a.py"]


async def test_a_file_keeps_its_permissions_and_is_not_written_through_a_hard_link(
    front: Path, back: Path
) -> None:
    (back / "a.sh").write_text("old")
    (back / "a.sh").chmod(0o755)
    (back / "hard").hardlink_to(front / "README.md")
    await write("a.sh", "new", back)
    await write("hard", "new", back)
    assert (back / "a.sh").stat().st_mode & 0o777 == 0o755
    assert (back / "hard").read_text() == "new"
    assert (front / "README.md").read_text() == "front's own"


async def test_a11_a_file_is_written_where_it_is_and_a_new_one_into_the_first_root(
    front: Path, back: Path
) -> None:
    await write("README.md", "changed", back, front)
    await write("new.md", "new", back, front)
    await write(f"{front}/other.md", "other", back, front)
    assert (front / "README.md").read_text() == "changed"
    assert (back / "new.md").read_text() == "new"
    assert (front / "other.md").read_text() == "other"


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (None, "../front/README.md"),
        (None, "notes/../../front/README.md"),
        (None, "FRONT/README.md"),
        (None, "/etc/clawbot-was-here"),
        (None, ".."),
        ("../front/README.md", "link"),
        ("../front", "link/README.md"),
        ("../front", "link/new.md"),
        ("../front/new.md", "link"),
        ("FRONT", "link/README.md"),
        ("notes/../..", "link/front/new.md"),
    ],
)
async def test_a8_nothing_is_written_outside(
    front: Path, back: Path, make: str | None, path: str
) -> None:
    if make is not None:
        (back / "link").symlink_to(make.replace("FRONT", str(front)))
    with pytest.raises(ToolError, match="outside"):
        await write(path.replace("FRONT", str(front)), "escaped", back)
    assert names(front) == ["README.md"]
    assert (front / "README.md").read_text() == "front's own"


async def test_a8_nothing_is_written_into_a_work_directory_that_has_become_a_link(
    back: Path, front: Path
) -> None:
    docs = back / "docs"
    docs.symlink_to(front)
    for path in ("README.md", "new/file"):
        with pytest.raises(ToolError, match="has become a link"):
            await write(path, "x", docs)
    assert names(front) == ["README.md"]


async def test_a_link_inside_is_followed_and_stays_a_link(back: Path) -> None:
    (back / "link").symlink_to("notes/target.md")
    await write("link", "text", back)
    assert (back / "link").is_symlink()
    assert (back / "notes/target.md").read_text() == "text"


@pytest.mark.parametrize("swaps", ["file", "directory"])
async def test_a8_a_link_that_is_swapped_in_meanwhile_leads_nowhere(
    front: Path, back: Path, monkeypatch: pytest.MonkeyPatch, swaps: str
) -> None:
    (back / "door").mkdir()
    (back / "door" / "README.md").write_text("back's own")
    replace = os.replace

    def swap_then_replace(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        if swaps == "directory":
            (back / "door").rename(back / "gone")
            (back / "door").symlink_to("../front")
        else:
            (back / "door" / "README.md").unlink()
            (back / "door" / "README.md").symlink_to("../../front/README.md")
        replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "replace", swap_then_replace)
    await write("door/README.md", "new", back)
    assert (front / "README.md").read_text() == "front's own"


@pytest.mark.parametrize("path", ["notes", "pipe", "notes/", "a\x00b", "x" * 300])
async def test_what_is_no_file_is_refused_in_words_of_ours(back: Path, path: str) -> None:
    os.mkfifo(back / "pipe")
    with pytest.raises(ToolError) as caught:
        await write(path, "x", back)
    assert str(back) not in str(caught.value)
    assert "Errno" not in str(caught.value)


async def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    back: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (back / "a").write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ToolError, match="the disk is full"):
        await write("a", "new", back)
    assert (back / "a").read_text() == "old"
    assert names(back) == ["a", "notes"]


async def test_clawbots_own_directory_is_not_written_to(back: Path) -> None:
    (back / "notes" / ".clawbot-private").touch()
    for path in ("notes/x", "notes/deep/x"):
        with pytest.raises(ToolError, match="permission denied"):
            await write(path, "x", back)
    with pytest.raises(ToolError, match="permission denied"):
        await write("x", "x", back / "notes")


async def test_a10_two_chats_that_edit_one_file_lose_nothing(tmp_path: Path) -> None:
    names = [f"name_{number}" for number in range(40)]
    (tmp_path / "list").write_text("".join(f"{name} = old\n" for name in names))
    (tmp_path / "alias").symlink_to(".")

    async def edit(number: int, name: str) -> None:
        # Half of the chats reach the directory by another name.
        path = "alias/list" if number % 2 else "list"
        args = EditFileArgs(path=path, old_text=f"{name} = old", new_text=f"{name} = new")
        await EditFile().run(args, context_in(tmp_path))

    await asyncio.gather(*(edit(number, name) for number, name in enumerate(names)))
    assert (tmp_path / "list").read_text() == "".join(f"{name} = new\n" for name in names)


async def test_a10_an_edit_with_a_stale_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    args = EditFileArgs(path="a", old_text="one", new_text="two")
    await EditFile().run(args, context_in(tmp_path))
    with pytest.raises(ToolError, match="not there"):
        await EditFile().run(args, context_in(tmp_path))


def session(folder: Path, *roots: Path) -> TurnContext:
    """A turn of a session that keeps what it has seen in this folder."""
    return replace(context_in(*roots), seen=SeenFiles(folder=folder / "seen", most=5))


async def read(path: str, context: TurnContext) -> str:
    return await ReadFile().run(ReadFileArgs(path=path), context)


async def overwrite(path: str, content: str, context: TurnContext) -> str:
    return await WriteFile().run(WriteFileArgs(path=path, content=content), context)


def put(path: Path, text: str) -> None:
    """Change a file as a command does: in place."""
    path.write_text(text)


@pytest.mark.parametrize("by", ["read", "written"])
@pytest.mark.parametrize("changed", ["a tool", "a command"])
async def test_a10_what_somebody_else_wrote_since_is_not_written_over(
    back: Path, tmp_path: Path, by: str, changed: str
) -> None:
    one, two = session(tmp_path / "one", back), session(tmp_path / "two", back)
    await overwrite("plan", "old", two if by == "read" else one)
    if by == "read":
        await read("plan", one)
    if changed == "a tool":
        await overwrite("plan", "of two", two)
    else:
        put(back / "plan", "of a command")
    # By whatever name it is called, also in a later turn and process.
    again = session(tmp_path / "one", back.parent, back)
    for path, context in (("plan", one), ("./plan", one), (f"{back.name}/plan", again)):
        with pytest.raises(ToolError, match=r"was changed by somebody else.*Read it again"):
            await overwrite(path, "of one", context)
    assert "of " in await read("plan", one)
    await overwrite("plan", "of both", again)
    await overwrite("plan", "of both, again", one)
    assert (back / "plan").read_text() == "of both, again"


async def test_a10_a_file_that_was_never_read_or_is_gone_is_written(
    back: Path, tmp_path: Path
) -> None:
    one = session(tmp_path / "one", back)
    put(back / "result", "made by a command")
    await overwrite("result", "mine", one)
    (back / "result").unlink()
    await overwrite("result", "mine, anew", one)
    assert (back / "result").read_text() == "mine, anew"


async def test_a10_an_edit_counts_as_seeing_only_of_a_file_that_was_known_before(
    back: Path, tmp_path: Path
) -> None:
    one = session(tmp_path / "one", back)
    edit = EditFileArgs(path="plan", old_text="first", new_text="FIRST")
    await overwrite("plan", "first\nlast\n", one)
    await EditFile().run(edit, one)
    await overwrite("plan", "first\nlast\n", one)
    put(back / "plan", "first\nmiddle\nlast\n")
    await EditFile().run(edit, one)
    with pytest.raises(ToolError, match="was changed"):
        await overwrite("plan", "first\nlast\n", one)
    assert (back / "plan").read_text() == "FIRST\nmiddle\nlast\n"


async def test_what_a_session_remembers_of_files_is_bounded_and_may_fail(
    back: Path, tmp_path: Path
) -> None:
    one = session(tmp_path / "one", back)
    for number in range(9):
        await overwrite(f"file{number}", "x", one)
    assert len(names(tmp_path / "one/seen")) == 5
    put(tmp_path / "two", "no directory")
    two = session(tmp_path / "two", back)
    await read("file0", two)
    await overwrite("file0", "y", two)
    assert (back / "file0").read_text() == "y"


def test_who_holds_a_directory_for_long_does_not_hold_up_others_for_ever(
    back: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_one() -> None:
        with writing.place_of([back], "notes/a", threading.Event(), makes_dirs=False) as place:
            place.write(b"x")

    monkeypatch.setattr(writing, "LOCK_WAIT_S", 0.05)
    with (
        writing.place_of([back], "notes/b", threading.Event(), makes_dirs=False),
        pytest.raises(ToolError, match="somebody else is writing"),
    ):
        write_one()
    write_one()
    assert names(back / "notes") == ["a"]
