"""glob and grep: what they find, their bounds, and that no pattern takes for ever."""

import fnmatch
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.clock import SystemClock
from clawbot.errors import ToolError
from clawbot.tools import grep as grep_module
from clawbot.tools import trees
from clawbot.tools.glob import Glob, GlobArgs
from clawbot.tools.grep import Grep, GrepArgs
from clawbot.tools.wildcards import Wildcard
from tests.unit.tools.context import context_in


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name, text in {
        "README.md": "Hello\n",
        "src/main.py": "import os\n\ndef main():\n    print('hello')\n",
        "src/deep/util.py": "def helper():\n    return 'Hello'\n",
        "docs/a.md": "nothing\n",
        ".git/config": "hello\n",
        "node_modules/x/index.js": "hello\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


async def glob(threads: Executor, root: Path, pattern: str, **args: object) -> list[str]:
    made = GlobArgs.model_validate({"pattern": pattern, **args})
    return (await Glob(threads).run(made, context_in(root))).splitlines()


async def grep(threads: Executor, root: Path, pattern: str, **args: object) -> list[str]:
    made = GrepArgs.model_validate({"pattern": pattern, **args})
    return (await Grep(threads, SystemClock()).run(made, context_in(root))).splitlines()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["src/main.py", "src/deep/util.py"]),
        ("**/*.py", ["src/main.py", "src/deep/util.py"]),
        ("src/*.py", ["src/main.py"]),
        ("/src/*.py", ["src/main.py"]),
        ("src/**", ["src/main.py", "src/deep/util.py"]),
        ("**/deep/**/util.*", ["src/deep/util.py"]),
        ("{docs,src}/*.{md,py}", ["docs/a.md", "src/main.py"]),
        ("[A-R]*.md", ["README.md"]),
        ("[!A-R]*.md", ["docs/a.md"]),
        ("?.md", ["docs/a.md"]),
        ("*.rs", ["no file matches *.rs"]),
    ],
)
async def test_files_are_found_by_their_paths(
    threads: Executor, root: Path, pattern: str, found: list[str]
) -> None:
    assert await glob(threads, root, pattern) == found


async def test_a_search_begins_where_it_is_told_and_names_paths_that_can_be_read(
    threads: Executor, root: Path
) -> None:
    assert await glob(threads, root, "*.py", path="src/deep") == ["src/deep/util.py"]
    assert await glob(threads, root, "*", path=".git") == [".git/config"]
    assert await grep(threads, root, "hello", path=".git/config") == [".git/config:1:hello"]


async def test_results_are_bounded_and_say_so(
    threads: Executor, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await glob(threads, root, "*", limit=2) == ["README.md", "docs/a.md", "[2 of 4 files]"]
    lines = await grep(threads, root, "e", limit=2)
    assert lines[2:] == ["[the first 2 matches; there may be more]"]
    monkeypatch.setattr(trees, "MAX_ENTRIES", 3)
    assert "[there is more than could be" in (await glob(threads, root, "*.py"))[-1]


async def test_lines_are_found_by_an_expression(threads: Executor, root: Path) -> None:
    assert await grep(threads, root, "(?i)hel+o") == [
        "README.md:1:Hello",
        "src/main.py:4:    print('hello')",
        "src/deep/util.py:2:    return 'Hello'",
    ]
    assert await grep(threads, root, "HELLO", ignore_case=True, files="*.py", only_names=True) == [
        "src/main.py",
        "src/deep/util.py",
    ]
    assert await grep(threads, root, "^def main", context=1) == [
        "src/main.py-2-",
        "src/main.py:3:def main():",
        "src/main.py-4-    print('hello')",
    ]
    assert await grep(threads, root, "nowhere") == ["nothing matches nowhere"]


async def test_context_of_neighbouring_matches_is_shown_once(
    threads: Executor, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("".join(f"{n}\n" for n in range(1, 13)))
    assert await grep(threads, tmp_path, "^(3|5|11)$", context=1) == [
        *("a-2-2", "a:3:3", "a-4-4", "a:5:5", "a-6-6"),
        *("--", "a-10-10", "a:11:11", "a-12-12"),
    ]


async def test_files_are_searched_whatever_they_hold(threads: Executor, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"hello\x00hello")
    (tmp_path / "chinese").write_bytes("你好 hello\r\n".encode("gb18030"))
    (tmp_path / "long").write_text("x" * 3_000_000 + " hello " + "y" * 3_000_000 + "\nhello")
    (tmp_path / "odd").write_bytes(b"caf\xe9 hello\n")
    os.mkfifo(tmp_path / "pipe")
    lines = await grep(threads, tmp_path, "hello")
    assert lines[0] == "chinese:1:你好 hello"
    assert lines[1].startswith("long:1:…xxx")
    assert "hello" in lines[1]
    assert len(lines[1]) < 400
    assert lines[2:] == ["long:2:hello", "odd:1:caf\N{REPLACEMENT CHARACTER} hello"]


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(" * 400, "(?<x>a)(?P=y)"])
async def test_an_expression_that_cannot_be_read_is_refused(
    threads: Executor, root: Path, pattern: str
) -> None:
    with pytest.raises(ToolError, match="cannot be read"):
        await grep(threads, root, pattern)


async def test_an_expression_that_would_take_for_ever_ends(
    threads: Executor, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep_module, "LINE_S", 0.05)
    (root / "zz").write_text("a" * 5000 + "!\n")
    with pytest.raises(ToolError, match="took too long, in zz") as caught:
        await grep(threads, root, "(a|aa)+$|Hello")
    assert "README.md:1:Hello" in str(caught.value)


async def test_a8_a_search_goes_over_no_link_and_into_nothing_private(
    threads: Executor, root: Path
) -> None:
    secret = root.parent / "front"
    secret.mkdir()
    (secret / "secret.md").write_text("hello from front\n")
    (root / "out").symlink_to("../front")
    (root / "out.md").symlink_to("../front/secret.md")
    (root / "state").mkdir()
    (root / "state" / ".clawbot-private").touch()
    (root / "state" / "db.md").write_text("hello from the state\n")
    found = [*await grep(threads, root, "hello from"), *await glob(threads, root, "**")]
    assert not [line for line in found if "front" in line or "out" in line or "state" in line]
    for path in ("../front", "out", str(secret), "state"):
        with pytest.raises(ToolError):
            await glob(threads, root, "*", path=path)
        with pytest.raises(ToolError):
            await grep(threads, root, "hello", path=path)


@pytest.mark.parametrize("pattern", ["../*.py", "a/../b", ".", "", "/"])
def test_a_pattern_for_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(ToolError, match="want a pattern"):
        Wildcard(pattern)


def test_braces_that_stand_for_too_much_are_refused() -> None:
    with pytest.raises(ToolError, match="too many alternatives"):
        Wildcard("{a,b}" * 20)


@pytest.mark.timeout(20)
def test_no_pattern_takes_for_ever() -> None:
    assert not Wildcard("*a" * 100 + "b").matches("a" * 5000)
    assert not Wildcard("**/a/" * 50 + "b").matches("a/" * 2000 + "c")


@given(pattern=st.text(alphabet="ab*?", min_size=1, max_size=6), name=st.text("ab", max_size=6))
def test_a_wildcard_takes_what_the_usual_one_takes(pattern: str, name: str) -> None:
    if pattern.strip("*") == "" or not name:
        return
    assert Wildcard(pattern).matches(name) == fnmatch.fnmatchcase(name, pattern)
