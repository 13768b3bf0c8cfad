"""H1: a passage is found in four ways, each demands one place, and nothing else changes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.errors import ToolError
from clawbot.tools import edits
from clawbot.tools.edit_file import EditFile, EditFileArgs
from tests.unit.tools.context import context_in, names

CODE = "def first():\n    one()\n    two()\n\n\ndef second():\n    two()\n"


async def edit(
    root: Path, old: str, new: str, *, path: str = "a.py", everywhere: bool = False
) -> str:
    args = EditFileArgs(path=path, old_text=old, new_text=new, replace_all=everywhere)
    return await EditFile().run(args, context_in(root))


@pytest.mark.parametrize(
    ("text", "old", "new", "result", "how"),
    [
        (CODE, "one()", "three()", CODE.replace("one()", "three()"), ""),
        (CODE, "    one()\n", "", CODE.replace("    one()\n", ""), ""),
        ("a\r\nb\r\nc\r\n", "b", "x\ny", "a\r\nx\r\ny\r\nc\r\n", ""),
        ("a\r\nb\r\nc", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc", "with other line ends"),
        ("a\nb\nc\n", "a\r\nb", "x\r\ny", "x\ny\nc\n", "with other line ends"),
        ("x\r\na", "\na", "b", "xb", "with other line ends"),
        ("a\rb\rc\r", "a\nb", "x", "x\rc\r", "with other line ends"),
        ("a  \nb\t\nc\n", "a\nb\n", "x\n", "x\nc\n", "without blanks at the ends of lines"),
        ("a\nb", "b  ", "x\ny", "a\nx\ny", "without blanks at the ends of lines"),
        (
            "class A:\n    def f(self):\n        return 1\n",
            "def f(self):\n    return 1",
            "def f(self):\n    x = 2\n    if x:\n        return x",
            "class A:\n    def f(self):\n        x = 2\n        if x:\n            return x\n",
            "with another indentation",
        ),
        (
            "if a:\n\tif b:\n\t\tc()\n\t\td()\n",
            "  if b:\n    c()\n",
            "  if b:\n    if e:\n      c()\n",
            "if a:\n\tif b:\n\t\tif e:\n\t\t\tc()\n\t\td()\n",
            "with another indentation",
        ),
        (
            "    deep()\n    end()\n",
            "        deep()\n",
            "    less()\n        deep()\n",
            "less()\n    deep()\n    end()\n",
            "with another indentation",
        ),
    ],
)
def test_h1_a_passage_is_found_in_the_first_way_that_finds_it(
    text: str, old: str, new: str, result: str, how: str
) -> None:
    edited = edits.replace(text, old, new)
    assert (edited.text, edited.how) == (result, how)


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        (CODE, "", "x", "old_text is empty"),
        (CODE, "one()", "one()", "the same"),
        ("a\r\nb", "a\nb", "a\r\nb", "the same"),
        (CODE, "two()", "x", r"stands there 2 times \(lines 3, 7\)"),
        ("a\r\nb\r\na\r\nb", "a\nb", "x", r"with other line ends, 2 times \(lines 1, 3\)"),
        ("  a\n b\n\n a\n  b\n", "a\nb\n", "x", r"another indentation, 2 times \(lines 1, 4\)"),
        (CODE, "nowhere", "x", "not there, not even"),
        (CODE, "def first():\n    one()\n    three()", "x", r"line 3 reads '    two\(\)' and not"),
        ("a\nb", "a\nb\nc", "x", r"line 3 reads '\(the end of the file\)'"),
        ("a\n \n \nb\n", " \n\n ", "x", "not there"),
    ],
)
def test_h1_what_cannot_be_replaced_is_told_apart(
    text: str, old: str, new: str, words: str
) -> None:
    with pytest.raises(ToolError, match=words):
        edits.replace(text, old, new)


def test_h1_all_places_are_replaced_when_that_is_asked_for() -> None:
    edited = edits.replace(CODE, "two()", "2", everywhere=True)
    assert edited.text == CODE.replace("two()", "2")
    assert edited.first_lines == (3, 7)


def test_an_exact_match_that_is_unique_wins_over_looser_ones() -> None:
    text = "\tx = 1\n    x = 1\n"
    assert edits.replace(text, "    x = 1", "    x = 2").text == "\tx = 1\n    x = 2\n"


LINES = st.lists(st.text(alphabet="ab \t中", max_size=6), min_size=1, max_size=8)


@given(lines=LINES, end=st.sampled_from(["\n", "\r\n"]), data=st.data())
def test_h1_outside_of_its_place_nothing_changes(
    lines: list[str], end: str, data: st.DataObject
) -> None:
    text = end.join(lines)
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    old = "\n".join(line.strip() for line in lines[first : last + 1])
    try:
        edited = edits.replace(text, old, "new 1\nnew 2")
    except ToolError:
        return
    head, mark, tail = edited.text.partition("new 1" + (end if end in text else "\n"))
    assert mark
    assert text.startswith(head.rstrip(" \t"))
    assert text.endswith(tail.lstrip(" \t").removeprefix("new 2"))


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbfone\r\ntwo\r\n",
        "一\r\none\r\n".encode("gb18030"),
        b"caf\xe9 \xff\xfe\none\n",
        b"no end: one",
        b"mixed\r\none\nand\rmore",
    ],
)
async def test_h1_bytes_that_are_not_replaced_stay_as_they_are(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(raw)
    file.chmod(0o750)
    told = await edit(tmp_path, "one", "1")
    assert file.read_bytes() == raw.replace(b"one", b"1")
    assert file.stat().st_mode & 0o777 == 0o750
    assert told.startswith("a.py: replaced at line ")
    assert names(tmp_path) == ["a.py"]


async def test_the_text_that_is_put_in_has_the_files_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes("你好\n".encode("gb18030"))
    await edit(tmp_path, "你好", "再见")
    assert (tmp_path / "a.py").read_bytes() == "再见\n".encode("gb18030")


async def test_what_cannot_be_edited_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "a.bin").write_bytes(b"a\x00b")
    for path, words in [
        ("dir", "a directory"),
        ("dir/", "names a directory"),
        ("a.bin", "a binary file"),
        ("none.py", "no such file"),
        ("none/x.py", "no such file"),
        ("../x", "outside"),
    ]:
        with pytest.raises(ToolError, match=words):
            await edit(tmp_path, "a", "b", path=path)
    assert not (tmp_path / "none").exists()
    assert (tmp_path / "a.bin").read_bytes() == b"a\x00b"
