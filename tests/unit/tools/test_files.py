"""Nothing outside of the work directories can be opened, however it is asked for."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.errors import ToolError
from clawbot.tools.files import open_directory, open_file

SECRET = "front's secret"


@pytest.fixture
def back(tmp_path: Path) -> Path:
    """A work directory, beside another chat's."""
    front, back = tmp_path / "front", tmp_path / "back"
    (front / "deep").mkdir(parents=True)
    (front / "README.md").write_text(SECRET)
    (back / "notes").mkdir(parents=True)
    (back / "README.md").write_text("back's own")
    (back / "notes" / "one.txt").write_text("one")
    return back


def content(path: str, *roots: Path) -> str:
    with open_file(roots, path) as file:
        return file.read().decode()


def names(path: str, *roots: Path) -> set[str]:
    with open_directory(roots, path) as fd:
        return {entry.name for entry in os.scandir(fd)}


def refusal(path: str, *roots: Path) -> str:
    with pytest.raises(ToolError) as caught:
        content(path, *roots)
    return str(caught.value)


def link(where: str, target: str) -> Callable[[Path], None]:
    def make(back: Path) -> None:
        (back / where).symlink_to(target.replace("BACK", str(back)))

    return make


@pytest.mark.parametrize(
    "path", ["README.md", "./README.md", "notes/../README.md", "notes//../notes/.././README.md"]
)
def test_a_path_inside_is_opened(back: Path, path: str) -> None:
    assert content(path, back) == "back's own"


def test_an_absolute_path_is_taken_only_below_a_work_directory(back: Path) -> None:
    assert content(f"{back}/README.md", back) == "back's own"
    assert names(str(back), back) == {"README.md", "notes"}
    for path in ("/etc/passwd", f"{back.parent}/front/README.md", f"{back}x/README.md"):
        assert "outside" in refusal(path, back)


@pytest.mark.parametrize(
    "path",
    [
        "../front/README.md",
        "notes/../../front/README.md",
        "..",
        "../back/README.md",
        "notes/../..",
        "/proc/self/root/etc/passwd",
        "BACK/../front/README.md",
    ],
)
def test_a_path_that_leads_out_is_refused(back: Path, path: str) -> None:
    said = refusal(path.replace("BACK", str(back)), back)
    assert "outside" in said
    assert SECRET not in said


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (link("out", "../front/README.md"), "out"),
        (link("out", "../front"), "out/README.md"),
        (link("out", "BACK/../front/README.md"), "out"),
        (link("out", "BACK/README.md"), "out"),
        (link("notes/out", "../../front"), "notes/out/README.md"),
        (link("out", "notes/../.."), "out/front/README.md"),
        (link("out", "/"), "out/etc/passwd"),
        (link("out", "/proc/self/fd"), "out/0"),
    ],
)
def test_a_link_that_leads_out_is_refused(
    back: Path, make: Callable[[Path], None], path: str
) -> None:
    make(back)
    assert "outside" in refusal(path, back)


def test_a_link_that_stays_inside_is_followed(back: Path) -> None:
    (back / "notes" / "up").symlink_to("../README.md")
    (back / "current").symlink_to("notes")
    assert content("current/up", back) == "back's own"
    assert names("current", back) == {"one.txt", "up"}


def test_links_in_a_circle_end(back: Path) -> None:
    (back / "a").symlink_to("b")
    (back / "b").symlink_to("a")
    assert "too many links" in refusal("a", back)


@pytest.mark.parametrize("root", ["alias", "above/back"])
def test_a8_a_work_directory_that_has_become_a_link_leads_nowhere(back: Path, root: str) -> None:
    """A session that may write above another one's directory could put a link there."""
    (back.parent / "alias").symlink_to(back)
    (back.parent / "above").symlink_to(back.parent)
    assert "has become a link" in refusal("README.md", back.parent / root)
    with (
        pytest.raises(ToolError, match="has become a link"),
        open_directory([back.parent / root], "."),
    ):
        pass


@pytest.mark.parametrize(
    ("target", "path"), [("../front", "door/README.md"), ("../front/README.md", "door")]
)
def test_what_is_swapped_for_a_link_after_it_was_looked_at_leads_nowhere(
    back: Path, monkeypatch: pytest.MonkeyPatch, target: str, path: str
) -> None:
    """A racing writer inside of the work directory cannot get a reader out of it."""
    door = back / "door"
    if path == "door":
        door.write_text("back's own")
    else:
        door.mkdir()
        (door / "README.md").write_text("back's own")
    look = os.readlink

    def look_then_swap(name: str, *, dir_fd: int) -> str:
        try:
            return look(name, dir_fd=dir_fd)
        finally:
            if name == "door":
                door.rename(back / "gone")
                door.symlink_to(target)

    monkeypatch.setattr(os, "readlink", look_then_swap)
    assert SECRET not in refusal(path, back)
    assert door.is_symlink()


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_refused_without_waiting_for_it(back: Path) -> None:
    os.mkfifo(back / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(back)  # a socket's path has little room
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        for name in ("pipe", "socket"):
            assert "not a regular file" in refusal(name, back)
    assert "a directory" in refusal("notes", back)
    assert "a directory" in refusal(".", back)


@pytest.mark.parametrize(
    "path", ["missing", "notes/missing/x", "a\x00b", "\ud800", "x" * 300, "a/" * 500]
)
def test_a_path_to_nothing_is_refused_in_words_of_ours(back: Path, path: str) -> None:
    said = refusal(path, back)
    assert str(back) not in said
    assert "Errno" not in said


def test_a_file_is_no_directory(back: Path) -> None:
    with pytest.raises(ToolError, match="not a directory"):
        names("README.md", back)
    assert "not a directory" in refusal("README.md/", back)
    assert "not a directory" in refusal("README.md/x", back)


def test_a_very_deep_path_does_not_use_up_the_descriptors(back: Path) -> None:
    deep = back
    for _ in range(150):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    assert "too long" in refusal("d/" * 150 + "file", back)


def test_of_several_work_directories_the_first_that_has_it_counts(back: Path) -> None:
    second = back.parent / "second"
    second.mkdir()
    (second / "README.md").write_text("second's")
    (second / "more.txt").write_text("more")
    assert content("README.md", back, second) == "back's own"
    assert content("more.txt", back, second) == "more"
    assert content(f"{second}/README.md", back, second) == "second's"
    assert "outside" in refusal("../front/README.md", back, second)
    assert "no work directory" in refusal("README.md")


@pytest.fixture(scope="module")
def maze(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work directory full of links, with secrets all around it."""
    top = tmp_path_factory.mktemp("top")
    back = top / "back"
    (back / "notes").mkdir(parents=True)
    (top / "front").mkdir()
    for outside in (top, top / "front"):
        (outside / "README.md").write_text(SECRET)
    (back / "README.md").write_text("back's own")
    for place, target in (
        ("out", "../front"),
        ("notes/out", "../.."),
        ("notes/up", ".."),
        ("loop", "notes/up/loop"),
    ):
        (back / place).symlink_to(target)
    return back


STEPS = ["..", ".", "", "notes", "out", "loop", "up", "front"]


@given(parts=st.lists(st.sampled_from(STEPS), max_size=9))
def test_no_chain_of_steps_and_links_leads_out(maze: Path, parts: list[str]) -> None:
    path = "/".join([*parts, "README.md"]).lstrip("/")
    with suppress(ToolError):
        assert content(path, maze) == "back's own"
