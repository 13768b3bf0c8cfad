"""The context document of a sub-session: how it is made, shortened and spoken of.

It is made once an epoch from the config's template and files, or given when the task is opened; the
store keeps it (`clawbot.store.seeds`). Each request holds it once, in its fixed part, in place of
the global context; from the second turn on a line reminds the model of what it was made for.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from clawbot.config_sections import TasksConfig
from clawbot.errors import ClawbotError
from clawbot.history import Entry, EntryKind
from clawbot.session_key import SessionKey, escape_id
from clawbot.text import clean

MOST_BYTES = 1 << 20
"""A longer document is cut when it is made."""

TASK = "{task}"

_UNSAFE = re.compile(r"[^\w.@+-]")


class SeedFailed(ClawbotError):
    """The context document of a task cannot be made now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A context document. source: given (with the task) or configured."""

    text: str
    source: str

    @property
    def hash(self) -> str:
        """Names the text."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


def build_seed(tasks: TasksConfig, key: SessionKey, title: str) -> Seed | None:
    """Make the document that the config describes; None where it describes none for this task.

    Raise SeedFailed. Blocks on the disk.
    """
    parts = [_filled(tasks.seed, key, title).strip()]
    parts += [_read(path, key) for path in tasks.files]
    text = "\n\n".join(part for part in parts if part)
    return Seed(text=_cut(clean(text), MOST_BYTES), source="configured") if text else None


def given_seed(text: str) -> Seed:
    """A document that somebody wrote for a task."""
    return Seed(text=_cut(clean(text.strip()), MOST_BYTES), source="given")


def shown(seed: Seed, limit_bytes: int, file_name: str) -> str:
    """The document as a request holds it: whole, or its beginning and where the rest can be read.

    Bytes bound tokens: no vocabulary makes more tokens of a text than it has bytes.
    """
    size = len(seed.text.encode())
    if size <= limit_bytes:
        return seed.text
    head = _cut(seed.text, limit_bytes)
    return (
        f"{head.rstrip()}\n[… {size - len(head.encode()):,} of {size:,} bytes are left out here; "
        f"all of it stands in the file {file_name} …]"
    )


def full_text_name(seed: Seed) -> str:
    """The file under which the whole of a shortened document can be read."""
    return f"task-context-{seed.hash[:12]}.md"


def document_name(key: SessionKey) -> str:
    """The name under which a request holds the document; a task's id is a stranger's text."""
    return f"task {_UNSAFE.sub('_', key.task or '')}"


def reminder(key: SessionKey) -> Entry:
    """What stands before the messages of every later turn."""
    return Entry(
        kind=EntryKind.REMINDER,
        text=(
            f"This conversation is about task {key.task}. Its context document is as old as the "
            "conversation: ask for the live state by tool."
        ),
    )


def _filled(template: str, key: SessionKey, title: str) -> str:
    values = {TASK: key.task or "", "{title}": title, "{session}": str(key)}
    for name, value in values.items():
        template = template.replace(name, value)
    return template


def _read(path: Path, key: SessionKey) -> str:
    """A file of the document; one that is named after the task may be missing."""
    name = str(path)
    # The id is a stranger's text: escaped it holds no slash, and dots alone would be a directory.
    task = escape_id(key.task or "")
    if not task.strip("."):
        task = task.replace(".", "%2E")
    actual = Path(name.replace(TASK, task))
    try:
        with actual.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except FileNotFoundError as error:
        if TASK in name:
            return ""
        raise SeedFailed(f"tasks.files {actual}: no such file; make it or take it out") from error
    except OSError as error:
        raise SeedFailed(f"tasks.files {actual}: cannot be read: {error.strerror}") from error
    return raw.decode("utf-8", "replace").strip()


def _cut(text: str, limit_bytes: int) -> str:
    """At most so many bytes of the text, cut at a line end unless that loses more than half."""
    raw = text.encode()
    if len(raw) <= limit_bytes:
        return text
    head = raw[:limit_bytes].decode("utf-8", "ignore")
    end = head.rfind("\n")
    return head[:end] if end > len(head) // 2 else head
