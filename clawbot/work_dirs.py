"""Where the files of a session are.

By default one directory a chat (with scope `user`, a person) below the state directory, shared by
the chat's threads and tasks; a channel may give each session its own, or add shared ones. The
terminal's sessions work in the directory they are named after. A session may be bound to other
directories, several of them: relative paths begin in the first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clawbot.config import Config
from clawbot.errors import WorkDirsDiffer
from clawbot.session_key import SessionKey

WELCOME = """\
# The work directory of this chat

Files that the agent reads or writes for this chat are here; no other chat reaches them. Put files
here that it shall know, and ask for them by name, or ask it to list the files.
"""


def work_dirs_of(
    config: Config, channel: str, session: SessionKey, bound: Sequence[str] = ()
) -> tuple[Path, ...]:
    """The directories of a session: those it is `bound` to, else the usual ones."""
    if bound:
        return tuple(Path(one) for one in bound)
    section = config.channels.get(channel)
    is_alone = section is not None and section.workdir == "session"
    first = work_dir_of(config.state_dir, session, is_alone=is_alone)
    return (first, *(section.shared_dirs if section else ()))


def work_dir_of(state_dir: Path, session: SessionKey, *, is_alone: bool = False) -> Path:
    """The usual directory of a session. Names are hashes: ids may hold anything."""
    if session.directory is not None:
        return Path(session.directory)
    owner = session if is_alone else replace(session, thread=None, task=None)
    return state_dir / "work" / owner.digest


def make_work_dir(state_dir: Path, path: Path) -> None:
    """Make a directory of ours if it is missing; a new one explains itself. Blocks on the disk.

    One that somebody named is theirs to make: where it is missing, tools say so.
    """
    if path.is_relative_to(state_dir) and not path.exists():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / "README.md").write_text(WELCOME, encoding="utf-8")


def checked_dirs(state_dir: Path, paths: Sequence[Path]) -> tuple[str, ...]:
    """Directories to bind a session to, as the store keeps them. Blocks on the disk.

    Raise WorkDirsDiffer when one of them cannot be used.
    """
    checked = []
    for path in paths:
        real = Path(os.path.realpath(path.expanduser()))
        if not real.is_dir():
            raise WorkDirsDiffer(f"work dir {path}: no such directory; make it first")
        if real.is_relative_to(os.path.realpath(state_dir)):
            raise WorkDirsDiffer(
                f"work dir {path}: lies in clawbot's own state directory; choose another one"
            )
        checked.append(str(real))
    return tuple(dict.fromkeys(checked))
