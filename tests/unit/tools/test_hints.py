"""H3: a failure of a known class comes with what may be done about it, any other one as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.history import ToolCall
from clawbot.tools.edit_file import EditFile
from clawbot.tools.hints import HINTS, hint
from clawbot.tools.read_file import ReadFile
from clawbot.tools.registry import ToolLimits, ToolRegistry
from clawbot.tools.write_file import WriteFile
from tests.unit.tools.context import context_in

SOURCES = Path(__file__).parents[3] / "clawbot" / "tools"


async def observed(root: Path, tool: str, arguments: str) -> str:
    tools = ToolRegistry(
        [ReadFile(), EditFile(), WriteFile()], clock=SystemClock(), limits=ToolLimits()
    )
    call = ToolCall(call_id="1", tool=tool, arguments=arguments)
    seen = await tools.bind(context_in(root)).call(call)
    assert seen.is_error
    return seen.text


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("read_file", '{"path": "none"}', "missing"),
        ("read_file", '{"path": "../x"}', "outside"),
        ("read_file", '{"path": "/etc/passwd"}', "outside"),
        ("write_file", '{"path": "../x", "content": ""}', "outside"),
        ("edit_file", '{"path": "none", "old_text": "a", "new_text": "b"}', "missing"),
        ("edit_file", '{"path": "a", "old_text": "one", "new_text": "b"}', "ambiguous"),
        ("edit_file", '{"path": "a", "old_text": "two", "new_text": "b"}', "stale"),
        ("read_file", '{"path": 3}', "arguments"),
        ("read_file", '{"path": ', "arguments"),
    ],
)
async def test_h3_a_known_class_of_failure_has_its_hint(
    tmp_path: Path, tool: str, arguments: str, kind: str
) -> None:
    (tmp_path / "a").write_text("one one")
    text = await observed(tmp_path, tool, arguments)
    assert text.endswith(f"\n[{HINTS[kind]}]")


async def test_h3_a_failure_of_no_known_class_has_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x00")
    text = await observed(tmp_path, "read_file", '{"path": "a"}')
    assert text == "a: a binary file of 1 bytes; it cannot be shown as text"
    assert hint("") == ""


def test_every_class_that_a_tool_names_is_known_and_every_known_one_is_named() -> None:
    text = "\n".join(path.read_text() for path in sorted(SOURCES.glob("*.py")))
    named = set(re.findall(r'kind="(\w+)"', text)) | set(
        re.findall(r'return "(timeout|no_\w+|killed)"', text)
    )
    assert named | {"killed"} == set(HINTS)
