"""read_file: slices, sizes, encodings."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.errors import ToolError
from clawbot.tools.read_file import ReadFile, ReadFileArgs
from tests.unit.tools.context import context_in


async def read(root: Path, path: str, *, max_bytes: int = 30_000, **args: object) -> str:
    return await ReadFile(max_bytes=max_bytes).run(
        ReadFileArgs.model_validate({"path": path, **args}), context_in(root)
    )


async def test_a_small_file_is_returned_as_it_is(tmp_path: Path) -> None:
    text = "first\r\n\n\tthird\n没有换行"
    (tmp_path / "a.txt").write_bytes(text.encode())
    assert await read(tmp_path, "a.txt") == text


async def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert await read(tmp_path, "a.txt") == "(a.txt is empty)"


async def test_a_slice_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert await read(tmp_path, "a.txt", offset=3, limit=2) == (
        "line 3\nline 4\n\n[lines 3-4 of 10; go on with offset=5]"
    )
    assert await read(tmp_path, "a.txt", offset=9) == "line 9\nline 10\n\n[lines 9-10 of 10]"


async def test_lines_can_be_numbered(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 12)))
    text = await read(tmp_path, "a.txt", offset=9, limit=2, line_numbers=True)
    assert text.splitlines()[:2] == [" 9  line 9", "10  line 10"]


async def test_a_slice_beyond_the_end_names_the_end(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo")
    with pytest.raises(ToolError, match=r"a.txt: has 2 lines, none at offset 3"):
        await read(tmp_path, "a.txt", offset=3)


async def test_a_big_file_is_not_loaded(tmp_path: Path) -> None:
    with (tmp_path / "big.log").open("wb") as file:
        file.write(b"head\n" + b"x" * 9000 + b"\n")
        file.seek(200 << 20)  # a hole: zeros that take no room
        file.write(b"\nlast\n")
    tracemalloc.start()
    try:
        head = await read(tmp_path, "big.log", limit=2)
        end = await read(tmp_path, "big.log", offset=4)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert head.startswith("head\nxxx")
    assert "[lines 1-2 of a file of 209,715,206 bytes; go on with offset=3]" in head
    assert end == "last\n\n[lines 4-4 of 4]"
    assert peak < 20 << 20


async def test_a_slice_ends_at_a_line_when_it_would_be_too_large(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("aaaa\nbbbb\ncccc\n")
    assert await read(tmp_path, "a.txt", max_bytes=11) == (
        "aaaa\nbbbb\n\n[lines 1-2 of 3; go on with offset=3]"
    )


async def test_a_line_that_is_too_long_is_cut_inside_of_no_character(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("中文字" * 5 + "\nnext\n")
    text = await read(tmp_path, "a.txt", max_bytes=8)
    assert text.startswith(
        "中文\n[line 1 is too long, only its bytes 1-6 are shown, offset=1 column=7 go on; "
    )
    assert "go on with offset=2" in text
    assert (await read(tmp_path, "a.txt", max_bytes=8, offset=2)).startswith("next\n")


async def test_all_of_a_very_long_line_can_be_read_in_pieces(tmp_path: Path) -> None:
    line = "".join(f"{number}中," for number in range(3000))
    (tmp_path / "a.json").write_text("[\n" + line + "\n]\n")
    pieces, column = [], 1
    while True:
        text = await read(tmp_path, "a.json", offset=2, limit=1, column=column, max_bytes=4000)
        body, _, footer = text.rpartition("\n[")
        pieces.append(body.removesuffix("\n"))
        if "column=" not in footer:
            break
        column = int(footer.partition("column=")[2].partition(" ")[0])
    assert "".join(pieces) == line
    with pytest.raises(ToolError, match="not that long"):
        await read(tmp_path, "a.json", offset=1, column=9)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\x89PNG\r\n\x1a\n", "a PNG image of 8 bytes"),
        (b"abc\x00def", "a binary file of 7 bytes"),
        ("text".encode("utf-16"), "UTF-16 text"),
    ],
)
async def test_what_is_no_text_is_named_and_not_shown(
    tmp_path: Path, raw: bytes, words: str
) -> None:
    (tmp_path / "a.bin").write_bytes(raw)
    with pytest.raises(ToolError, match=words):
        await read(tmp_path, "a.bin")


async def test_other_encodings_are_read_as_well_as_can_be(tmp_path: Path) -> None:
    (tmp_path / "gbk.txt").write_bytes("你好,世界\n".encode("gbk"))
    (tmp_path / "odd.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbfplain\n")
    assert await read(tmp_path, "gbk.txt") == "你好,世界\n\n[decoded as GB18030]"
    assert (await read(tmp_path, "odd.txt")).startswith("caf\N{REPLACEMENT CHARACTER}\n")
    assert await read(tmp_path, "bom.txt") == "plain\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@given(
    lines=st.lists(st.text(alphabet="ab中", max_size=6), min_size=1, max_size=12),
    ends_with_newline=st.booleans(),
    limit=st.integers(1, 5),
    max_bytes=st.integers(20, 40),
)
async def test_slices_put_together_are_the_file(
    folder: Path,
    lines: list[str],
    limit: int,
    max_bytes: int,
    *,
    ends_with_newline: bool,
) -> None:
    text = "\n".join(lines) + ("\n" if ends_with_newline else "")
    (folder / "a").write_bytes(text.encode())
    if not text:
        return
    parts, offset = [], 1
    while True:
        part = await read(folder, "a", offset=offset, limit=limit, max_bytes=max_bytes)
        body, marker, footer = part.rpartition("\n[")
        parts.append(body if marker else part)
        if "go on with offset=" not in footer:
            break
        offset = int(footer.partition("offset=")[2].rstrip("]"))
    assert "".join(parts) == text
