"""Where the files of a session are.

By default one directory a chat (with scope `user`, a person) below the state directory, shared by
the chat's threads and tasks; the terminal's sessions work in the directory they are named after.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clawbot.session_key import SessionKey

WELCOME = """\
# The work directory of this chat

Files that the agent reads or writes for this chat are here; no other chat reaches them. Put files
here that it shall know, and ask for them by name, or ask it to list the files.
"""


def work_dir_of(state_dir: Path, session: SessionKey) -> Path:
    """The directory of a session. Names are hashes: ids may hold anything."""
    if session.directory is not None:
        return Path(session.directory)
    owner = replace(session, thread=None, task=None)
    return state_dir / "work" / owner.digest


def make_work_dir(path: Path) -> Path:
    """Make the directory if it is missing; a new one explains itself. Blocks on the disk."""
    if not path.exists():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / "README.md").write_text(WELCOME, encoding="utf-8")
    return path
