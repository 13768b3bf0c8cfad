"""A turn's context for tools, with nothing behind it."""

import asyncio
from pathlib import Path
from typing import Never, cast

from clawbot.clock import SystemClock
from clawbot.ports import Store
from clawbot.session_key import SessionKey
from clawbot.tools.context import TurnContext


class Silent:
    """A reporter that tells nobody."""

    def text(self, draft: str) -> None: ...

    def progress(self, line: str) -> None: ...


class NoStore:
    """A store that no tool of these tests may touch."""

    def __getattr__(self, name: str) -> Never:
        raise AssertionError(f"the store's {name} was used")


def context_in(
    *work_dirs: Path,
    deadline: float | None = None,
    is_owner: bool = False,
    session_dir: Path | None = None,
    store: Store | None = None,
) -> TurnContext:
    """A context whose work directories are these; by default it ends in a minute."""
    return TurnContext(
        session=SessionKey.of_global(),
        work_dirs=work_dirs,
        readable_dirs=work_dirs if session_dir is None else (*work_dirs, session_dir),
        session_dir=session_dir or Path("/nowhere"),
        is_owner=is_owner,
        channel="web",
        deadline=SystemClock().monotonic() + 60 if deadline is None else deadline,
        reporter=Silent(),
        stopping=asyncio.Event(),
        store=store or cast("Store", NoStore()),
    )


def names(folder: Path) -> list[str]:
    """What is in a directory."""
    return sorted(entry.name for entry in folder.iterdir())
