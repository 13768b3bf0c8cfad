"""The shape that must not drift: who may name, import and read what.

Each rule is a plain function from sources to faults, held against this checkout and against
a deliberately broken sample. A sample is a line that the rule must report.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PLATFORMS = re.compile("slack|feishu|lark|wechat|weixin|wecom", re.IGNORECASE)
# The one table from a channel's type to the module of its adapter.
PLATFORM_TABLE = "clawbot/channels.py"
ADAPTERS_MAY_IMPORT = frozenset(
    {"clawbot.messages", "clawbot.ports", "clawbot.errors", "clawbot.session_key"}
)
TOP_LEVEL = frozenset(
    {
        *("pyproject.toml", "clawbot", "adapters", "config", "tests", "systemd", "README.md"),
        *("Makefile", "requirements.lock", "requirements-dev.lock", "LICENSE", "CHANGELOG.md"),
    }
)
# What builds and interpreters leave behind; ignored by git.
LEFTOVERS = frozenset({"dist", "__pycache__"})
LONGEST_FILE = 400
OUTSIDE = re.compile(r"\.\./shared\b|(?:^|[\s/'\"=])shared/")

# What a source says


def walk_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every identifier, also of imports, attributes and keyword arguments."""
    line = 0
    for node in ast.walk(tree):
        line = getattr(node, "lineno", line)
        if isinstance(node, ast.Constant):
            continue
        for _field, value in ast.iter_fields(node):
            for name in value if isinstance(value, list) else [value]:
                if isinstance(name, str):
                    yield line, name


def walk_strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every text literal, also inside f-strings; docstrings explain and are left out."""
    explaining = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in explaining
        ):
            yield node.lineno, node.value


def walk_imports(path: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every imported name in full: `from clawbot import ports` is `clawbot.ports`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            package = path.split("/")[: -node.level] if node.level else []
            module = [*package, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                yield node.lineno, ".".join([*module, alias.name])


# The rules: from the path and the text of a source to faults


def platform_names(path: str, text: str) -> list[str]:
    """clawbot names no platform; only the table may, and only as text."""
    if not path.endswith(".py"):
        found = enumerate(text.splitlines(), 1)
        return [f"{path}:{line}: {part}" for line, part in found if PLATFORMS.search(part)]
    tree = ast.parse(text)
    named = (
        [*walk_names(tree)] if path == PLATFORM_TABLE else [*walk_names(tree), *walk_strings(tree)]
    )
    return [f"{path}:{line}: {name!r}" for line, name in named if PLATFORMS.search(name)]


def adapter_imports_of_clawbot(path: str, text: str) -> list[str]:
    """Adapters know values, ports and errors of clawbot, and nothing else of it."""
    return [
        f"{path}:{line}: imports {name}"
        for line, name in walk_imports(path, ast.parse(text))
        if name.split(".")[0] == "clawbot"
        and not {name, name.rpartition(".")[0]} & ADAPTERS_MAY_IMPORT
    ]


def imports_of(*packages: str) -> Callable[[str, str], list[str]]:
    """A rule against any import of the packages."""

    def rule(path: str, text: str) -> list[str]:
        return [
            f"{path}:{line}: imports {name}"
            for line, name in walk_imports(path, ast.parse(text))
            if name.split(".")[0] in packages
        ]

    return rule


def too_long(path: str, text: str) -> list[str]:
    """A reader gets lost in a longer file."""
    lines = len(text.splitlines())
    return [f"{path}: {lines} lines, {LONGEST_FILE} at most"] if lines > LONGEST_FILE else []


def reads_outside_the_checkout(path: str, text: str) -> list[str]:
    """A fresh clone is complete: nothing is read from the directory beside the checkout."""
    if not path.endswith(".py"):
        found = enumerate(text.splitlines(), 1)
        return [f"{path}:{line}: {part}" for line, part in found if OUTSIDE.search(part)]
    tree = ast.parse(text)
    joined = [
        (node.lineno, "shared")
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and isinstance(node.right, ast.Constant)
        and node.right.value == "shared"
    ]
    literal = [(line, value) for line, value in walk_strings(tree) if OUTSIDE.search(value)]
    return [f"{path}:{line}: {value!r}" for line, value in [*joined, *literal]]


def foreign_top_level(names: Iterable[str]) -> list[str]:
    """The top level holds the fixed names, what tools expect there, and dot files."""
    return sorted(
        name
        for name in names
        if not name.startswith(".") and name not in TOP_LEVEL and name not in LEFTOVERS
    )


# Held against this checkout


def sources(*places: str, suffixes: tuple[str, ...] = (".py",)) -> Iterator[tuple[str, str]]:
    """Path and text of the files under some places; a place may be a file itself."""
    for place in places:
        top = ROOT / place
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            named = path.suffix in suffixes or path == top
            if named and path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def faults(rule: Callable[[str, str], list[str]], found: Iterable[tuple[str, str]]) -> list[str]:
    checked = list(found)
    assert checked, "the rule was held against nothing"
    return [fault for path, text in checked for fault in rule(path, text)]


WEB = (".py", ".js", ".html", ".css")


def test_clawbot_names_no_platform_outside_its_table() -> None:
    assert not faults(platform_names, sources("clawbot", suffixes=WEB))


def test_adapters_import_only_values_ports_and_errors_of_clawbot() -> None:
    assert not faults(adapter_imports_of_clawbot, sources("adapters"))


def test_clawbot_imports_no_adapter_and_no_test() -> None:
    assert not faults(imports_of("adapters", "tests"), sources("clawbot"))


def test_simulators_know_nothing_of_clawbot() -> None:
    assert not faults(imports_of("clawbot", "adapters"), sources("tests/simulators"))


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    assert not faults(too_long, sources("clawbot", "adapters", suffixes=(".py", ".js")))


def test_nothing_is_read_from_outside_the_checkout() -> None:
    everything = sources(
        *("clawbot", "adapters", "tests", "config", "systemd", "Makefile", ".ci/run", ".ci/need"),
        suffixes=(*WEB, ".yaml", ".service", ".sh"),
    )
    this_file = Path(__file__).relative_to(ROOT).as_posix()  # it holds the broken samples
    kept = ((path, text) for path, text in everything if path != this_file)
    assert not faults(reads_outside_the_checkout, kept)


def test_the_top_level_holds_only_its_fixed_names() -> None:
    assert not foreign_top_level(path.name for path in ROOT.iterdir())


# Each rule bites


@pytest.mark.parametrize(
    "sample",
    [
        "from slack_sdk import WebClient",
        "import lark_oapi",
        "kind = 'feishu'",
        "SLACK_LIMIT = 4000",
        "def send_to_wechat(): ...",
        "class WeComWindow: ...",
        "message.slack_ts",
        "reply(wecom=True)",
        "text = f'{count} on Slack'",
        "match kind:\n    case 'lark': ...",
        "def outer():\n    global feishu_token",
    ],
)
def test_a_platform_name_in_clawbot_is_caught(sample: str) -> None:
    assert platform_names("clawbot/router.py", sample)


def test_a_platform_name_in_the_web_page_is_caught() -> None:
    assert platform_names("clawbot/web/page.js", "const icon = 'slack.png'")


def test_a_docstring_or_comment_may_explain_with_a_platform() -> None:
    assert not platform_names(
        "clawbot/ports.py", '"""As WeChat does."""\nlimit = 1  # bytes, for Slack\n'
    )


def test_the_table_may_hold_platforms_as_text_and_only_as_text() -> None:
    assert not platform_names(PLATFORM_TABLE, "ADAPTERS = {'slack': 'adapters.slack.adapter'}")
    assert platform_names(PLATFORM_TABLE, "from adapters import slack")


@pytest.mark.parametrize(
    "sample",
    [
        "import clawbot",
        "import clawbot.store.inbox",
        "from clawbot import router",
        "from clawbot.store import inbox",
        "from clawbot.ports_of_call import Port",
        "def late():\n    from clawbot.config import Config",
        "from ...clawbot import config",
    ],
)
def test_an_adapter_that_reaches_into_clawbot_is_caught(sample: str) -> None:
    assert adapter_imports_of_clawbot("adapters/slack/adapter.py", sample)


@pytest.mark.parametrize(
    "sample",
    [
        "from clawbot.messages import InboundMessage",
        "from clawbot import ports, errors",
        "import clawbot.session_key",
        "from .api import Api",
        "from adapters.slack import inbound",
    ],
)
def test_an_adapter_may_import_what_it_needs(sample: str) -> None:
    assert not adapter_imports_of_clawbot("adapters/slack/adapter.py", sample)


@pytest.mark.parametrize("sample", ["import adapters.slack", "from adapters import web"])
def test_an_import_of_an_adapter_in_clawbot_is_caught(sample: str) -> None:
    assert imports_of("adapters")("clawbot/supervisor.py", sample)


def test_a_simulator_that_knows_clawbot_is_caught() -> None:
    assert imports_of("clawbot")("tests/simulators/model.py", "from clawbot import messages")


def test_a_file_of_one_line_too_many_is_caught() -> None:
    assert too_long("clawbot/worker.py", "pass\n" * (LONGEST_FILE + 1))
    assert not too_long("clawbot/worker.py", "pass\n" * LONGEST_FILE)


@pytest.mark.parametrize(
    ("path", "sample"),
    [
        ("tests/payloads/run.py", "open('../shared/payloads/slack.jsonl')"),
        ("tests/payloads/run.py", "rows = ROOT.parent / 'shared' / 'payloads'"),
        ("clawbot/config.py", "DEFAULT = '/srv/shared/clawbot.yaml'"),
        ("clawbot/config.py", "DEFAULT = f'shared/{name}'"),
        ("Makefile", "\tcp ../shared/payloads/score.py tests"),
        (".ci/run", "cp shared/payloads/score.py tests"),
    ],
)
def test_a_read_from_outside_the_checkout_is_caught(path: str, sample: str) -> None:
    assert reads_outside_the_checkout(path, sample)


def test_a_new_name_at_the_top_level_is_caught() -> None:
    assert foreign_top_level(["clawbot", ".ci", "dist", "docs", "setup.py"]) == ["docs", "setup.py"]
