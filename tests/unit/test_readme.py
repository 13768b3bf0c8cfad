"""The README names what exists, all of it where it is a list, and nothing that does not exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from clawbot.channels import CHANNEL_TYPES
from clawbot.cli import app
from clawbot.clock import SystemClock
from clawbot.commands.grammar import NAMES
from clawbot.config import Config
from clawbot.tools.offer import open_tools
from tests.web.ground import running_site

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def chapter(title: str) -> str:
    """The text of a chapter."""
    _, _, rest = README.partition(f"\n## {title}\n")
    assert rest, f"the README has no chapter {title!r}"
    return rest.partition("\n## ")[0]


def first_cells(text: str) -> list[str]:
    """The first column of the tables in a text, without its heads."""
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]
    rules = [number for number, cell in enumerate(rows) if not cell.strip("-")]
    heads = {number - 1 for number in rules}
    return [cell for number, cell in enumerate(rows) if number not in heads | set(rules)]


def codes(text: str) -> list[str]:
    """What stands in back quotes, outside of blocks."""
    return re.findall(
        r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    )


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def commands() -> Iterator[tuple[str, set[str]]]:
    """Every command of the command line with its options."""
    pending = [("clawbot", typer.main.get_command(app))]
    while pending:
        name, command = pending.pop()
        inner = getattr(command, "commands", None)
        if inner is not None:
            pending += [(f"{name} {word}", one) for word, one in inner.items()]
        else:
            yield name, {option for param in command.params for option in param.opts}


def test_every_make_target_and_no_other_is_named() -> None:
    listed = [cell.strip("`").removeprefix("make ") for cell in first_cells(chapter("Try it"))]
    assert sorted(listed) == sorted(make_targets())
    named = {match[1] for match in re.finditer(r"\bmake ([a-z]+)", "\n".join(codes(README)))}
    assert named <= make_targets()


def test_every_section_of_the_config_and_no_other_is_listed() -> None:
    listed = [cell.strip("`") for cell in first_cells(chapter("Configure it"))]
    assert sorted(listed) == sorted(Config.model_fields)


def test_every_type_of_channel_is_named() -> None:
    for name in CHANNEL_TYPES:
        title = {"slack": "Slack", "feishu": "Feishu and Lark"}.get(name, "WeChat and WeCom")
        assert name in chapter(title)


async def test_every_tool_and_no_other_is_listed(tmp_path: Path) -> None:
    config = Config(state_dir=tmp_path, model="offline")
    async with open_tools(config, SystemClock()) as offer:
        names = {spec.name for spec in offer.tools.general.specs}
    assert {cell.strip("`") for cell in first_cells(chapter("What the agent can do"))} == names


def test_every_chat_command_and_no_other_is_listed_in_both_languages() -> None:
    rows = [line.split("|") for line in chapter("In the chat").splitlines() if "| `/" in line]
    listed = {word: row[1] for row in rows for word in codes(f"{row[1]} {row[2]}")}
    assert set(listed) == {f"/{name}" for name in NAMES}
    for name, meaning in NAMES.items():
        assert f"`/{meaning}`" in listed[f"/{name}"]


def test_every_command_and_no_other_is_listed() -> None:
    listed = [cell.strip("`") for cell in first_cells(chapter("On the command line"))]
    assert sorted(listed) == sorted(name for name, _ in commands())


def test_every_command_and_option_that_is_named_exists() -> None:
    known = dict(commands())
    named = {code for code in codes(README) if re.fullmatch(r"clawbot( [a-z]+)+", code)}
    assert named - known.keys() == set()
    options = {option for command in known.values() for option in command}
    assert set(re.findall(r"`(--[a-z-]+)`", README)) - options == set()


async def test_every_endpoint_of_the_page_and_no_other_is_listed(tmp_path: Path) -> None:
    async with running_site(tmp_path, with_worker=False) as site:
        assert site.part._runner is not None
        routes = {
            f"{route.method} {route.resource.canonical}"
            for route in site.part._runner.app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
    listed = set(re.findall(r"`((?:GET|POST|PUT|DELETE) [^`]+)`", chapter("The web page")))
    assert listed == routes


def files_named() -> list[str]:
    """Paths in the checkout, by their first folder."""
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    named = {code for code in codes(README) if re.fullmatch(r"[\w.]+/[\w./]*", code)}
    return sorted(path for path in named if path.partition("/")[0] in folders)


@pytest.mark.parametrize("path", files_named())
def test_every_file_that_is_named_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_event_of_the_log_that_is_named_exists() -> None:
    events = set(re.findall(r"`([a-z]+_[a-z]+(?:_[a-z]+)?)`", chapter("When something is wrong")))
    events |= set(re.findall(r'event == "(\w+)"', README))
    sources = [path for folder in ("clawbot", "adapters") for path in (ROOT / folder).rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in sources]
    for event in events:
        assert any(f'"{event}"' in text for text in texts), event


def test_the_message_s_path_is_told_with_its_files() -> None:
    path = codes(chapter("One message, from the platform to the reply"))
    order = [
        *("adapters/slack/inbound.py", "clawbot/intake.py", "clawbot/access.py"),
        *("clawbot/router.py", "clawbot/store/inbox.py", "clawbot/worker.py"),
        *("clawbot/agent/loop.py", "clawbot/store/turns.py", "clawbot/delivery.py"),
        "clawbot/reply.py",
    ]
    assert [code for code in path if code in order] == order


@pytest.mark.parametrize("name", ["slack", "feishu", "wechat"])
def test_each_platform_has_its_marked_chapter(name: str) -> None:
    assert README.count(f"<!-- chapter: {name} -->") == 1
    assert README.index(f"<!-- chapter: {name} -->") < README.index(f"<!-- /chapter: {name} -->")
