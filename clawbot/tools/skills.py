"""Skills: instructions for a kind of work, in `.claw/skills/NAME/SKILL.md` of a work directory.

The prompt names each with what it is for; its body is read when it is needed. A file begins with
`---`, then `name:` and `description:`, then `---`. Blocking; for threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from clawbot.errors import ToolError
from clawbot.tools.encodings import decode_slice
from clawbot.tools.files import open_directory, open_file
from clawbot.tools.trees import shown

FOLDER = ".claw/skills"
FILE = "SKILL.md"
HEAD_BYTES = 8192
MOST_BYTES = 200_000
MOST_FOLDERS = 200
DESCRIPTION_CHARS = 300

State = tuple[int, int, int, int]
"""By what a changed file is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill as the prompt names it. path: of its file, for `read_file`."""

    name: str
    description: str
    path: str


def state_of(fd: int) -> State:
    """The state of an open file."""
    status = os.fstat(fd)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def skill_files(root: Path) -> Iterator[str]:
    """The paths of a work directory's skills, in order of their names."""
    try:
        with open_directory([root], FOLDER) as fd, os.scandir(fd) as found:
            names = [entry.name for entry, _ in zip(found, range(MOST_FOLDERS), strict=False)]
    except ToolError:  # most directories have none
        return
    yield from (f"{FOLDER}/{name}/{FILE}" for name in sorted(names) if shown(name) == name)


def read_head(root: Path, path: str) -> Skill | None:
    """The skill of a file; None if it is none."""
    try:
        with open_file([root], path) as file:
            text = decode_slice(file.read(HEAD_BYTES))[0]
    except ToolError:
        return None
    head, _ = _parted(text)
    folder = path.split("/")[-2]
    name = str(head.get("name") or folder).strip()
    description = " ".join(str(head.get("description") or "").split())
    return Skill(name=name, description=description[:DESCRIPTION_CHARS], path=path)


def read_skill(roots: Sequence[Path], name: str) -> str:
    """The body of a skill. Raise ToolError, which names those there are."""
    known = []
    for root in roots:
        for path in skill_files(root):
            skill = read_head(root, path)
            if skill is None:
                continue
            known.append(skill.name)
            if skill.name == name:
                return _body(root, path)
    raise ToolError(f"There is no skill {name!r}. Skills: {', '.join(known) or 'none'}.")


def _body(root: Path, path: str) -> str:
    with open_file([root], path) as file:
        size = os.fstat(file.fileno()).st_size
        text = decode_slice(file.read(MOST_BYTES))[0]
    _, body = _parted(text)
    folder = path.rpartition("/")[0]
    note = f"[This is {path}; paths in it are relative to {folder}.]"
    if size > MOST_BYTES:
        note += f"\n[It has {size:,} bytes; read_file shows all.]"
    return f"{note}\n{body.strip()}"


def _parted(text: str) -> tuple[dict[str, object], str]:
    """What stands in the head, and the body."""
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].strip() != "---":
        return {}, text
    for number, line in enumerate(lines[1:], 1):
        if line.strip() == "---":
            return _head("".join(lines[1:number])), "".join(lines[number + 1 :])
    return {}, text


def _head(text: str) -> dict[str, object]:
    try:
        data = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        # An unquoted colon is no reason to know nothing of the skill.
        pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
        return {name.strip(): value.strip() for name, _, value in pairs}
    return data if isinstance(data, dict) else {}
